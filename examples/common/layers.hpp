// SPDX-License-Identifier: Apache-2.0
/// The layers of a hybrid language model as launches of this library: the parameters of every operation, and the order
/// in which the operations run. A program owns the weights, the states and the buffers, describes them by the structs
/// below, and is handed every launch through a visitor.
#pragma once

#include <common/geometry.hpp>
#include <common/round_operations.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace example {

/// A linear layer in NVFP4. Layers that read the same rows can lie one below the other as segments, so that one
/// projection serves them all.
struct linear_view {
  int n = 0, k = 0;
  uint8_t const* packed = nullptr;       ///< [n, k / 2]
  ratify::e4m3 const* scale = nullptr;   ///< [n, k / 16]
  float const* global = nullptr;         ///< [segments]
  int32_t const* segment_end = nullptr;  ///< [segments], may be null if there is one
  int segments = 1;
};

/// Weights and state of one layer. Of the members for gated delta nets and those for attention, one group is null.
template <class KvFormat>
struct layer_view {
  float const* norm = nullptr;      ///< [hidden]
  float const* mlp_norm = nullptr;  ///< [hidden]
  linear_view in;                   ///< gated delta net: q, k, v, z, a, b; attention: query and gate by head, k, v
  linear_view out, gate_up, down;

  ratify::f16 const* convolution = nullptr;  ///< [channels, width]
  float const* a_log = nullptr;              ///< [value_heads]
  float const* dt_bias = nullptr;            ///< [value_heads]
  float const* value_norm = nullptr;         ///< [value_dim]
  ratify::f16* windows = nullptr;            ///< [window_slots, width - 1 + max_rows, channels]
  float* states = nullptr;                   ///< [state_slots, value_heads, key_dim, value_dim]

  float const* q_norm = nullptr;  ///< [head_dim]
  float const* k_norm = nullptr;  ///< [head_dim]
  KvFormat* k_pages = nullptr;    ///< [pool_pages, page_size, kv_heads, head_dim]
  KvFormat* v_pages = nullptr;    ///< [pool_pages, page_size, kv_heads, head_dim]
};

/// The weights of a layer in a struct that owns them under the same names, as buffers and as linear layers that have a
/// `view`. Cache, windows and states are left null.
template <class KvFormat, class Layer>
layer_view<KvFormat> view_of_weights(Layer const& l) {
  layer_view<KvFormat> v;
  v.norm = l.norm.data();
  v.mlp_norm = l.mlp_norm.data();
  v.in = l.in.view();
  v.out = l.out.view();
  v.gate_up = l.gate_up.view();
  v.down = l.down.view();
  v.convolution = l.convolution.data();
  v.a_log = l.a_log.data();
  v.dt_bias = l.dt_bias.data();
  v.value_norm = l.value_norm.data();
  v.q_norm = l.q_norm.data();
  v.k_norm = l.k_norm.data();
  return v;
}

/// The rows of one launch, and what all layers read about them. Pointers are memory that the kernels can reach.
struct launch_rows {
  int rows = 0;  ///< of all requests
  int requests = 1;
  int max_rows = 0;                      ///< capacity: the most rows that one request has in any launch
  int32_t const* query_start = nullptr;  ///< [requests + 1]
  int32_t const* positions = nullptr;    ///< [rows]: the position of each row in its text
  int32_t const* context_len = nullptr;  ///< [requests]: tokens in the cache, those of this launch included

  float const* cos = nullptr;                    ///< [context, rotary_dim / 2]
  float const* sin = nullptr;                    ///< [context, rotary_dim / 2]
  ratify::rows_view<int32_t const> block_table;  ///< [requests, max_pages]
  int page_size = 0;                             ///< tokens
  int max_pages = 0;
  int64_t pool_pages = 0;
  float const* k_scale = nullptr;  ///< [1]
  float const* v_scale = nullptr;  ///< [1]

  int32_t const* fresh = nullptr;                  ///< [requests]: 1 for a request that has no state yet
  int32_t const* initial_slot = nullptr;           ///< [requests]
  int32_t const* selector = nullptr;               ///< [requests]
  ratify::rows_view<int32_t const> snapshot_slot;  ///< [requests, max_rows]
  int64_t state_slots = 0;
  int32_t const* window_slot = nullptr;  ///< [requests]
  int32_t const* kept = nullptr;         ///< [requests]
  int64_t window_slots = 0;
};

