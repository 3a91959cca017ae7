// SPDX-License-Identifier: Apache-2.0
/// A complete verification round of the model the library is tuned for (27 B parameters: 48 gated delta nets and 16
/// full attention layers), as one rank of TP 1 or TP 2 runs it, with random weights of the right formats and sizes:
/// from token ids to accepted tokens. What ranks exchange is left out.
#pragma once

#include <bench/device.hpp>
#include <bench/policies.hpp>
#include <examples/common/acceptance.hpp>
#include <ratify/acceptance.cuh>
#include <ratify/activation.cuh>
#include <ratify/attention.cuh>
#include <ratify/cache.cuh>
#include <ratify/convolution.cuh>
#include <ratify/embedding.cuh>
#include <ratify/normalization.cuh>
#include <ratify/projection.cuh>
#include <ratify/recurrence.cuh>
#include <ratify/shadow.cuh>

#include <string>
#include <vector>

namespace bench {

struct geometry {
  static constexpr int hidden = 5120, head_dim = 256, rotary_dim = 64, dim = 128, width = 4;
  static constexpr int whole_vocabulary = 248320, capacity = 262144, page_size = 64, rows = 8;
  static constexpr int attention_interval = 4;
  int ranks, layers, q_heads, kv_heads, key_heads, value_heads, mlp, vocabulary;
  int gdn_rows;  ///< of the fused input projection: q, k, v, z, a, b, and padding

  /// @param ranks 1 or 2
  static geometry of(int ranks, int layers) {
    geometry g{ranks,
               layers,
               24 / ranks,
               4 / ranks,
               16 / ranks,
               48 / ranks,
               17408 / ranks,
               whole_vocabulary / ranks,
               ranks == 1 ? 16480 : 8256};
    return g;
  }
  bool is_attention(int layer) const { return layer % attention_interval == attention_interval - 1; }
  int channels() const { return (2 * key_heads + value_heads) * dim; }
  int values() const { return value_heads * dim; }
  int q_width() const { return q_heads * head_dim; }
  int kv_width() const { return kv_heads * head_dim; }
  int attention_rows() const { return 2 * q_width() + 2 * kv_width(); }
  size_t state_elements() const { return static_cast<size_t>(value_heads) * dim * dim; }
};

/// What a launch is counted under.
enum class part {
  embedding,
  rmsnorm,
  gdn_in,
  convolution,
  gating,
  recurrence,
  gated_rmsnorm,
  gdn_out,
  attention_in,
  qk_norm_rotary,
  append,
  attention,
  sigmoid_gate,
  attention_out,
  gate_up,
  silu_and_mul,
  down,
  head,
  acceptance,
  count
};
inline constexpr int part_count = static_cast<int>(part::count);
inline constexpr char const* part_names[part_count] = {"embedding",
                                                       "rmsnorm",
                                                       "projection gdn in",
                                                       "convolution",
                                                       "gating",
                                                       "recurrence",
                                                       "gated_rmsnorm",
                                                       "projection gdn out",
                                                       "projection attention in",
                                                       "qk_norm_rotary",
                                                       "append",
                                                       "attention",
                                                       "sigmoid_gate",
                                                       "projection attention out",
                                                       "projection gate+up",
                                                       "silu_and_mul",
                                                       "projection down",
                                                       "projection head",
                                                       "acceptance"};

/// The policies that the arms of a round differ in. No bit depends on them.
struct control_arm {
  using attention = attention_policy<ratify::decoder_revision::bit_fields, 1>;
  using recurrence = recurrence_policy<ratify::recurrence_mode::snapshots, 8>;
  static constexpr char const* name = "revision 1, unroll 1, value_block 8";
};
struct candidate_arm {
  using attention = attention_policy<ratify::decoder_revision::fp16_shift, 8>;
  using recurrence = recurrence_policy<ratify::recurrence_mode::snapshots, 2>;
  static constexpr char const* name = "revision 2, unroll 8, value_block 2";
};
/// The fastest of what is built today, on the card that docs/performance.md names.
struct fastest_arm {
  using attention = attention_policy<ratify::decoder_revision::native, 8>;
  using recurrence = recurrence_policy<ratify::recurrence_mode::snapshots, 16>;
  static constexpr char const* name = "native, unroll 8, value_block 16";
};
template <class Arm>
std::string describe_arm() {
  return "attention " + describe(typename Arm::attention{}) + "; recurrence " + describe(typename Arm::recurrence{}) +
         "; projections split_k 7 (gate+up), 8 (down), 9 (GDN, attention out), 5 (attention in), 4 (head)";
}

/// Weights [n, k] in checkpoint layout.
struct linear {
  int n = 0, k = 0;
  buffer<uint8_t> packed;
  buffer<ratify::e4m3> scale;

