// SPDX-License-Identifier: Apache-2.0
/// A complete verification round of the measured model as one rank of TP 1 or TP 2 runs it: from token ids to accepted
/// tokens. What ranks exchange is left out.
#pragma once

#include <bench/device.hpp>
#include <bench/policies.hpp>
#include <bench/traffic.hpp>
#include <bench/weights.hpp>
#include <common/rotary.hpp>
#include <common/shadowed_round.hpp>

#include <algorithm>
#include <vector>

namespace bench {

class round {
 public:
  static constexpr int rows = round_rows, drafts = rows - 1;

  round(card const& on, int ranks, int layers)
      : on_(on), gpu_(on.stream), overlapped_(on.stream, {true}), ranks_(ranks) {
    memory_.shape = shape_of(ranks, layers);
    make_weights();
    make_tables();
    make_launch_memory();
    start(1024);

    size_t scratch = 0;
    visit<control_arm>([&](auto const& s) {
      using operation = typename std::decay_t<decltype(s)>::operation;
      check(operation::can_launch(s.params, gpu_));
      scratch = std::max(scratch, operation::workspace_bytes(s.params, gpu_));
    });
    scratch_ = buffer<unsigned char>(scratch);
    on.wait();
  }

  example::geometry const& shape() const { return memory_.shape; }
  int ranks() const { return ranks_; }

  /// A request that has `context` tokens, those of the round included, in the state every layer began with.
  void start(int context) {
    context_ = context;
    memory::inputs_type in{};
    in.seed = 7;
    in.position = context;
    in.temperature = 1;
    in.top_p = 0.95f;
    in.top_k = 20;
    in.limit = rows;
    in.end_token = -1;
    in.query_start[1] = rows;
    in.context_len = context;
    in.initial_slot = base_slot;
    for (int i = 0; i < rows; ++i) {
      in.snapshot_slot[i] = i;
      in.positions[i] = context - rows + i;
      in.tokens[i] =
          static_cast<int32_t>(random_bits(static_cast<uint64_t>(i), 3) % static_cast<uint32_t>(shape().vocabulary));
      if (i > 0) in.drafts[i - 1] = in.tokens[i];
    }
    example::round_cursors const at{0, 0, 0};
    on_.wait();
    check(cudaMemcpy(memory_.inputs, &in, sizeof in, cudaMemcpyHostToDevice));
    check(cudaMemcpy(memory_.cursors, &at, sizeof at, cudaMemcpyHostToDevice));
  }

  /// Enqueues a round, or the launches of one part of it.
  template <class Arm>
  void enqueue(example::part only = example::part::count) {
    enqueue_where<Arm>([only](example::part id) { return only == example::part::count || only == id; }, gpu_);
  }
  /// A round by programmatic dependent launch.
  template <class Arm>
  void enqueue_overlapped() {
    enqueue_where<Arm>([](example::part) { return true; }, overlapped_);
  }
  template <class Arm>
  void enqueue_without(example::part left_out) {
    enqueue_where<Arm>([left_out](example::part id) { return id != left_out; }, gpu_);
  }
  /// Enqueues a round of `Driver` in which attention and recurrence of every layer have those of `Shadow` beside them.
  /// @param records one per layer
  template <class Driver, class Shadow>
  void enqueue_shadowed(ratify::shadow_record* records) {
    if (spare_.states == nullptr) {
      spare_.states = make<float>(state_slots * shape().state_elements());
      spare_.read_out = make<ratify::f16>(static_cast<size_t>(rows * shape().gdn_values()));
      spare_.attended = make<float>(static_cast<size_t>(rows * shape().q_width()));
    }
    visit<Driver>(
        [&](auto const& s) { check(example::launch_shadowed<Shadow>(s, memory_, spare_, records, scratch(), gpu_)); });
  }

  /// The lower bound of the memory traffic, see `traffic`.
  double bytes(example::part only = example::part::count) {
    double sum = 0;
    visit<control_arm>([&](auto const& s) {
      if (only == example::part::count || only == s.id) sum += traffic{context_}(s.params);
    });
    return sum;
  }
  int launches(example::part only) {
    int n = 0;
    visit<control_arm>([&](auto const& s) { n += only == example::part::count || only == s.id; });
    return n;
  }