/// What one operation of a launch leaves for the next one; all layers use the same memory. Dense, with `rows` rows,
/// except that the rows of `mixed` have a stride of their own.
struct activations {
  float* residual = nullptr;      ///< [rows, hidden]
  float* update = nullptr;        ///< [rows, hidden]: what a sublayer adds to the residual stream
  ratify::f16* normed = nullptr;  ///< [rows, hidden]
  ratify::f16* mixed = nullptr;   ///< [rows, mixed_stride]: the results of a projection into a sublayer
  int mixed_stride = 0;
  ratify::f16* channels = nullptr;  ///< [rows, channels]: q, k and v of a gated delta net after its convolution
  float* decay = nullptr;           ///< [rows, value_heads]
  float* beta = nullptr;            ///< [rows, value_heads]
  ratify::f16* read_out = nullptr;  ///< [rows, value_heads, value_dim]: the output of the recurrence
  ratify::f16* q = nullptr;         ///< [rows, q_heads, head_dim]
  ratify::f16* k = nullptr;         ///< [rows, kv_heads, head_dim]
  float* attended = nullptr;        ///< [rows, q_heads, head_dim]: the output of the attention
  ratify::f16* gated = nullptr;     ///< [rows, ...]: what a projection out of a sublayer reads
};

/// @param allocate `allocate(Element{}, count)` returns memory for `count` elements, aligned to 16 bytes
template <class Allocate>
activations make_activations(geometry const& g, int rows, Allocate&& allocate) {
  auto const count = [rows](int width) { return static_cast<size_t>(rows) * static_cast<size_t>(width); };
  activations a;
  a.residual = allocate(float{}, count(g.hidden));
  a.update = allocate(float{}, count(g.hidden));
  a.normed = allocate(ratify::f16{}, count(g.hidden));
  a.mixed_stride = round_up(std::max({g.gdn_rows(), g.attention_rows(), 2 * g.mlp}), 8);
  a.mixed = allocate(ratify::f16{}, count(a.mixed_stride));
  a.channels = allocate(ratify::f16{}, count(g.gdn_channels()));
  a.decay = allocate(float{}, count(g.value_heads));
  a.beta = allocate(float{}, count(g.value_heads));
  a.read_out = allocate(ratify::f16{}, count(g.gdn_values()));
  a.q = allocate(ratify::f16{}, count(g.q_width()));
  a.k = allocate(ratify::f16{}, count(g.kv_width()));
  a.attended = allocate(float{}, count(g.q_width()));
  a.gated = allocate(ratify::f16{}, count(std::max({g.gdn_values(), g.q_width(), g.mlp})));
  return a;
}

/// The launches of layers. Each member calls `visit(step)` for its launches in order; the layer number is handed on to
/// the visitor.
/// @tparam Operations `round_operations`, or a struct that names the same operations
template <class Operations>
class layer_steps {
 public:
  layer_steps(geometry const& shape, activations const& memory, launch_rows const& at)
      : g_(shape), a_(memory), at_(at) {}

  /// residual += update, or residual = update unless `add`; normed = the norm of the residual.
  template <class Visit>
  void norm(int layer, bool add, float const* weight, Visit& visit) const {
    step<part::rmsnorm, typename Operations::rmsnorm> s{layer};
    auto& p = s.params;
    p.x = {a_.update, g_.hidden};
    p.residual = {add ? a_.residual : nullptr, g_.hidden};
    p.residual_out = {a_.residual, g_.hidden};
    p.weight = weight;
    p.out = {a_.normed, g_.hidden};
    p.rows = at_.rows;
    p.columns = g_.hidden;
    p.eps = g_.norm_eps;
    visit(s);
  }

  /// y = x times the transposed weights.
  template <part Where, class Visit>
  void project(int layer, linear_view const& w, ratify::rows_view<ratify::f16 const> x,
               ratify::rows_view<projected_format<Where>> y, Visit& visit) const {
    step<Where, typename Operations::template projection<Where>> s{layer};
    auto& p = s.params;
    p.x = x;
    p.w_packed = w.packed;
    p.w_scale = w.scale;
    p.w_global = w.global;
    p.segment_end = w.segment_end;
    p.segments = w.segments;
    p.y = y;
    p.rows = at_.rows;
    p.n = w.n;
    p.k = w.k;
    visit(s);
  }

  /// From `normed` into `mixed`.
  template <part Where, class Visit>
  void project_in(int layer, linear_view const& w, Visit& visit) const {
    project<Where>(layer, w, {a_.normed, g_.hidden}, {a_.mixed, a_.mixed_stride}, visit);
  }
  /// From `gated`, whose rows are `width` wide, into `update`.
  template <part Where, class Visit>
  void project_out(int layer, linear_view const& w, int width, Visit& visit) const {
    project<Where>(layer, w, {a_.gated, width}, {a_.update, g_.hidden}, visit);
  }

  /// A gated delta net: from `normed` to `update`.
  template <class KvFormat, class Visit>
  void gated_delta_net(int layer, layer_view<KvFormat> const& l, Visit& visit) const {
    project_in<part::gdn_in>(layer, l.in, visit);
    convolve(layer, l, visit);
    gate(layer, l, visit);
    visit(step<part::recurrence, typename Operations::recurrence>{layer, recurrence_params(l)});
    gated_norm(layer, l, visit);
    project_out<part::gdn_out>(layer, l.out, g_.gdn_values(), visit);
  }