  linear() = default;
  linear(card const& on, int n, int k)
      : n(n),
        k(k),
        packed(on, static_cast<size_t>(n) * static_cast<size_t>(k) / 2, any_byte{}),
        scale(on, static_cast<size_t>(n) * static_cast<size_t>(k) / 16, uniform<ratify::e4m3>{0.5f, 2}) {}
  double bytes() const { return static_cast<double>(n) * k * 9 / 16; }
};

struct layer {
  buffer<float> norm, mlp_norm;
  linear in, out, gate_up, down;
  // A gated delta net.
  buffer<ratify::f16> convolution, window;
  buffer<float> a_log, dt_bias, value_norm, states;
  // Attention.
  buffer<float> q_norm, k_norm;
  buffer<ratify::e4m3> k_pages, v_pages;
};

/// cos and sin of each position and pair of dims.
template <int Half>
__global__ void rotary_kernel(float* cos, float* sin, int positions) {
  constexpr int half = Half;
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= positions * half) return;
  float const angle =
      static_cast<float>(i / half) * powf(1e7f, -static_cast<float>(i % half) / static_cast<float>(half));
  cos[i] = cosf(angle);
  sin[i] = sinf(angle);
}

class round {
 public:
  static constexpr int rows = geometry::rows, drafts = rows - 1;
  /// Slots of a layer's states: one a row, and the one a request starts in.
  static constexpr int base_slot = rows, slots = rows + 1, window_places = geometry::width - 1 + rows;