  std::vector<float> logits() const {
    return read(memory_.logits, static_cast<size_t>(rows) * static_cast<size_t>(shape().vocabulary));
  }
  using outputs = example::round_outputs<drafts>;
  outputs emitted() const { return read(memory_.outputs, 1).front(); }
 private:
  using memory = example::round_memory<ratify::e4m3, rows, drafts>;
  /// The pool of a layer's states: one slot per row, and the slot that a request starts from.
  static constexpr int base_slot = rows, state_slots = rows + 1;

  template <class Arm, class Visit>
  void visit(Visit&& visitor) const {
    example::visit_round<Arm>(memory_, rows, example::stop_after::acceptance, visitor);
  }
  template <class Arm, class Wanted>
  void enqueue_where(Wanted wanted, ratify::cuda_executor& on) {
    visit<Arm>([&](auto const& s) {
      using operation = typename std::decay_t<decltype(s)>::operation;
      if (wanted(s.id)) check(operation::launch(s.params, scratch(), on));
    });
  }
  ratify::workspace scratch() const { return {scratch_.data(), scratch_.size()}; }

  /// Memory that nothing has written yet.
  template <class Element>
  Element* make(size_t count) {
    owned_.emplace_back(count * sizeof(Element));
    return reinterpret_cast<Element*>(owned_.back().data());
  }
  template <class Element>
  std::vector<Element> read(Element const* first, size_t count) const {
    std::vector<Element> values(count);
    on_.wait();
    check(cudaMemcpy(values.data(), first, count * sizeof(Element), cudaMemcpyDeviceToHost));
    return values;
  }

  void make_weights() {
    auto const& g = shape();
    layers_.reserve(static_cast<size_t>(g.layers));
    for (int i = 0; i < g.layers; ++i) {
      layers_.emplace_back(on_, g, g.is_attention(i), state_slots);
      memory_.layers.push_back(layers_.back().view());
    }
    norm_ = layer::small_weights(on_, g.hidden);
    head_ = linear(on_, g.vocabulary / ranks_, g.hidden);
    embedding_ = buffer<ratify::f16>(on_, static_cast<size_t>(g.vocabulary) * static_cast<size_t>(g.hidden),
                                     uniform<ratify::f16>{-1, 1});
    memory_.norm = norm_.data();
    memory_.head = head_.view();
    memory_.embedding = embedding_.data();
  }

  /// Rotary tables, block table and scales.
  void make_tables() {
    auto const& g = shape();
    auto const rotary = example::make_rotary_tables(g.context, g.rotary_dim, 1e7);
    cos_ = buffer<float>(rotary.cos);
    sin_ = buffer<float>(rotary.sin);
    int const pages = g.context / page_size;
    // Pages in descending order: the table must be followed, as where an allocator hands them out in any order.
    std::vector<int32_t> table;
    for (int i = 0; i < pages; ++i) table.push_back(pages - 1 - i);
    block_table_ = buffer<int32_t>(table);
    kv_scale_ = buffer<float>(std::vector<float>{0.25f});
    example::launch_rows& r = memory_.constant;
    r.cos = cos_.data();
    r.sin = sin_.data();
    r.block_table = {block_table_.data(), pages};
    r.page_size = page_size;
    r.max_pages = pages;
    r.pool_pages = pages;
    r.k_scale = r.v_scale = kv_scale_.data();
    r.state_slots = state_slots;
    r.window_slots = 1;
  }

  void make_launch_memory() {
    memory_.between = example::make_activations(
        shape(), rows, [this](auto element, size_t count) { return make<decltype(element)>(count); });
    // A second rank's logits are random; the round writes those of the first.
    logits_ = buffer<float>(on_, static_cast<size_t>(rows) * static_cast<size_t>(shape().vocabulary), logit{});
    memory_.logits = logits_.data();
    memory_.inputs = make<memory::inputs_type>(1);
    memory_.cursors = make<example::round_cursors>(1);
    memory_.outputs = make<outputs>(1);
  }

  card const& on_;
  ratify::cuda_executor gpu_, overlapped_;
  int ranks_, context_ = 0;
  memory memory_;
  std::vector<layer> layers_;
  buffer<float> norm_, cos_, sin_, kv_scale_, logits_;
  linear head_;
  buffer<ratify::f16> embedding_;
  buffer<int32_t> block_table_;
  std::vector<buffer<unsigned char>> owned_;
  example::spare_tensors spare_;
  buffer<unsigned char> scratch_;
};

}  // namespace bench