  /// Full attention with an output gate: from `normed` to `update`.
  template <class KvFormat, class Visit>
  void attention(int layer, layer_view<KvFormat> const& l, Visit& visit) const {
    project_in<part::attention_in>(layer, l.in, visit);
    rotate(layer, {a_.mixed, a_.mixed_stride, 2 * g_.head_dim}, l.q_norm, g_.q_heads, a_.q, visit);
    rotate(layer, {mixed_k(), a_.mixed_stride, g_.head_dim}, l.k_norm, g_.kv_heads, a_.k, visit);
    append(layer, l, visit);
    visit(step<part::attention, typename Operations::attention>{layer, attention_params(l)});
    gate_attended(layer, visit);
    project_out<part::attention_out>(layer, l.out, g_.q_width(), visit);
  }

  /// The gated MLP: from `normed` to `update`.
  template <class KvFormat, class Visit>
  void mlp(int layer, layer_view<KvFormat> const& l, Visit& visit) const {
    project_in<part::gate_up>(layer, l.gate_up, visit);
    step<part::silu_and_mul, typename Operations::silu_and_mul> s{layer};
    auto& p = s.params;
    p.x = {a_.mixed, a_.mixed_stride};
    p.out = {a_.gated, g_.mlp};
    p.rows = at_.rows;
    p.columns = g_.mlp;
    visit(s);
    project_out<part::down>(layer, l.down, g_.mlp, visit);
  }

  /// All of a layer.
  template <class KvFormat, class Visit>
  void layer(int number, layer_view<KvFormat> const& l, Visit& visit) const {
    norm(number, number > 0, l.norm, visit);
    if (g_.is_attention(number))
      attention(number, l, visit);
    else
      gated_delta_net(number, l, visit);
    norm(number, true, l.mlp_norm, visit);
    mlp(number, l, visit);
  }

  template <class KvFormat>
  typename Operations::recurrence::params recurrence_params(layer_view<KvFormat> const& l) const {
    int const channels = g_.gdn_channels(), keys = g_.key_heads * g_.key_dim;
    typename Operations::recurrence::params p{};
    p.q = {a_.channels, channels, g_.key_dim};
    p.k = {a_.channels + keys, channels, g_.key_dim};
    p.v = {a_.channels + 2 * keys, channels, g_.value_dim};
    p.g = a_.decay;
    p.beta = a_.beta;
    p.state_pool = l.states;
    p.slot_stride = static_cast<int64_t>(g_.state_elements());
    p.pool_slots = at_.state_slots;
    p.query_start = at_.query_start;
    p.initial_slot = at_.initial_slot;
    p.selector = at_.selector;
    p.fresh = at_.fresh;
    p.snapshot_slot = at_.snapshot_slot;
    p.out = {a_.read_out, g_.gdn_values(), g_.value_dim};
    p.rows = at_.rows;
    p.requests = at_.requests;
    p.key_heads = g_.key_heads;
    p.value_heads = g_.value_heads;
    p.max_rows = at_.max_rows;
    p.scale = 1.0f / std::sqrt(static_cast<float>(g_.key_dim));
    return p;
  }

  template <class KvFormat>
  typename Operations::attention::params attention_params(layer_view<KvFormat> const& l) const {
    typename Operations::attention::params p{};
    p.q = {a_.q, g_.q_width(), g_.head_dim};
    p.k_pages = pages<KvFormat const>(l.k_pages);
    p.v_pages = pages<KvFormat const>(l.v_pages);
    set_cache(p);
    p.out = {a_.attended, g_.q_width(), g_.head_dim};
    p.max_rows = at_.max_rows;
    p.q_heads = g_.q_heads;
    p.max_context = g_.context;
    p.total_context = int64_t{at_.requests} * g_.context;
    p.softmax_scale = 1.0f / std::sqrt(static_cast<float>(g_.head_dim));
    return p;
  }
 private:
  template <class KvFormat, class Visit>
  void convolve(int layer, layer_view<KvFormat> const& l, Visit& visit) const {
    int const channels = g_.gdn_channels();
    step<part::convolution, typename Operations::convolution> s{layer};
    auto& p = s.params;
    p.x = {a_.mixed, a_.mixed_stride};
    p.weight = l.convolution;
    p.window_pool = l.windows;
    p.slot_stride = int64_t{g_.convolution_width - 1 + at_.max_rows} * channels;
    p.pool_slots = at_.window_slots;
    p.slot = at_.window_slot;
    p.kept = at_.kept;
    p.fresh = at_.fresh;
    p.query_start = at_.query_start;
    p.out = {a_.channels, channels};
    p.rows = at_.rows;
    p.requests = at_.requests;
    p.channels = channels;
    p.max_rows = at_.max_rows;
    visit(s);
  }

