// SPDX-License-Identifier: Apache-2.0
/// One small launch of every operation, prepared: for what must hold of all of them.
#pragma once

#include <ratify/ratify.cuh>

#include "executors.hpp"
#include "random.hpp"

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ratify_test {

/// An operation with its operands in an executor's memory, ready to launch again and again.
template <class Executor>
class prepared {
 public:
  prepared(Executor& on, std::string name) : name(std::move(name)), on_(on) {}
  prepared(prepared const&) = delete;
  prepared& operator=(prepared const&) = delete;

  std::string const name;
  std::function<ratify::status()> launch;
  int stages = 0;  ///< kernels of a launch

  template <class T>
  T const* input(std::vector<T> const& v) {
    return add<T>(v, false, false, false);
  }
  /// Changed in place: `reset` puts back what stood there.
  template <class T>
  T* changed(std::vector<T> const& v) {
    return add<T>(v, true, true, false);
  }
  /// Written only, full of 0xFF bytes.
  template <class T>
  T* output(size_t n) {
    return add<T>(std::vector<unsigned char>(n * sizeof(T), 0xff), true, true, true);
  }

  template <class Operation>
  void operation(typename Operation::params const& p) {
    if (auto const s = Operation::can_launch(p, on_); !s) throw std::runtime_error(name + ": " + s.reason());
    size_t const bytes = Operation::workspace_bytes(p, on_);
    unsigned char* const scratch = add<unsigned char>(std::vector<unsigned char>(bytes, 0xff), true, false, true);
    launch = [p, scratch, bytes, this] { return Operation::launch(p, {scratch, bytes}, on_); };
    (void)Operation::stages(p, {scratch, bytes}, on_, [&](auto const&) { return ++stages, ratify::status{}; });
  }

  /// Outputs and scratch hold nothing but `poison`, and what is changed in place what it held at first.
  void reset(unsigned char poison) {
    for (piece& m : pieces_)
      if (m.reset) m.memory.write(m.poisoned ? std::vector<unsigned char>(m.first.size(), poison) : m.first);
  }
  /// The bytes of everything that is written and is not scratch, one piece after the other.
  std::vector<unsigned char> results() const {
    std::vector<unsigned char> all;
    for (piece const& m : pieces_) {
      if (!m.result) continue;
      auto const bytes = m.memory.read();
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
 private:
  struct piece {
    std::vector<unsigned char> first;
    buffer<unsigned char, Executor> memory;
    bool reset, result, poisoned;
  };
  template <class T, class From>
  T* add(std::vector<From> const& v, bool reset, bool result, bool poisoned) {
    auto const* const begin = reinterpret_cast<unsigned char const*>(v.data());
    std::vector<unsigned char> bytes(begin, begin + v.size() * sizeof(From));
    pieces_.push_back({bytes, {on_, bytes}, reset, result, poisoned});
    return reinterpret_cast<T*>(pieces_.back().memory.data());
  }
  Executor& on_;
  std::vector<piece> pieces_;
};

namespace every_operation {

struct rejection : ratify::acceptance_policy {
  static constexpr ratify::acceptance_rule rule = ratify::acceptance_rule::rejection;
};
struct sample : ratify::draft_walk_policy {
  static constexpr auto mode = ratify::draft_mode::sample;
};
struct replay : ratify::recurrence_policy {
  static constexpr auto mode = ratify::recurrence_mode::replay;
};
struct read : ratify::recurrence_policy {
  static constexpr auto mode = ratify::recurrence_mode::read;
};

}  // namespace every_operation

/// Calls `f(prepared<Executor>&)` for every operation of the library and every mode of it that has kernels of its own,
/// at default knobs.
template <class Executor, class F>
void for_each_operation(Executor& on, F&& f) {
  using ratify::e4m3;
  random_source random(91);
  auto const numbers = [&](auto format, size_t n) { return random.normals<decltype(format)>(n); };
  std::vector<int32_t> const starts = {0, 3, 8};
  auto const begin = [&](char const* name) { return std::make_unique<prepared<Executor>>(on, name); };
  auto const acceptance = [&](char const* name, auto rule) {
    auto const t = begin(name);
    using policy = decltype(rule);
    typename ratify::acceptance<policy>::params p;
    constexpr int vocab = 1000;
    p.logits = {t->input(numbers(typename policy::logit_format{}, 8 * vocab)), vocab};
    p.query_start = t->input(starts);
    p.draft = {t->input(std::vector<int32_t>{1, 2, -1, -1, 5, 6, 7, 8}), 4};
    p.temperature = t->input(std::vector<float>{0.7f, 1.0f});
    p.top_p = t->input(std::vector<float>{0.9f, 1.0f});
    p.top_k = t->input(std::vector<int32_t>{50, 0});
    p.seed = t->input(std::vector<int64_t>{1, 2});
    p.position = t->input(std::vector<int64_t>{10, 20});
    p.end_tokens = t->input(std::vector<int32_t>{0});
    p.end_count = 1;
    p.limit = t->input(std::vector<int32_t>{5, 5});
    p.tokens = t->template output<int32_t>(10);
    p.emitted = t->template output<int32_t>(2);
    p.accepted = t->template output<int32_t>(2);
    p.finish = t->template output<int32_t>(2);
    p.row_status = t->template output<int32_t>(8);
    p.rows = 8;
    p.requests = 2;
    p.vocab = vocab;
    p.max_drafts = 4;
    if constexpr (policy::rule == ratify::acceptance_rule::rejection) {
      std::vector<int32_t> candidates(2 * 4 * 3);
      for (size_t i = 0; i < candidates.size(); ++i) candidates[i] = static_cast<int32_t>(1 + i % 9);
      p.draft_candidates = {t->input(candidates), 12, 3};
      p.draft_candidate_q = {t->input(random.uniforms<float>(candidates.size(), 0.1f, 1.0f)), 12, 3};
      p.candidates = 3;
      p.cursors.kept = t->changed(std::vector<int32_t>{9, 9});
      p.cursors.fresh = t->changed(std::vector<int32_t>{1, 1});
      p.cursors.ring_start = t->changed(std::vector<int32_t>{3, 4});
      p.cursors.ring_count = t->changed(std::vector<int32_t>{5, 6});
      p.cursors.flush = p.cursors.next_flush = t->changed(std::vector<int32_t>{0, 1});
      p.cursors.ring_places = 16;
      p.cursors.round_rows = 5;
    }
    t->template operation<ratify::acceptance<policy>>(p);
    f(*t);
  };
  acceptance("acceptance", ratify::acceptance_policy{});
  acceptance("acceptance, rejection", every_operation::rejection{});
  {
    auto const t = begin("acceptance_summary");
    using policy = ratify::acceptance_policy;
    typename ratify::acceptance_summary<policy>::params p;
    p.logits = {t->input(numbers(typename policy::logit_format{}, 8 * 1000)), 1000};
    p.query_start = t->input(starts);
    p.temperature = t->input(std::vector<float>{0.7f, 1.0f});
    p.top_p = t->input(std::vector<float>{0.9f, 1.0f});
    p.top_k = t->input(std::vector<int32_t>{50, 0});
    p.words = {t->template output<ratify::acceptance_word>(8 * 64), 64};
    p.rows = 8;
    p.requests = 2;
    p.max_drafts = 4;
    p.vocab = 1000;
    p.places = 64;
    t->template operation<ratify::acceptance_summary<policy>>(p);
    f(*t);
  }
  constexpr int page = 16, max_pages = 5, d = 256;
  std::vector<int32_t> const table = {0, 2, 4, 6, 8, 1, 3, 5, 7, 9}, lengths = {70, 40};
  {
    auto const t = begin("append");
    using policy = ratify::append_policy;
    using kv = typename policy::kv_format;
    typename ratify::append<policy>::params p;
    p.k = {t->input(numbers(typename policy::input_format{}, 8 * d)), d, d};
    p.v = {t->input(numbers(typename policy::input_format{}, 8 * d)), d, d};
    p.k_pages = {t->changed(numbers(kv{}, 10 * page * d)), page * d, d, d};
    p.v_pages = {t->changed(numbers(kv{}, 10 * page * d)), page * d, d, d};
    p.block_table = {t->input(table), max_pages};
    p.context_len = t->input(lengths);
    p.query_start = t->input(starts);
    p.k_scale = p.v_scale = t->input(std::vector<float>{0.5f});
    p.rows = 8;
    p.requests = 2;
    p.kv_heads = 1;
    p.head_dim = d;
    p.page_size = page;
    p.max_pages = max_pages;
    t->template operation<ratify::append<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("attention");
    using policy = ratify::attention_policy;
    typename ratify::attention<policy>::params p;
    p.q = {t->input(numbers(typename policy::q_format{}, 8 * 2 * d)), 2 * d, d};
    p.k_pages = {t->input(numbers(typename policy::kv_format{}, 10 * page * d)), page * d, d, d};
    p.v_pages = {t->input(numbers(typename policy::kv_format{}, 10 * page * d)), page * d, d, d};
    p.block_table = {t->input(table), max_pages};
    p.context_len = t->input(lengths);
    p.query_start = t->input(starts);
    p.k_scale = p.v_scale = t->input(std::vector<float>{0.5f});
    p.out = {t->template output<typename policy::out_format>(8 * 2 * d), 2 * d, d};
    p.lse = t->template output<float>(8 * 2);
    p.rows = 8;
    p.requests = 2;
    p.q_heads = 2;
    p.kv_heads = 1;
    p.page_size = page;
    p.max_pages = max_pages;
    p.max_context = page * max_pages;
    p.softmax_scale = 0.0625f;
    t->template operation<ratify::attention<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("convolution");
    using policy = ratify::convolution_policy;
    typename ratify::convolution<policy>::params p;
    constexpr int channels = 200, rows = 5, slot = (policy::width - 1 + rows) * channels;
    p.x = {t->input(numbers(typename policy::input_format{}, 8 * channels)), channels};
    p.weight = t->input(numbers(typename policy::weight_format{}, channels * policy::width));
    p.window_pool = t->changed(numbers(typename policy::input_format{}, 3 * slot));
    p.slot_stride = slot;
    p.slot = t->input(std::vector<int32_t>{2, 0});
    p.kept = t->input(std::vector<int32_t>{1, 4});
    p.query_start = t->input(starts);
    p.out = {t->template output<typename policy::output_format>(8 * channels), channels};
    p.rows = 8;
    p.requests = 2;
    p.channels = channels;
    p.max_rows = rows;
    p.slots = 3;
    t->template operation<ratify::convolution<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("decode");
    using policy = ratify::decode_policy;
    typename ratify::decode<policy>::params p;
    std::vector<uint8_t> codes(257);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
    p.codes = t->input(codes);
    p.values = t->template output<typename policy::to>(codes.size());
    p.count = 257;
    t->template operation<ratify::decode<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("draft_convolution");
    using policy = ratify::draft_convolution_policy;
    typename ratify::draft_convolution<policy>::params p;
    p.x = {t->input(numbers(typename policy::input_format{}, 2 * 3 * 48)), 3 * 48, 48};
    p.base = t->input(numbers(typename policy::base_format{}, 2 * 48));
    p.delta = {t->input(numbers(typename policy::delta_format{}, 2 * 3 * 6)), 3 * 6, 6};
    p.out = {t->template output<typename policy::output_format>(2 * 3 * 48), 3 * 48, 48};
    p.requests = 2;
    p.slots = 3;
    p.channels = 48;
    t->template operation<ratify::draft_convolution<policy>>(p);
    f(*t);
  }
  auto const draft_walk = [&](char const* name, auto mode) {
    auto const t = begin(name);
    using policy = decltype(mode);
    typename ratify::draft_walk<policy>::params p;
    std::vector<int32_t> candidates(2 * 3 * 5);
    for (auto& c : candidates) c = random.integer(-1, 19);
    p.unary = {t->input(numbers(float{}, 2 * 3 * 5)), 15, 5};
    p.candidates = {t->input(candidates), 15, 5};
    p.left = {t->input(numbers(typename policy::pair_format{}, 20 * 40)), 40};
    p.right = {t->input(numbers(typename policy::pair_format{}, 20 * 40)), 40};
    p.project = {t->input(numbers(float{}, 2 * 3 * 40)), 120, 40};
    p.anchor = t->input(std::vector<int32_t>{7, 0});
    p.temperature = t->input(std::vector<float>{0.7f, 1.0f});
    p.seed = t->input(std::vector<int64_t>{1, 2});
    p.position = t->input(std::vector<int64_t>{10, 20});
    p.tokens = {t->template output<int32_t>(6), 3};
    p.q = {t->template output<float>(30), 15, 5};
    p.requests = 2;
    p.slots = 3;
    p.candidate_count = 5;
    p.rank = 40;
    p.vocab = 20;
    t->template operation<ratify::draft_walk<policy>>(p);
    f(*t);
  };
  draft_walk("draft_walk", ratify::draft_walk_policy{});
  draft_walk("draft_walk, sample", every_operation::sample{});
  {
    auto const t = begin("embedding");
    using policy = ratify::embedding_policy;
    typename ratify::embedding<policy>::params p;
    p.table = t->input(numbers(typename policy::table_format{}, 20 * 100));
    p.tokens = t->input(std::vector<int32_t>{3, 19, 0, -1});
    p.out = {t->template output<typename policy::output_format>(4 * 100), 100};
    p.rows = 4;
    p.columns = 100;
    p.vocab = 20;
    t->template operation<ratify::embedding<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("gated_rmsnorm");
    using policy = ratify::gated_rmsnorm_policy;
    typename ratify::gated_rmsnorm<policy>::params p;
    p.x = {t->input(numbers(typename policy::input_format{}, 3 * 2 * 128)), 256, 128};
    p.z = {t->input(numbers(typename policy::gate_format{}, 3 * 2 * 128)), 256, 128};
    p.weight = t->input(numbers(typename policy::weight_format{}, 128));
    p.out = {t->template output<typename policy::output_format>(3 * 2 * 128), 256, 128};
    p.rows = 3;
    p.heads = 2;
    p.head_dim = 128;
    t->template operation<ratify::gated_rmsnorm<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("gating");
    using policy = ratify::gating_policy;
    typename ratify::gating<policy>::params p;
    p.a = {t->input(numbers(typename policy::input_format{}, 8 * 20)), 20};
    p.b = {t->input(numbers(typename policy::input_format{}, 8 * 20)), 20};
    p.a_log = t->input(numbers(float{}, 20));
    p.dt_bias = t->input(numbers(float{}, 20));
    p.g = t->template output<float>(160);
    p.beta = t->template output<float>(160);
    p.rows = 8;
    p.value_heads = 20;
    t->template operation<ratify::gating<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("merge");
    using policy = ratify::merge_policy;
    typename ratify::merge<policy>::params p;
    p.partial_out = {t->input(numbers(float{}, 3 * 2 * 4 * 70)), 2 * 4 * 70, 4 * 70, 70};
    p.partial_lse = {t->input(numbers(float{}, 3 * 2 * 4)), 8};
    p.out = {t->template output<typename policy::out_format>(2 * 4 * 70), 4 * 70, 70};
    p.lse = t->template output<float>(8);
    p.parts = 3;
    p.rows = 2;
    p.q_heads = 4;
    p.head_dim = 70;
    t->template operation<ratify::merge<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("projection");
    using policy = ratify::projection_policy;
    typename ratify::projection<policy>::params p;
    constexpr int n = 70, k = 128;
    std::vector<uint8_t> packed(n * k / 2);
    for (auto& b : packed) b = static_cast<uint8_t>(random.word());
    p.x = {t->input(numbers(typename policy::input_format{}, 8 * k)), k};
    p.w_packed = t->input(packed);
    p.w_scale = t->input(numbers(e4m3{}, n * k / 16));
    p.w_global = t->input(std::vector<float>{0.5f});
    p.y = {t->template output<typename policy::output_format>(8 * n), n};
    p.rows = 8;
    p.n = n;
    p.k = k;
    t->template operation<ratify::projection<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("qk_norm_rotary");
    using policy = ratify::qk_norm_rotary_policy;
    typename ratify::qk_norm_rotary<policy>::params p;
    p.x = {t->input(numbers(typename policy::input_format{}, 3 * 2 * d)), 2 * d, d};
    p.weight = t->input(numbers(typename policy::weight_format{}, d));
    p.cos = t->input(numbers(float{}, 10 * 32));
    p.sin = t->input(numbers(float{}, 10 * 32));
    p.positions = t->input(std::vector<int32_t>{0, 9, 4});
    p.out = {t->template output<typename policy::output_format>(3 * 2 * d), 2 * d, d};
    p.rows = 3;
    p.heads = 2;
    p.head_dim = d;
    p.rotary_dim = 64;
    p.max_position = 10;
    t->template operation<ratify::qk_norm_rotary<policy>>(p);
    f(*t);
  }
  auto const recurrence = [&](char const* name, auto mode) {
    auto const t = begin(name);
    using policy = decltype(mode);
    typename ratify::recurrence<policy>::params p;
    constexpr int state = 2 * policy::key_dim * policy::value_dim;
    auto g = numbers(float{}, 16);
    for (auto& x : g) x = -std::fabs(x);
    p.q = {t->input(numbers(typename policy::input_format{}, 8 * 128)), 128, 128};
    p.k = {t->input(numbers(typename policy::input_format{}, 8 * 128)), 128, 128};
    p.v = {t->input(numbers(typename policy::input_format{}, 8 * 256)), 256, 128};
    p.g = t->input(g);
    p.beta = t->input(random.uniforms<float>(16, 0.0f, 1.0f));
    p.state_pool = t->changed(numbers(float{}, 11 * state));
    p.slot_stride = state;
    p.query_start = t->input(starts);
    if constexpr (policy::mode == ratify::recurrence_mode::replay) {
      constexpr int places = 16;
      p.slot = t->input(std::vector<int32_t>{2, 0});
      p.ring_start = t->input(std::vector<int32_t>{14, 3});
      p.ring_count = t->input(std::vector<int32_t>{4, 0});
      p.flush = t->input(std::vector<int32_t>{1, 0});
      p.ring_k = {t->changed(numbers(float{}, 11 * places * 128)), places * 128};
      p.ring_u = {t->changed(numbers(float{}, 11 * places * 256)), places * 256};
      p.ring_g = {t->changed(std::vector<float>(11 * places * 2, -0.25f)), places * 2};
      p.ring_places = places;
    } else {
      p.initial_slot = t->input(std::vector<int32_t>{0, 1});
    }
    if constexpr (policy::mode == ratify::recurrence_mode::snapshots) {
      p.selector = t->input(std::vector<int32_t>{0, 2});
      p.snapshot_slot = {t->input(std::vector<int32_t>{2, 3, 4, -1, -1, 5, 6, 7, 8, 9}), 5};
    }
    p.out = {t->template output<typename policy::output_format>(8 * 256), 256, 128};
    p.rows = 8;
    p.requests = 2;
    p.key_heads = 1;
    p.value_heads = 2;
    p.max_rows = 5;
    p.scale = 0.0883883461f;
    p.slots = 11;
    t->template operation<ratify::recurrence<policy>>(p);
    f(*t);
  };
  recurrence("recurrence", ratify::recurrence_policy{});
  recurrence("recurrence, replay", every_operation::replay{});
  recurrence("recurrence, read", every_operation::read{});
  {
    auto const t = begin("rmsnorm");
    using policy = ratify::rmsnorm_policy;
    typename ratify::rmsnorm<policy>::params p;
    p.x = {t->input(numbers(typename policy::input_format{}, 3 * 500)), 500};
    p.residual = {t->input(numbers(float{}, 3 * 500)), 500};
    p.residual_out = {t->template output<float>(3 * 500), 500};
    p.weight = t->input(numbers(typename policy::weight_format{}, 500));
    p.out = {t->template output<typename policy::output_format>(3 * 500), 500};
    p.rows = 3;
    p.columns = 500;
    t->template operation<ratify::rmsnorm<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("shadow_compare");
    using policy = ratify::shadow_policy;
    typename ratify::shadow_compare<policy>::params p;
    p.driver = {t->input(numbers(policy::format{}, 30 * 100)), 100};
    p.shadow = {t->input(numbers(policy::format{}, 30 * 90)), 90};
    p.record = t->changed(std::vector<ratify::shadow_record>{{3, 5, 1, 2, 0, 0}});
    p.rows = 30;
    p.columns = 90;
    t->template operation<ratify::shadow_compare<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("shadow_copy");
    using policy = ratify::shadow_policy;
    typename ratify::shadow_copy<policy>::params p;
    p.from = {t->input(numbers(policy::format{}, 5 * 100)), 100};
    p.to = {t->template output<policy::format>(5 * 90), 90};
    p.rows = 5;
    p.columns = 90;
    t->template operation<ratify::shadow_copy<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("sigmoid_gate");
    using policy = ratify::sigmoid_gate_policy;
    typename ratify::sigmoid_gate<policy>::params p;
    p.x = {t->input(numbers(typename policy::input_format{}, 3 * 2 * 64)), 128, 64};
    p.gate = {t->input(numbers(typename policy::gate_format{}, 3 * 2 * 64)), 128, 64};
    p.out = {t->template output<typename policy::output_format>(3 * 2 * 64), 128, 64};
    p.rows = 3;
    p.heads = 2;
    p.head_dim = 64;
    t->template operation<ratify::sigmoid_gate<policy>>(p);
    f(*t);
  }
  {
    auto const t = begin("silu_and_mul");
    using policy = ratify::silu_and_mul_policy;
    typename ratify::silu_and_mul<policy>::params p;
    p.x = {t->input(numbers(typename policy::input_format{}, 3 * 200)), 200};
    p.out = {t->template output<typename policy::output_format>(3 * 100), 100};
    p.rows = 3;
    p.columns = 100;
    t->template operation<ratify::silu_and_mul<policy>>(p);
    f(*t);
  }
}

}  // namespace ratify_test
