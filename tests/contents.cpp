// SPDX-License-Identifier: Apache-2.0
/// The check of device contents: each contradiction between the numbers in device memory and the capacities is put
/// into words; consistent numbers pass; an executor that wants the check refuses the launch.
#include <ratify/attention.cuh>
#include <ratify/cache.cuh>
#include <ratify/convolution.cuh>
#include <ratify/drafting.cuh>
#include <ratify/embedding.cuh>
#include <ratify/normalization.cuh>
#include <ratify/projection.cuh>
#include <ratify/recurrence.cuh>

#include "support/executors.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

namespace {

using ratify_test::buffer;
using ratify_test::on_each_executor;

/// What the check says of the parameters; "" if nothing.
template <class Operation, class Executor>
std::string found(typename Operation::params const& p, Executor& on) {
  ratify::contents_report report;
  ratify::status const s = Operation::check_contents(p, on, report);
  CHECK((s.code() == ratify::status_code::ok || s.code() == ratify::status_code::invalid_argument));
  CHECK(std::string(s.reason()) == report.text);
  return s.reason();
}

/// Two requests of two rows each, and tensors that every launch may point at: what they hold is not read.
template <class Executor>
struct scene {
  explicit scene(Executor& executor)
      : on(executor),
        anything(on, std::vector<float>(1 << 16, 1.0f)),
        starts(on, {0, 2, 4}),
        first(on, {0, 1}),
        second(on, {0, 0}),
        third(on, {0, 0}),
        fourth(on, {0, 0}),
        table(on, {0, 1, 2, 3}) {}
  /// Another place for each number, of 1024 floats.
  template <class Element>
  Element* any(int place = 0) {
    return reinterpret_cast<Element*>(anything.data() + place * 1024);
  }
  Executor& on;
  buffer<float, Executor> anything;
  buffer<int32_t, Executor> starts, first, second, third, fourth, table;
};

}  // namespace

TEST_CASE("contents: the bounds of rows of every operation that has them") {
  on_each_executor([](auto& on) {
    using op = ratify::append<ratify::input_format<float>, ratify::kv_format<ratify::f16>>;
    scene s(on);
    op::params p;
    p.k = p.v = {s.template any<float>(), 64, 64};
    p.k_pages = {s.template any<ratify::f16>(8), 1024, 64, 64};
    p.v_pages = {s.template any<ratify::f16>(16), 1024, 64, 64};
    p.block_table = {s.table.data(), 2};
    p.context_len = s.first.data();
    p.query_start = s.starts.data();
    p.k_scale = p.v_scale = s.template any<float>();
    p.rows = 4;
    p.requests = 2;
    p.kv_heads = 1;
    p.head_dim = 64;
    p.page_size = 16;
    p.max_pages = 2;
    p.pool_pages = 4;
    s.first.write({20, 32});
    CHECK(found<op>(p, on) == "");
    s.starts.write({-5, 2, 4});
    CHECK(found<op>(p, on) == "ratify::append: query_start[0] is -5, which is outside 0 to rows");
    s.starts.write({0, 2, 5});
    CHECK(found<op>(p, on) == "ratify::append: query_start[2] is 5, which is outside 0 to rows");
    s.starts.write({0, 3, 2});
    CHECK(found<op>(p, on) == "ratify::append: query_start[2] is 2, less than the entry before it");
    s.starts.write({0, 2, 3});  // rows that no request names are no contradiction
    CHECK(found<op>(p, on) == "");
    s.first.write({20, 33});
    CHECK(found<op>(p, on) == "ratify::append: context_len[1] is 33, which is outside 0 to max_pages * page_size");
    s.first.write({20, 32});
    s.table.write({0, 4, 2, 3});
    CHECK(found<op>(p, on) == "ratify::append: block_table[1] is 4, which is outside the pool of pool_pages pages");
    s.table.write({-7, 1, 2, 3});  // the rows of the first request lie in its second page
    CHECK(found<op>(p, on) == "");
    s.table.write({0, 1, 2, 1});
    s.first.write({20, 20});
    CHECK(found<op>(p, on) == "ratify::append: rows of requests 0 and 1 share token 3 of page 1");
    s.first.write({20, 18});  // other tokens of the same page
    CHECK(found<op>(p, on) == "");
    s.table.write({1, 1, 2, 3});
    p.page_size = 1;
    s.first.write({2, 2});
    CHECK(found<op>(p, on) == "ratify::append: rows of requests 0 and 0 share token 0 of page 1");
  });
}