  /// Decay and beta of each value head, from the a and b that the projection wrote behind z.
  template <class KvFormat, class Visit>
  void gate(int layer, layer_view<KvFormat> const& l, Visit& visit) const {
    ratify::f16 const* const a = a_.mixed + g_.gdn_channels() + g_.gdn_values();
    step<part::gating, typename Operations::gating> s{layer};
    auto& p = s.params;
    p.a = {a, a_.mixed_stride};
    p.b = {a + g_.value_heads, a_.mixed_stride};
    p.a_log = l.a_log;
    p.dt_bias = l.dt_bias;
    p.g = a_.decay;
    p.beta = a_.beta;
    p.rows = at_.rows;
    p.value_heads = g_.value_heads;
    visit(s);
  }

  template <class KvFormat, class Visit>
  void gated_norm(int layer, layer_view<KvFormat> const& l, Visit& visit) const {
    step<part::gated_rmsnorm, typename Operations::gated_rmsnorm> s{layer};
    auto& p = s.params;
    p.x = {a_.read_out, g_.gdn_values(), g_.value_dim};
    p.z = {a_.mixed + g_.gdn_channels(), a_.mixed_stride, g_.value_dim};
    p.out = {a_.gated, g_.gdn_values(), g_.value_dim};
    p.weight = l.value_norm;
    p.rows = at_.rows;
    p.heads = g_.value_heads;
    p.head_dim = g_.value_dim;
    p.eps = g_.norm_eps;
    visit(s);
  }

  /// Norm of each head, then rotation of its leading elements by the row's position.
  template <class Visit>
  void rotate(int layer, ratify::heads_view<ratify::f16 const> x, float const* weight, int heads, ratify::f16* out,
              Visit& visit) const {
    step<part::qk_norm_rotary, typename Operations::qk_norm_rotary> s{layer};
    auto& p = s.params;
    p.x = x;
    p.weight = weight;
    p.cos = at_.cos;
    p.sin = at_.sin;
    p.positions = at_.positions;
    p.out = {out, int64_t{heads} * g_.head_dim, g_.head_dim};
    p.rows = at_.rows;
    p.heads = heads;
    p.head_dim = g_.head_dim;
    p.rotary_dim = g_.rotary_dim;
    p.max_position = g_.context;
    p.eps = g_.norm_eps;
    visit(s);
  }

  template <class KvFormat, class Visit>
  void append(int layer, layer_view<KvFormat> const& l, Visit& visit) const {
    step<part::append, typename Operations::append> s{layer};
    auto& p = s.params;
    p.k = {a_.k, g_.kv_width(), g_.head_dim};
    p.v = {mixed_k() + g_.kv_width(), a_.mixed_stride, g_.head_dim};
    p.k_pages = pages(l.k_pages);
    p.v_pages = pages(l.v_pages);
    set_cache(p);
    p.head_dim = g_.head_dim;
    visit(s);
  }

  /// Multiplies the output of the attention by the sigmoid of the gate that lies beside each head's query.
  template <class Visit>
  void gate_attended(int layer, Visit& visit) const {
    step<part::sigmoid_gate, typename Operations::sigmoid_gate> s{layer};
    auto& p = s.params;
    p.x = {a_.attended, g_.q_width(), g_.head_dim};
    p.gate = {a_.mixed + g_.head_dim, a_.mixed_stride, 2 * g_.head_dim};
    p.out = {a_.gated, g_.q_width(), g_.head_dim};
    p.rows = at_.rows;
    p.heads = g_.q_heads;
    p.head_dim = g_.head_dim;
    visit(s);
  }

  /// Where the keys of a projection into attention begin: behind query and gate of all heads.
  ratify::f16 const* mixed_k() const { return a_.mixed + 2 * g_.q_width(); }

  /// What attention and append are both told about the rows and the cache.
  template <class Params>
  void set_cache(Params& p) const {
    p.block_table = at_.block_table;
    p.context_len = at_.context_len;
    p.query_start = at_.query_start;
    p.k_scale = at_.k_scale;
    p.v_scale = at_.v_scale;
    p.rows = at_.rows;
    p.requests = at_.requests;
    p.kv_heads = g_.kv_heads;
    p.page_size = at_.page_size;
    p.max_pages = at_.max_pages;
    p.pool_pages = at_.pool_pages;
  }
  template <class Element>
  ratify::pages_view<Element> pages(Element* first) const {
    return ratify::dense_pages(first, at_.page_size, g_.kv_heads, g_.head_dim);
  }

  geometry const& g_;
  activations const& a_;
  launch_rows at_;
};

}  // namespace example
