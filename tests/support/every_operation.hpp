// SPDX-License-Identifier: Apache-2.0
/// One small launch of every operation: for what must hold of all of them.
#pragma once

#include <ratify/describe.hpp>
#include <ratify/ratify.cuh>

#include "prepared.hpp"
#include "random.hpp"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace ratify_test {

/// Prepares launches with random operands: one member per operation, named like it, with the operation's type as its
/// template argument. Most launches have two requests of 3 and 5 rows.
template <class Executor>
class launch_maker {
 public:
  using made = std::unique_ptr<prepared<Executor>>;

  explicit launch_maker(Executor& on) : on_(on) {}

  template <class Operation>
  made acceptance() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    constexpr int vocab = 1000;
    p.logits = {t->input(numbers<typename policy::logit_format>(8 * vocab)), vocab};
    p.draft = {t->input(std::vector<int32_t>{1, 2, -1, -1, 5, 6, 7, 8}), 4};
    set_sampling(*t, p);
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
    p.vocab = vocab;
    if constexpr (policy::rule == ratify::acceptance_rule::rejection) {
      std::vector<int32_t> candidates(2 * 4 * 3);
      for (size_t i = 0; i < candidates.size(); ++i) candidates[i] = static_cast<int32_t>(1 + i % 9);
      p.draft_candidates = {t->input(candidates), 12, 3};
      p.draft_candidate_q = {t->input(random_.uniforms<float>(candidates.size(), 0.1f, 1.0f)), 12, 3};
      p.candidates = 3;
      p.cursors.kept = t->changed(std::vector<int32_t>{9, 9});
      p.cursors.fresh = t->changed(std::vector<int32_t>{1, 1});
      p.cursors.ring_start = t->changed(std::vector<int32_t>{3, 4});
      p.cursors.ring_count = t->changed(std::vector<int32_t>{5, 6});
      p.cursors.flush = p.cursors.next_flush = t->changed(std::vector<int32_t>{0, 1});
      p.cursors.ring_places = 16;
      p.cursors.round_rows = 5;
    }
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made acceptance_summary() {
    made t = begin<Operation>();
    typename Operation::params p;
    p.logits = {t->input(numbers<typename Operation::policy::logit_format>(8 * 1000)), 1000};
    set_sampling(*t, p);
    p.words = {t->template output<ratify::acceptance_word>(8 * 64), 64};
    p.vocab = 1000;
    p.places = 64;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made append() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.k = {t->input(numbers<typename policy::input_format>(8 * head_dim)), head_dim, head_dim};
    p.v = {t->input(numbers<typename policy::input_format>(8 * head_dim)), head_dim, head_dim};
    p.k_pages = pages(t->changed(numbers<typename policy::kv_format>(pool_elements)));
    p.v_pages = pages(t->changed(numbers<typename policy::kv_format>(pool_elements)));
    set_cache(*t, p);
    p.head_dim = head_dim;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made attention() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.q = {t->input(numbers<typename policy::q_format>(8 * 2 * head_dim)), 2 * head_dim, head_dim};
    p.k_pages = pages(t->input(numbers<typename policy::kv_format>(pool_elements)));
    p.v_pages = pages(t->input(numbers<typename policy::kv_format>(pool_elements)));
    set_cache(*t, p);
    p.out = {t->template output<typename policy::output_format>(8 * 2 * head_dim), 2 * head_dim, head_dim};
    p.lse = t->template output<float>(8 * 2);
    p.q_heads = 2;
    p.max_context = page_size * max_pages;
    p.softmax_scale = 0.0625f;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made convolution() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    constexpr int channels = 200, rows = 5, slot = (policy::width - 1 + rows) * channels;
    p.x = {t->input(numbers<typename policy::input_format>(8 * channels)), channels};
    p.weight = t->input(numbers<typename policy::weight_format>(channels * policy::width));
    p.window_pool = t->changed(numbers<typename policy::input_format>(3 * slot));
    p.slot_stride = slot;
    p.pool_slots = 3;
    p.slot = t->input(std::vector<int32_t>{2, 0});
    p.kept = t->input(std::vector<int32_t>{1, 4});
    p.query_start = t->input(query_start_);
    p.out = {t->template output<typename policy::output_format>(8 * channels), channels};
    p.rows = 8;
    p.requests = 2;
    p.channels = channels;
    p.max_rows = rows;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made decode() {
    made t = begin<Operation>();
    typename Operation::params p;
    std::vector<uint8_t> codes(257);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i);
    p.codes = t->input(codes);
    p.values = t->template output<typename Operation::policy::output_format>(codes.size());
    p.count = 257;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made draft_convolution() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.x = {t->input(numbers<typename policy::input_format>(2 * 3 * 48)), 3 * 48, 48};
    p.base = t->input(numbers<typename policy::base_format>(2 * 48));
    p.delta = {t->input(numbers<typename policy::delta_format>(2 * 3 * 6)), 3 * 6, 6};
    p.out = {t->template output<typename policy::output_format>(2 * 3 * 48), 3 * 48, 48};
    p.requests = 2;
    p.draft_slots = 3;
    p.channels = 48;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made draft_walk() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    std::vector<int32_t> candidates(2 * 3 * 5);
    for (auto& c : candidates) c = random_.integer(-1, 19);
    p.unary = {t->input(numbers<float>(2 * 3 * 5)), 15, 5};
    p.candidates = {t->input(candidates), 15, 5};
    p.left = {t->input(numbers<typename policy::pair_format>(20 * 40)), 40};
    p.right = {t->input(numbers<typename policy::pair_format>(20 * 40)), 40};
    p.project = {t->input(numbers<float>(2 * 3 * 40)), 120, 40};
    p.anchor = t->input(std::vector<int32_t>{7, 0});
    p.temperature = t->input(std::vector<float>{0.7f, 1.0f});
    p.seed = t->input(std::vector<int64_t>{1, 2});
    p.position = t->input(std::vector<int64_t>{10, 20});
    p.tokens = {t->template output<int32_t>(6), 3};
    p.q = {t->template output<float>(30), 15, 5};
    p.requests = 2;
    p.draft_slots = 3;
    p.candidate_count = 5;
    p.rank = 40;
    p.vocab = 20;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made embedding() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.table = t->input(numbers<typename policy::table_format>(20 * 100));
    p.tokens = t->input(std::vector<int32_t>{3, 19, 0, -1});
    p.out = {t->template output<typename policy::output_format>(4 * 100), 100};
    p.rows = 4;
    p.columns = 100;
    p.vocab = 20;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made gated_rmsnorm() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.x = {t->input(numbers<typename policy::input_format>(3 * 2 * 128)), 256, 128};
    p.z = {t->input(numbers<typename policy::gate_format>(3 * 2 * 128)), 256, 128};
    p.weight = t->input(numbers<typename policy::weight_format>(128));
    p.out = {t->template output<typename policy::output_format>(3 * 2 * 128), 256, 128};
    p.rows = 3;
    p.heads = 2;
    p.head_dim = 128;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made gating() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.a = {t->input(numbers<typename policy::input_format>(8 * 20)), 20};
    p.b = {t->input(numbers<typename policy::input_format>(8 * 20)), 20};
    p.a_log = t->input(numbers<float>(20));
    p.dt_bias = t->input(numbers<float>(20));
    p.g = t->template output<float>(160);
    p.beta = t->template output<float>(160);
    p.rows = 8;
    p.value_heads = 20;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made merge() {
    made t = begin<Operation>();
    typename Operation::params p;
    p.partial_out = {t->input(numbers<float>(3 * 2 * 4 * 70)), 2 * 4 * 70, 4 * 70, 70};
    p.partial_lse = {t->input(numbers<float>(3 * 2 * 4)), 8};
    p.out = {t->template output<typename Operation::policy::output_format>(2 * 4 * 70), 4 * 70, 70};
    p.lse = t->template output<float>(8);
    p.parts = 3;
    p.rows = 2;
    p.q_heads = 4;
    p.head_dim = 70;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made projection() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    constexpr int n = 70, k = 128;
    std::vector<uint8_t> packed(n * k / 2);
    for (auto& b : packed) b = static_cast<uint8_t>(random_.word());
    p.x = {t->input(numbers<typename policy::input_format>(8 * k)), k};
    p.w_packed = t->input(packed);
    p.w_scale = t->input(numbers<ratify::e4m3>(n * k / 16));
    p.w_global = t->input(std::vector<float>{0.5f});
    p.y = {t->template output<typename policy::output_format>(8 * n), n};
    p.rows = 8;
    p.n = n;
    p.k = k;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made qk_norm_rotary() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.x = {t->input(numbers<typename policy::input_format>(3 * 2 * head_dim)), 2 * head_dim, head_dim};
    p.weight = t->input(numbers<typename policy::weight_format>(head_dim));
    p.cos = t->input(numbers<float>(10 * 32));
    p.sin = t->input(numbers<float>(10 * 32));
    p.positions = t->input(std::vector<int32_t>{0, 9, 4});
    p.out = {t->template output<typename policy::output_format>(3 * 2 * head_dim), 2 * head_dim, head_dim};
    p.rows = 3;
    p.heads = 2;
    p.head_dim = head_dim;
    p.rotary_dim = 64;
    p.max_position = 10;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made recurrence() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    constexpr int state = 2 * policy::key_dim * policy::value_dim;
    auto g = numbers<float>(16);
    for (auto& x : g) x = -std::fabs(x);
    p.q = {t->input(numbers<typename policy::input_format>(8 * 128)), 128, 128};
    p.k = {t->input(numbers<typename policy::input_format>(8 * 128)), 128, 128};
    p.v = {t->input(numbers<typename policy::input_format>(8 * 256)), 256, 128};
    p.g = t->input(g);
    p.beta = t->input(random_.uniforms<float>(16, 0.0f, 1.0f));
    p.state_pool = t->changed(numbers<float>(11 * state));
    p.slot_stride = state;
    p.pool_slots = 11;
    p.query_start = t->input(query_start_);
    if constexpr (policy::mode == ratify::recurrence_mode::replay) {
      constexpr int places = 16;
      p.slot = t->input(std::vector<int32_t>{2, 0});
      p.ring_start = t->input(std::vector<int32_t>{14, 3});
      p.ring_count = t->input(std::vector<int32_t>{4, 0});
      p.flush = t->input(std::vector<int32_t>{1, 0});
      p.ring_k = {t->changed(numbers<float>(11 * places * 128)), places * 128};
      p.ring_u = {t->changed(numbers<float>(11 * places * 256)), places * 256};
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
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made rmsnorm() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.x = {t->input(numbers<typename policy::input_format>(3 * 500)), 500};
    p.residual = {t->input(numbers<float>(3 * 500)), 500};
    p.residual_out = {t->template output<float>(3 * 500), 500};
    p.weight = t->input(numbers<typename policy::weight_format>(500));
    p.out = {t->template output<typename policy::output_format>(3 * 500), 500};
    p.rows = 3;
    p.columns = 500;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made shadow_compare() {
    using element = typename Operation::policy::element_format;
    made t = begin<Operation>();
    typename Operation::params p;
    p.driver = {t->input(numbers<element>(30 * 100)), 100};
    p.shadow = {t->input(numbers<element>(30 * 90)), 90};
    p.record = t->changed(std::vector<ratify::shadow_record>{{3, 5, 1, 2, 0, 0}});
    p.rows = 30;
    p.columns = 90;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made shadow_copy() {
    using element = typename Operation::policy::element_format;
    made t = begin<Operation>();
    typename Operation::params p;
    p.from = {t->input(numbers<element>(5 * 100)), 100};
    p.to = {t->template output<element>(5 * 90), 90};
    p.rows = 5;
    p.columns = 90;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made sigmoid_gate() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.x = {t->input(numbers<typename policy::input_format>(3 * 2 * 64)), 128, 64};
    p.gate = {t->input(numbers<typename policy::gate_format>(3 * 2 * 64)), 128, 64};
    p.out = {t->template output<typename policy::output_format>(3 * 2 * 64), 128, 64};
    p.rows = 3;
    p.heads = 2;
    p.head_dim = 64;
    return ready<Operation>(t, p);
  }

  template <class Operation>
  made silu_and_mul() {
    using policy = typename Operation::policy;
    made t = begin<Operation>();
    typename Operation::params p;
    p.x = {t->input(numbers<typename policy::input_format>(3 * 200)), 200};
    p.out = {t->template output<typename policy::output_format>(3 * 100), 100};
    p.rows = 3;
    p.columns = 100;
    return ready<Operation>(t, p);
  }
 private:
  static constexpr int head_dim = 256, page_size = 16, max_pages = 5, pool_pages = 10;
  static constexpr size_t pool_elements = size_t{pool_pages} * page_size * head_dim;
  std::vector<int32_t> const query_start_ = {0, 3, 8};

  template <class Operation>
  made begin() const {
    return std::make_unique<prepared<Executor>>(on_, ratify::describe<typename Operation::policy>());
  }
  template <class Operation>
  static made ready(made& t, typename Operation::params const& p) {
    t->template operation<Operation>(p);
    return std::move(t);
  }
  template <class Format>
  std::vector<Format> numbers(size_t n) {
    return random_.normals<Format>(n);
  }
  template <class Element>
  static ratify::pages_view<Element> pages(Element* first) {
    return {first, page_size * head_dim, head_dim, head_dim};
  }

  /// What acceptance and its summary are both told about rows and requests.
  template <class Params>
  void set_sampling(prepared<Executor>& t, Params& p) const {
    p.query_start = t.input(query_start_);
    p.temperature = t.input(std::vector<float>{0.7f, 1.0f});
    p.top_p = t.input(std::vector<float>{0.9f, 1.0f});
    p.top_k = t.input(std::vector<int32_t>{50, 0});
    p.rows = 8;
    p.requests = 2;
    p.max_drafts = 4;
  }
  /// What attention and append are both told about the cache.
  template <class Params>
  void set_cache(prepared<Executor>& t, Params& p) const {
    p.block_table = {t.input(std::vector<int32_t>{0, 2, 4, 6, 8, 1, 3, 5, 7, 9}), max_pages};
    p.context_len = t.input(std::vector<int32_t>{70, 40});
    p.query_start = t.input(query_start_);
    p.k_scale = p.v_scale = t.input(std::vector<float>{0.5f});
    p.rows = 8;
    p.requests = 2;
    p.kv_heads = 1;
    p.page_size = page_size;
    p.max_pages = max_pages;
    p.pool_pages = pool_pages;
  }

  Executor& on_;
  random_source random_{91};
};

/// Calls `visit(prepared<Executor>&)` for every operation of the library and every mode of it that has kernels of its
/// own, at default knobs.
template <class Executor, class Visit>
void for_each_operation(Executor& on, Visit&& visit) {
  launch_maker<Executor> make(on);
  visit(*make.template acceptance<ratify::acceptance<>>());
  visit(*make.template acceptance<ratify::acceptance<ratify::rule<ratify::acceptance_rule::rejection>>>());
  visit(*make.template acceptance_summary<ratify::acceptance_summary<>>());
  visit(*make.template append<ratify::append<>>());
  visit(*make.template attention<ratify::attention<>>());
  visit(*make.template convolution<ratify::convolution<>>());
  visit(*make.template decode<ratify::decode<>>());
  visit(*make.template draft_convolution<ratify::draft_convolution<>>());
  visit(*make.template draft_walk<ratify::draft_walk<>>());
  visit(*make.template draft_walk<ratify::draft_walk<ratify::mode<ratify::draft_mode::sample>>>());
  visit(*make.template embedding<ratify::embedding<>>());
  visit(*make.template gated_rmsnorm<ratify::gated_rmsnorm<>>());
  visit(*make.template gating<ratify::gating<>>());
  visit(*make.template merge<ratify::merge<>>());
  visit(*make.template projection<ratify::projection<>>());
  visit(*make.template qk_norm_rotary<ratify::qk_norm_rotary<>>());
  visit(*make.template recurrence<ratify::recurrence<>>());
  visit(*make.template recurrence<ratify::recurrence<ratify::mode<ratify::recurrence_mode::replay>>>());
  visit(*make.template recurrence<ratify::recurrence<ratify::mode<ratify::recurrence_mode::read>>>());
  visit(*make.template rmsnorm<ratify::rmsnorm<>>());
  visit(*make.template shadow_compare<ratify::shadow_compare<>>());
  visit(*make.template shadow_copy<ratify::shadow_copy<>>());
  visit(*make.template sigmoid_gate<ratify::sigmoid_gate<>>());
  visit(*make.template silu_and_mul<ratify::silu_and_mul<>>());
}

}  // namespace ratify_test