TEST_CASE("contents: attention's lengths and tables") {
  on_each_executor([](auto& on) {
    using op = ratify::attention<ratify::head_dim<64>, ratify::q_format<float>, ratify::kv_format<ratify::f16>>;
    scene s(on);
    op::params p;
    p.q = {s.template any<float>(), 64, 64};
    p.k_pages = p.v_pages = {s.template any<ratify::f16>(), 1024, 64, 64};
    p.block_table = {s.table.data(), 2};
    p.context_len = s.first.data();
    p.query_start = s.starts.data();
    p.k_scale = p.v_scale = s.template any<float>();
    p.out = {s.template any<float>() + 4096, 64, 64};
    p.rows = 4;
    p.requests = 2;
    p.max_rows = 2;
    p.q_heads = p.kv_heads = 1;
    p.page_size = 16;
    p.max_pages = 2;
    p.pool_pages = 4;
    p.max_context = 32;
    p.softmax_scale = 0.125f;
    s.first.write({20, 32});
    CHECK(found<op>(p, on) == "");
    s.starts.write({0, 3, 4});
    CHECK(found<op>(p, on) ==
          "ratify::attention: query_start[1] is 3, which gives the request before it more rows than max_rows");
    s.starts.write({0, 2, 4});
    s.first.write({33, 32});
    CHECK(found<op>(p, on) == "ratify::attention: context_len[0] is 33, which is outside 0 to max_context");
    s.first.write({20, 32});
    p.total_context = 51;
    CHECK(found<op>(p, on) == "ratify::attention: context_len[1] is 32, with which all requests exceed total_context");
    p.total_context = 0;
    s.table.write({0, 1, 9, 3});
    CHECK(found<op>(p, on) == "ratify::attention: block_table[2] is 9, which is outside the pool of pool_pages pages");
    p.window = 4;  // the second request now looks at its second page alone
    CHECK(found<op>(p, on) == "");
  });
}

TEST_CASE("contents: the convolution's slots and kept rows") {
  on_each_executor([](auto& on) {
    using op = ratify::convolution<>;
    scene s(on);
    op::params p;
    p.x = {s.template any<ratify::f16>(), 64};
    p.weight = s.template any<ratify::f16>();
    p.window_pool = s.template any<ratify::f16>();
    p.slot_stride = 1024;
    p.slot = s.first.data();
    p.kept = s.second.data();
    p.fresh = s.third.data();
    p.query_start = s.starts.data();
    p.out = {s.template any<ratify::f16>() + 4096, 64};
    p.rows = 4;
    p.requests = 2;
    p.channels = 64;
    p.max_rows = 4;
    p.pool_slots = 2;
    CHECK(found<op>(p, on) == "");
    s.first.write({0, 2});
    CHECK(found<op>(p, on) == "ratify::convolution: slot[1] is 2, which is outside the pool of pool_slots slots");
    s.first.write({0, -1});
    CHECK(found<op>(p, on) == "");
    s.second.write({5, 0});
    CHECK(found<op>(p, on) == "ratify::convolution: kept[0] is 5, which is outside 0 to max_rows");
    s.second.write({2, 0});
    s.third.write({1, 0});
    CHECK(found<op>(p, on) == "ratify::convolution: kept[0] is 2, although the request is fresh");
    s.third.write({7, 0});
    CHECK(found<op>(p, on) == "ratify::convolution: fresh[0] is 7, which is neither 0 nor 1");
    s.third.write({0, 0});
    s.first.write({1, 1});
    CHECK(found<op>(p, on) == "ratify::convolution: requests 0 and 1 share slot 1");
    s.starts.write({0, 2, 2});  // the second one is not in the round
    CHECK(found<op>(p, on) == "");
  });
}