  round(card const& on, geometry const& g)
      : on_(on),
        gpu_(on.stream),
        overlapped_(on.stream, {true}),
        g_(g),
        stride_(std::max({g.gdn_rows, g.attention_rows(), 2 * g.mlp})) {
    size_t const hidden = geometry::hidden, r = rows;
    auto const weights = [&](int n) { return buffer<float>(on, static_cast<size_t>(n), uniform<float>{-0.2f, 0.2f}); };
    for (int i = 0; i < g.layers; ++i) {
      layer l;
      l.norm = weights(geometry::hidden);
      l.mlp_norm = weights(geometry::hidden);
      if (g.is_attention(i)) {
        size_t const cache = size_t{geometry::capacity} * static_cast<size_t>(g.kv_width());
        l.in = linear(on, g.attention_rows(), geometry::hidden);
        l.out = linear(on, geometry::hidden, g.q_width());
        l.q_norm = weights(geometry::head_dim);
        l.k_norm = weights(geometry::head_dim);
        l.k_pages = buffer<ratify::e4m3>(on, cache, uniform<ratify::e4m3>{-4, 4});
        l.v_pages = buffer<ratify::e4m3>(on, cache, uniform<ratify::e4m3>{-4, 4});
      } else {
        size_t const channels = static_cast<size_t>(g.channels());
        l.in = linear(on, g.gdn_rows, geometry::hidden);
        l.out = linear(on, geometry::hidden, g.values());
        l.convolution = buffer<ratify::f16>(on, channels * geometry::width, uniform<ratify::f16>{-0.5f, 0.5f});
        l.window = buffer<ratify::f16>(on, channels * window_places, uniform<ratify::f16>{-1, 1});
        l.a_log = weights(g.value_heads);
        l.dt_bias = weights(g.value_heads);
        l.value_norm = weights(geometry::dim);
        l.states = buffer<float>(on, slots * g.state_elements(), uniform<float>{-0.1f, 0.1f});
      }
      l.gate_up = linear(on, 2 * g.mlp, geometry::hidden);
      l.down = linear(on, geometry::hidden, g.mlp);
      layers_.push_back(std::move(l));
    }
    norm_ = weights(geometry::hidden);
    head_ = linear(on, g.vocabulary, geometry::hidden);
    embedding_ = buffer<ratify::f16>(on, size_t{geometry::whole_vocabulary} * hidden, uniform<ratify::f16>{-1, 1});
    constexpr int half = geometry::rotary_dim / 2;
    cos_ = buffer<float>(size_t{geometry::capacity} * half);
    sin_ = buffer<float>(size_t{geometry::capacity} * half);
    rotary_kernel<half>
        <<<geometry::capacity * half / 256, 256, 0, on.stream>>>(cos_.data(), sin_.data(), geometry::capacity);
    check(cudaGetLastError());

    // Pages in an order of their own, as an allocator that serves many requests hands them out.
    std::vector<int32_t> table;
    for (int i = 0; i < pages; ++i) table.push_back(pages - 1 - i);
    block_table_ = buffer<int32_t>(table);
    global_ = buffer<float>(std::vector<float>{0.0048f});
    kv_scale_ = buffer<float>(std::vector<float>{0.25f});
    inputs_ = buffer<inputs>(1);
    cursors_ = buffer<cursors>(1);
    outputs_ = buffer<outputs>(1);
    residual_ = buffer<float>(r * hidden);
    update_ = buffer<float>(r * hidden);
    normed_ = buffer<ratify::f16>(r * hidden);
    mixed_ = buffer<ratify::f16>(r * static_cast<size_t>(stride_));
    channels_ = buffer<ratify::f16>(r * static_cast<size_t>(g.channels()));
    decay_ = buffer<float>(r * static_cast<size_t>(g.value_heads));
    beta_ = buffer<float>(r * static_cast<size_t>(g.value_heads));
    read_out_ = buffer<ratify::f16>(r * static_cast<size_t>(g.values()));
    q_ = buffer<ratify::f16>(r * static_cast<size_t>(g.q_width()));
    k_ = buffer<ratify::f16>(r * static_cast<size_t>(g.kv_width()));
    attended_ = buffer<float>(r * static_cast<size_t>(g.q_width()));
    gated_ = buffer<ratify::f16>(r * static_cast<size_t>(std::max({g.values(), g.q_width(), g.mlp})));
    // The other rank's logits, where there is one, are whatever they are.
    logits_ = buffer<float>(on, r * geometry::whole_vocabulary, logit{});
    start(1024);

    size_t scratch = 0;
    walk<control_arm>([&](auto op, part, int, auto const& p, double) {
      using type = typename decltype(op)::type;
      check(type::can_launch(p, gpu_));
      scratch = std::max(scratch, type::workspace_bytes(p, gpu_));
    });
    scratch_ = buffer<unsigned char>(scratch);
    on.wait();
  }

  geometry const& shape() const { return g_; }
  ratify::cuda_executor& gpu() { return gpu_; }
  ratify::workspace scratch() const { return {scratch_.data(), scratch_.size()}; }