namespace {

/// What every mode of the recurrence has in common.
template <class Params, class Scene>
void fill_recurrence(Params& p, Scene& s) {
  using element = typename Params::input_format;
  p.q = p.k = p.v = {s.template any<element>(), 128, 128};
  p.g = p.beta = s.template any<float>();
  p.state_pool = s.template any<float>();
  p.slot_stride = 128 * 128;
  p.query_start = s.starts.data();
  p.fresh = s.fourth.data();
  p.out.data = reinterpret_cast<decltype(p.out.data)>(s.template any<float>() + 4096);
  p.out.row_stride = p.out.head_stride = 128;
  p.rows = 4;
  p.requests = 2;
  p.key_heads = p.value_heads = 1;
  p.max_rows = 2;
  p.pool_slots = 4;
}

}  // namespace

TEST_CASE("contents: the recurrence's slots and selectors") {
  on_each_executor([](auto& on) {
    using op = ratify::recurrence<>;
    scene s(on);
    op::params p;
    fill_recurrence(p, s);
    p.initial_slot = s.first.data();
    p.selector = s.second.data();
    p.snapshot_slot = {s.table.data(), 2};
    s.first.write({0, 2});
    CHECK(found<op>(p, on) == "");
    s.first.write({4, 1});
    CHECK(found<op>(p, on) ==
          "ratify::recurrence: initial_slot[0] is 4, which is outside the pool of pool_slots slots");
    s.first.write({0, 2});
    s.second.write({3, 0});
    CHECK(found<op>(p, on) == "ratify::recurrence: selector[0] is 3, which is outside 0 to snapshot_sets * max_rows");
    s.second.write({2, 0});
    s.table.write({0, -1, 2, 3});
    CHECK(found<op>(p, on) == "ratify::recurrence: selector[0] is 2, which names a snapshot that was not kept");
    s.table.write({0, 1, 2, 8});
    CHECK(found<op>(p, on) ==
          "ratify::recurrence: snapshot_slot[3] is 8, which is outside the pool of pool_slots slots");
    s.table.write({0, 1, 2, 3});
    s.fourth.write({1, 0});
    CHECK(found<op>(p, on) == "ratify::recurrence: selector[0] is 2, although the request is fresh");
    s.fourth.write({2, 0});
    CHECK(found<op>(p, on) == "ratify::recurrence: fresh[0] is 2, which is neither 0 nor 1");
    s.fourth.write({0, 0});
    s.table.write({-2, 1, 2, 3});
    CHECK(found<op>(p, on) ==
          "ratify::recurrence: snapshot_slot[0] is -2, which is outside the pool of pool_slots slots");
    s.table.write({0, 4, 2, 3});
    CHECK(found<op>(p, on) ==
          "ratify::recurrence: selector[0] is 2, which names a slot outside the pool of pool_slots slots");
  });
}

TEST_CASE("contents: the slots that requests of the recurrence share") {
  on_each_executor([](auto& on) {
    using op = ratify::recurrence<>;
    scene s(on);
    op::params p;
    fill_recurrence(p, s);
    p.initial_slot = s.first.data();
    p.selector = s.second.data();
    p.snapshot_slot = {s.table.data(), 2};
    s.first.write({0, 0});
    s.table.write({-1, 1, 2, 3});  // one state to start from, which nobody writes
    CHECK(found<op>(p, on) == "");
    s.table.write({0, 1, 2, 3});
    CHECK(found<op>(p, on) == "ratify::recurrence: requests 0 and 1 share slot 0");
    s.fourth.write({0, 1});  // a fresh request reads no state
    CHECK(found<op>(p, on) == "");
    s.table.write({0, 1, 2, 1});
    CHECK(found<op>(p, on) == "ratify::recurrence: requests 0 and 1 share slot 1");
    s.table.write({0, 1, 2, 2});
    CHECK(found<op>(p, on) ==
          "ratify::recurrence: snapshot_slot[3] is 2, which is the slot of another row of the request");
    s.starts.write({0, 2, 3});  // the request has one row, and the entry of a second one is not read
    CHECK(found<op>(p, on) == "");
  });
}

TEST_CASE("contents: of two sets of snapshots the one that is written") {
  on_each_executor([](auto& on) {
    using op = ratify::recurrence<>;
    scene s(on);
    op::params p;
    fill_recurrence(p, s);
    p.initial_slot = s.first.data();
    p.selector = s.second.data();
    p.snapshot_slot = {s.table.data(), 4};
    p.snapshot_sets = 2;
    p.requests = 1;
    s.second.write({1, 0});
    s.table.write({3, 3, 1, 2});  // the first set is only read
    CHECK(found<op>(p, on) == "");
    s.second.write({3, 0});
    CHECK(found<op>(p, on) ==
          "ratify::recurrence: snapshot_slot[1] is 3, which is the slot of another row of the request");
  });
}

TEST_CASE("contents: a state that is only read, and what stands there for a request that is not in the round") {
  on_each_executor([](auto& on) {
    using op = ratify::recurrence<ratify::mode<ratify::recurrence_mode::read>>;
    scene s(on);
    op::params p;
    fill_recurrence(p, s);
    p.initial_slot = s.first.data();
    s.first.write({-1, 4});
    CHECK(found<op>(p, on) ==
          "ratify::recurrence: initial_slot[1] is 4, which is outside the pool of pool_slots slots");
    s.starts.write({0, 2, 2});
    CHECK(found<op>(p, on) == "");
    s.starts.write({0, 2, 4});
    s.first.write({1, 1});  // what is only read may be shared
    s.fourth.write({0, 1});
    CHECK(found<op>(p, on) == "");
    s.fourth.write({0, 7});
    CHECK(found<op>(p, on) == "ratify::recurrence: fresh[1] is 7, which is neither 0 nor 1");
  });
}

TEST_CASE("contents: the recurrence's rings") {
  on_each_executor([](auto& on) {
    using op = ratify::recurrence<ratify::mode<ratify::recurrence_mode::replay>>;
    scene s(on);
    buffer<int32_t, std::decay_t<decltype(on)>> flush(on, std::vector<int32_t>{0, 1});
    op::params p;
    fill_recurrence(p, s);
    p.slot = s.first.data();
    p.ring_start = s.second.data();
    p.ring_count = s.third.data();
    p.flush = flush.data();
    p.ring_k = p.ring_u = p.ring_g = {s.template any<float>(), 1 << 14};
    p.ring_places = 16;
    CHECK(found<op>(p, on) == "");
    s.second.write({16, 0});
    CHECK(found<op>(p, on) == "ratify::recurrence: ring_start[0] is 16, which is outside 0 to ring_places - 1");
    s.second.write({15, 0});
    s.third.write({14, 15});
    CHECK(found<op>(p, on) == "ratify::recurrence: ring_count[1] is 15, which is outside 0 to ring_places - rows");
    s.third.write({14, 0});
    flush.write({0, 3});
    CHECK(found<op>(p, on) == "ratify::recurrence: flush[1] is 3, which is neither 0 nor 1");
    s.first.write({1, 1});
    CHECK(found<op>(p, on) == "ratify::recurrence: requests 0 and 1 share slot 1");
    s.first.write({-1, -1});
    CHECK(found<op>(p, on) == "");
  });
}