  /// A request that stands after `context` tokens, the round's own included, in the state every layer began with.
  void start(int context) {
    context_ = context;
    inputs in{};
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
      in.tokens[i] = static_cast<int32_t>(random_bits(static_cast<uint64_t>(i), 3) % geometry::whole_vocabulary);
      if (i > 0) in.draft[i - 1] = in.tokens[i];
    }
    cursors const at{0, 0, 0};
    on_.wait();
    check(cudaMemcpy(inputs_.data(), &in, sizeof in, cudaMemcpyHostToDevice));
    check(cudaMemcpy(cursors_.data(), &at, sizeof at, cudaMemcpyHostToDevice));
  }

  /// Enqueues a round, or the launches of one part of it.
  template <class Arm>
  void enqueue(part only = part::count) {
    enqueue_where<Arm>([only](part id) { return only == part::count || only == id; }, gpu_);
  }
  /// A round by programmatic dependent launch.
  template <class Arm>
  void enqueue_overlapped() {
    enqueue_where<Arm>([](part) { return true; }, overlapped_);
  }
  template <class Arm>
  void enqueue_without(part left_out) {
    enqueue_where<Arm>([left_out](part id) { return id != left_out; }, gpu_);
  }

  /// Enqueues a round of `Driver` in which attention and recurrence of every layer have `Shadowed`'s for a shadow.
  /// @param records one for each layer
  template <class Driver, class Shadowed>
  void enqueue_shadowed(ratify::shadow_record* records) {
    if (spare_states_.size() == 0) {
      spare_states_ = buffer<float>(slots * g_.state_elements());
      spare_read_out_ = buffer<ratify::f16>(read_out_.size());
      spare_attended_ = buffer<float>(attended_.size());
    }
    using attend = ratify::attention<typename Driver::attention>;
    using recur = ratify::recurrence<typename Driver::recurrence>;
    walk<Driver>([&](auto op, part, int i, auto const& p, double) {
      using type = typename decltype(op)::type;
      if constexpr (std::is_same_v<type, attend>) {
        using other = ratify::attention<typename Shadowed::attention>;
        auto q = attention_of<typename Shadowed::attention>(layers_[static_cast<size_t>(i)]);
        q.out.data = spare_attended_.data();
        check(ratify::shadow<attend, other>::launch(
            p, q, scratch(), records + i, gpu_,
            ratify::shadow_tensor<float>{
                {p.out.data, p.out.row_stride}, {q.out.data, q.out.row_stride}, rows, g_.q_width()}));
      } else if constexpr (std::is_same_v<type, recur>) {
        using other = ratify::recurrence<typename Shadowed::recurrence>;
        auto q = recurrence_of<typename Shadowed::recurrence>(layers_[static_cast<size_t>(i)]);
        q.state_pool = spare_states_.data();
        q.out.data = spare_read_out_.data();
        check(ratify::shadow<recur, other>::launch(
            p, q, scratch(), records + i, gpu_,
            ratify::shadow_tensor<ratify::f16>{
                {p.out.data, p.out.row_stride}, {q.out.data, q.out.row_stride}, rows, g_.values()},
            ratify::shadow_tensor<float>{{p.state_pool, p.slot_stride},
                                         {q.state_pool, q.slot_stride},
                                         slots,
                                         static_cast<int64_t>(g_.state_elements()),
                                         true}));
      } else {
        check(type::launch(p, scratch(), gpu_));
      }
    });
  }

  /// Bytes that have to come from memory or go there: weights, visible K and V, states and windows, the round's rows of
  /// them. Activations and logits are taken to stay in L2.
  double bytes(part only = part::count) {
    double sum = 0;
    walk<control_arm>([&](auto, part id, int, auto const&, double b) {
      if (only == part::count || only == id) sum += b;
    });
    return sum;
  }
  int launches(part only) {
    int n = 0;
    walk<control_arm>([&](auto, part id, int, auto const&, double) { n += only == part::count || only == id; });
    return n;
  }

  std::vector<float> logits() const { return logits_.read(on_); }
  struct outputs {
    int32_t tokens[rows];
    int32_t emitted, accepted, finish;
    int32_t row_status[rows];
  };
  outputs emitted() const { return outputs_.read(on_).front(); }

  template <class Operation>
  struct tag {
    using type = Operation;
  };

  /// Visits the operations of a round in order: visit(tag, part, layer, parameters, bytes).
  template <class Arm, class Visit>
  void walk(Visit&& visit) {
    inputs* const in = inputs_.data();
    using embed = ratify::embedding<embedding_policy>;
    typename embed::params e{};
    e.table = embedding_.data();
    e.tokens = in->tokens;
    e.out = {update_.data(), geometry::hidden};
    e.rows = rows;
    e.columns = geometry::hidden;
    e.vocab = geometry::whole_vocabulary;
    visit(tag<embed>{}, part::embedding, -1, e, 2.0 * rows * geometry::hidden);
    for (int i = 0; i < g_.layers; ++i) {
      layer const& l = layers_[static_cast<size_t>(i)];
      walk_norm(i, i > 0, l.norm, visit);
      if (g_.is_attention(i))
        walk_attention<Arm>(i, l, visit);
      else
        walk_gdn<Arm>(i, l, visit);
      walk_norm(i, true, l.mlp_norm, visit);
      walk_projection<7, ratify::f16>(part::gate_up, i, l.gate_up, normed_.data(), geometry::hidden, mixed_.data(),
                                      stride_, visit);
      using gate = ratify::silu_and_mul<ratify::silu_and_mul_policy>;
      typename gate::params p{};
      p.x = {mixed_.data(), stride_};
      p.out = {gated_.data(), g_.mlp};
      p.rows = rows;
      p.columns = g_.mlp;
      visit(tag<gate>{}, part::silu_and_mul, i, p, 0.0);
      walk_projection<8, float>(part::down, i, l.down, gated_.data(), g_.mlp, update_.data(), geometry::hidden, visit);
    }
    walk_norm(g_.layers, true, norm_, visit);
    walk_projection<4, float>(part::head, -1, head_, normed_.data(), geometry::hidden, logits_.data(), g_.vocabulary,
                              visit);

    using accept = ratify::acceptance<ratify::acceptance_policy>;
    auto a = example::acceptance_of_one_request<ratify::acceptance_policy>(in, outputs_.data(), cursors_.data());
    a.logits = {logits_.data(), g_.vocabulary};
    a.shards = g_.ranks;
    a.shard_vocab = g_.vocabulary;
    a.shard_stride = int64_t{rows} * g_.vocabulary;
    a.draft = {in->draft, drafts};
    a.rows = rows;
    a.vocab = geometry::whole_vocabulary;
    a.max_drafts = drafts;
    visit(tag<accept>{}, part::acceptance, -1, a, 0.0);
  }
 private:
  static constexpr int pages = geometry::capacity / geometry::page_size;

  template <class Arm, class Wanted>
  void enqueue_where(Wanted wanted, ratify::cuda_executor& on) {
    walk<Arm>([&](auto op, part id, int, auto const& p, double) {
      if (wanted(id)) check(decltype(op)::type::launch(p, scratch(), on));
    });
  }

  struct inputs {
    int64_t seed, position;
    float temperature, top_p;
    int32_t top_k, limit, end_token;
    int32_t query_start[2];
    int32_t context_len, slot, initial_slot;
    int32_t snapshot_slot[rows], tokens[rows], positions[rows], draft[drafts];
  };
  struct cursors {
    int32_t selector, kept, fresh;
  };

  template <class Visit>
  void walk_norm(int i, bool add, buffer<float> const& weight, Visit& visit) {
    using norm = ratify::rmsnorm<norm_policy>;
    typename norm::params p{};
    p.x = {update_.data(), geometry::hidden};
    p.residual = {add ? residual_.data() : nullptr, geometry::hidden};
    p.residual_out = {residual_.data(), geometry::hidden};
    p.weight = weight.data();
    p.out = {normed_.data(), geometry::hidden};
    p.rows = rows;
    p.columns = geometry::hidden;
    visit(tag<norm>{}, part::rmsnorm, i, p, 4.0 * geometry::hidden);
  }

  template <int SplitK, class Output, class Visit>
  void walk_projection(part id, int i, linear const& w, ratify::f16 const* x, int64_t x_stride, Output* y,
                       int64_t y_stride, Visit& visit) {
    using project = ratify::projection<projection_policy<SplitK, Output>>;
    typename project::params p{};
    p.x = {x, x_stride};
    p.w_packed = w.packed.data();
    p.w_scale = w.scale.data();
    p.w_global = global_.data();
    p.y = {y, y_stride};
    p.rows = rows;
    p.n = w.n;
    p.k = w.k;
    visit(tag<project>{}, id, i, p, w.bytes());
  }

  template <class Policy>
  ratify::recurrence_params<Policy> recurrence_of(layer const& l) const {
    inputs* const in = inputs_.data();
    cursors* const at = cursors_.data();
    int const channels = g_.channels(), values = g_.values();
    ratify::recurrence_params<Policy> r{};
    r.q = {channels_.data(), channels, geometry::dim};
    r.k = {channels_.data() + g_.key_heads * geometry::dim, channels, geometry::dim};
    r.v = {channels_.data() + 2 * g_.key_heads * geometry::dim, channels, geometry::dim};
    r.g = decay_.data();
    r.beta = beta_.data();
    r.state_pool = l.states.data();
    r.slot_stride = static_cast<int64_t>(g_.state_elements());
    r.slots = slots;
    r.query_start = in->query_start;
    r.initial_slot = &in->initial_slot;
    r.selector = &at->selector;
    r.fresh = &at->fresh;
    r.snapshot_slot = {in->snapshot_slot, rows};
    r.out = {read_out_.data(), values, geometry::dim};
    r.rows = rows;
    r.requests = 1;
    r.key_heads = g_.key_heads;
    r.value_heads = g_.value_heads;
    r.max_rows = rows;
    r.scale = 0.088388346f;
    return r;
  }

  template <class Policy>
  ratify::attention_params<Policy> attention_of(layer const& l) const {
    inputs* const in = inputs_.data();
    int const q_width = g_.q_width(), kv_width = g_.kv_width();
    ratify::attention_params<Policy> a{};
    a.q = {q_.data(), q_width, geometry::head_dim};
    a.k_pages = {l.k_pages.data(), int64_t{geometry::page_size} * kv_width, kv_width, geometry::head_dim};
    a.v_pages = {l.v_pages.data(), int64_t{geometry::page_size} * kv_width, kv_width, geometry::head_dim};
    a.block_table = {block_table_.data(), pages};
    a.context_len = &in->context_len;
    a.query_start = in->query_start;
    a.k_scale = a.v_scale = kv_scale_.data();
    a.out = {attended_.data(), q_width, geometry::head_dim};
    a.rows = rows;
    a.requests = 1;
    a.q_heads = g_.q_heads;
    a.kv_heads = g_.kv_heads;
    a.page_size = geometry::page_size;
    a.max_pages = pages;
    a.max_context = a.total_context = geometry::capacity;
    a.softmax_scale = 1.0f / 16;
    return a;
  }

  template <class Arm, class Visit>
  void walk_gdn(int i, layer const& l, Visit& visit) {
    inputs* const in = inputs_.data();
    cursors* const at = cursors_.data();
    int const channels = g_.channels(), values = g_.values();
    ratify::f16* const z = mixed_.data() + channels;
    ratify::f16* const a = z + values;
    walk_projection<9, ratify::f16>(part::gdn_in, i, l.in, normed_.data(), geometry::hidden, mixed_.data(), stride_,
                                    visit);

    using convolve = ratify::convolution<ratify::convolution_policy>;
    typename convolve::params c{};
    c.x = {mixed_.data(), stride_};
    c.weight = l.convolution.data();
    c.window_pool = l.window.data();
    c.slot_stride = int64_t{window_places} * channels;
    c.slot = &in->slot;
    c.kept = &at->kept;
    c.fresh = &at->fresh;
    c.query_start = in->query_start;
    c.out = {channels_.data(), channels};
    c.rows = rows;
    c.requests = 1;
    c.channels = channels;
    c.max_rows = rows;
    visit(tag<convolve>{}, part::convolution, i, c,
          2.0 * channels * (geometry::width + geometry::width - 1 + window_places));

    using gates = ratify::gating<ratify::gating_policy>;
    typename gates::params d{};
    d.a = {a, stride_};
    d.b = {a + g_.value_heads, stride_};
    d.a_log = l.a_log.data();
    d.dt_bias = l.dt_bias.data();
    d.g = decay_.data();
    d.beta = beta_.data();
    d.rows = rows;
    d.value_heads = g_.value_heads;
    visit(tag<gates>{}, part::gating, i, d, 8.0 * g_.value_heads);

    using recur = ratify::recurrence<typename Arm::recurrence>;
    auto const r = recurrence_of<typename Arm::recurrence>(l);
    visit(tag<recur>{}, part::recurrence, i, r, 4.0 * static_cast<double>(g_.state_elements()) * (1 + rows));

    using gated = ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>;
    typename gated::params n{};
    n.x = {read_out_.data(), values, geometry::dim};
    n.z = {z, stride_, geometry::dim};
    n.out = {gated_.data(), values, geometry::dim};
    n.weight = l.value_norm.data();
    n.rows = rows;
    n.heads = g_.value_heads;
    n.head_dim = geometry::dim;
    visit(tag<gated>{}, part::gated_rmsnorm, i, n, 4.0 * geometry::dim);

    walk_projection<9, float>(part::gdn_out, i, l.out, gated_.data(), values, update_.data(), geometry::hidden, visit);
  }

  template <class Arm, class Visit>
  void walk_attention(int i, layer const& l, Visit& visit) {
    inputs* const in = inputs_.data();
    int const q_width = g_.q_width(), kv_width = g_.kv_width();
    // A row is query and gate of each head in turn, then the keys, then the values.
    ratify::f16* const mixed_k = mixed_.data() + 2 * q_width;
    walk_projection<5, ratify::f16>(part::attention_in, i, l.in, normed_.data(), geometry::hidden, mixed_.data(),
                                    stride_, visit);

    using rotate = ratify::qk_norm_rotary<rotary_policy>;
    typename rotate::params r{};
    r.cos = cos_.data();
    r.sin = sin_.data();
    r.positions = in->positions;
    r.rows = rows;
    r.head_dim = geometry::head_dim;
    r.rotary_dim = geometry::rotary_dim;
    r.max_position = geometry::capacity;
    r.x = {mixed_.data(), stride_, 2 * geometry::head_dim};
    r.out = {q_.data(), q_width, geometry::head_dim};
    r.weight = l.q_norm.data();
    r.heads = g_.q_heads;
    visit(tag<rotate>{}, part::qk_norm_rotary, i, r, 4.0 * geometry::head_dim);
    r.x = {mixed_k, stride_, geometry::head_dim};
    r.out = {k_.data(), kv_width, geometry::head_dim};
    r.weight = l.k_norm.data();
    r.heads = g_.kv_heads;
    visit(tag<rotate>{}, part::qk_norm_rotary, i, r, 4.0 * geometry::head_dim);

    using append = ratify::append<ratify::append_policy>;
    typename append::params c{};
    c.k = {k_.data(), kv_width, geometry::head_dim};
    c.v = {mixed_k + kv_width, stride_, geometry::head_dim};
    c.k_pages = {l.k_pages.data(), int64_t{geometry::page_size} * kv_width, kv_width, geometry::head_dim};
    c.v_pages = {l.v_pages.data(), int64_t{geometry::page_size} * kv_width, kv_width, geometry::head_dim};
    c.block_table = {block_table_.data(), pages};
    c.context_len = &in->context_len;
    c.query_start = in->query_start;
    c.k_scale = c.v_scale = kv_scale_.data();
    c.rows = rows;
    c.requests = 1;
    c.kv_heads = g_.kv_heads;
    c.head_dim = geometry::head_dim;
    c.page_size = geometry::page_size;
    c.max_pages = pages;
    visit(tag<append>{}, part::append, i, c, 2.0 * rows * kv_width);

    using attend = ratify::attention<typename Arm::attention>;
    auto const a = attention_of<typename Arm::attention>(l);
    visit(tag<attend>{}, part::attention, i, a, 2.0 * context_ * kv_width);

    using gate = ratify::sigmoid_gate<output_gate_policy>;
    typename gate::params o{};
    o.x = {attended_.data(), q_width, geometry::head_dim};
    o.gate = {mixed_.data() + geometry::head_dim, stride_, 2 * geometry::head_dim};
    o.out = {gated_.data(), q_width, geometry::head_dim};
    o.rows = rows;
    o.heads = g_.q_heads;
    o.head_dim = geometry::head_dim;
    visit(tag<gate>{}, part::sigmoid_gate, i, o, 0.0);

    walk_projection<9, float>(part::attention_out, i, l.out, gated_.data(), q_width, update_.data(), geometry::hidden,
                              visit);
  }

  card const& on_;
  ratify::cuda_executor gpu_, overlapped_;
  geometry g_;
  int stride_, context_ = 0;
  std::vector<layer> layers_;
  buffer<float> norm_;
  linear head_;
  buffer<ratify::f16> embedding_;
  buffer<float> cos_, sin_, global_, kv_scale_;
  buffer<int32_t> block_table_;
  buffer<inputs> inputs_;
  buffer<cursors> cursors_;
  buffer<outputs> outputs_;
  buffer<float> residual_, update_;
  buffer<ratify::f16> normed_, mixed_, channels_, read_out_, q_, k_, gated_;
  buffer<float> decay_, beta_, attended_, logits_;
  buffer<float> spare_states_, spare_attended_;
  buffer<ratify::f16> spare_read_out_;
  buffer<unsigned char> scratch_;
};

}  // namespace bench