TEST_CASE("contents: tokens, positions and segments") {
  on_each_executor([](auto& on) {
    scene s(on);
    using lookup = ratify::embedding<>;
    lookup::params e;
    e.table = s.template any<ratify::f16>();
    e.tokens = s.table.data();
    e.out = {s.template any<float>() + 4096, 16};
    e.rows = 4;
    e.columns = 16;
    e.vocab = 3;
    CHECK(found<lookup>(e, on) == "ratify::embedding: tokens[3] is 3, which is no token of the vocabulary");
    using rotate = ratify::qk_norm_rotary<>;
    rotate::params r;
    r.x = {s.template any<ratify::f16>(), 64, 64};
    r.weight = s.template any<ratify::f16>();
    r.cos = r.sin = s.template any<float>();
    r.positions = s.table.data();
    r.out = {s.template any<ratify::f16>() + 4096, 64, 64};
    r.rows = 4;
    r.heads = 1;
    r.head_dim = 64;
    r.rotary_dim = 32;
    r.max_position = 2;
    CHECK(found<rotate>(r, on) == "ratify::qk_norm_rotary: positions[2] is 2, which is outside 0 to max_position - 1");
    using project = ratify::projection<>;
    project::params w;
    w.x = {s.template any<ratify::f16>(), 32};
    w.w_packed = s.template any<uint8_t>();
    w.w_scale = s.template any<ratify::e4m3>();
    w.w_global = s.template any<float>();
    w.segment_end = s.first.data();
    w.segments = 2;
    w.y = {s.template any<ratify::f16>() + 4096, 8};
    w.rows = 1;
    w.n = 8;
    w.k = 32;
    s.first.write({3, 8});
    CHECK(found<project>(w, on) == "");
    s.first.write({3, 2});
    CHECK(found<project>(w, on) == "ratify::projection: segment_end[1] is 2, less than the end before it");
    s.first.write({3, 7});
    CHECK(found<project>(w, on) == "ratify::projection: segment_end[1] is 7, but the last segment must end at n");
    w.segments = 1;  // whose end is read if it is given
    CHECK(found<project>(w, on) == "ratify::projection: segment_end[0] is 3, but the last segment must end at n");
    w.segment_end = nullptr;
    CHECK(found<project>(w, on) == "");
  });
}

TEST_CASE("contents: the anchors and temperatures of draft_walk") {
  on_each_executor([](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    using op = ratify::draft_walk<ratify::mode<ratify::draft_mode::sample>>;
    scene s(on);
    buffer<float, executor> temperature(on, std::vector<float>{0.0f, 1.0f});
    op::params p;
    p.unary = p.project = {s.template any<float>(), 4, 2};
    p.candidates = {s.table.data(), 4, 2};
    p.left = p.right = {s.template any<float>(), 2};
    p.anchor = s.first.data();
    p.temperature = temperature.data();
    p.seed = p.position = s.template any<int64_t>();
    p.tokens = {s.template any<int32_t>(1), 2};
    p.requests = p.draft_slots = p.candidate_count = p.rank = p.vocab = 2;
    CHECK(found<op>(p, on) == "");
    s.first.write({0, 2});
    CHECK(found<op>(p, on) == "ratify::draft_walk: anchor[1] is 2, which is no token of the vocabulary");
    s.first.write({-1, 1});
    CHECK(found<op>(p, on) == "ratify::draft_walk: anchor[0] is -1, which is no token of the vocabulary");
    s.first.write({0, 1});
    temperature.write({1.0f, NAN});
    CHECK(found<op>(p, on) == "ratify::draft_walk: temperature[1] is nan, which is not finite or is negative");
    temperature.write({-0.5f, 1.0f});
    CHECK(found<op>(p, on) == "ratify::draft_walk: temperature[0] is -0.5, which is not finite or is negative");
  });
}

TEST_CASE("contents: an executor that wants the check refuses the launch and leaves the text to the caller") {
  std::vector<ratify::f16> table(3 * 16, ratify::f16{0x3c00});
  std::vector<float> out(2 * 16, 5.0f);
  std::vector<int32_t> tokens = {1, 3};
  using lookup = ratify::embedding<>;
  lookup::params p;
  p.table = table.data();
  p.tokens = tokens.data();
  p.out = {out.data(), 16};
  p.rows = 2;
  p.columns = 16;
  p.vocab = 3;
  ratify::contents_report report;
  ratify::host_options options;
  options.threads = 1;
  options.check_contents = &report;
  ratify::host_executor on(options);
  ratify::status const s = lookup::launch(p, {}, on);
  CHECK(s.code() == ratify::status_code::invalid_argument);
  CHECK(std::string(report.text) == "ratify::embedding: tokens[1] is 3, which is no token of the vocabulary");
  CHECK(s.reason() == report.text);
  CHECK(out == std::vector<float>(2 * 16, 5.0f));  // nothing was launched
  tokens[1] = 2;
  CHECK(lookup::launch(p, {}, on));
  CHECK(out == std::vector<float>(2 * 16, 1.0f));
}
