// SPDX-License-Identifier: Apache-2.0
/// One request on one model: runs rounds of rows through the library's operations and keeps what a round leaves behind,
/// which is the KV cache, the recurrent states and the convolution windows.
#pragma once

#include <common/acceptance.hpp>
#include <generate/model.hpp>
#include <generate/policies.hpp>
#include <generate/timing.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace generate {

struct sampling {
  float temperature = 0;  ///< 0: the likeliest token
  float top_p = 1;
  int top_k = 0;  ///< 0: off
  int64_t seed = 0;
  bool stop_at_end = true;  ///< false: the end token is a token like any other
};

/// What the target model made of a round.
struct verdict {
  std::vector<int32_t> tokens;  ///< accepted drafts, then one token of the model's own
  int accepted = 0;             ///< how many of them were drafts
  bool ended = false;           ///< the last one is the end token
};

/// Bytes of the state a request stands in, with a name to report.
struct state_part {
  std::string name;
  std::vector<unsigned char> bytes;
};

template <class Executor, class KvFormat = ratify::e4m3>
class engine {
 public:
  static constexpr int most_drafts = 15;
  static constexpr int round_rows = most_drafts + 1;
  /// Rows of a launch that takes in text that is already known.
  static constexpr int chunk_rows = 32;

  /// Asks every operation whether it would run, so that what is missing is known before the first token.
  /// @throws std::runtime_error with the operation's reason
  /// @param shadowed attention and recurrence of every launch run under a second policy too, see `shadow_records`
  engine(Executor& on, model<Executor> const& m, bool timed, bool shadowed = false)
      : on_(on),
        m_(m),
        stopwatch_(timed),
        pages_((m.shape.context + page_size - 1) / page_size),
        mixed_stride_(round_up(std::max({m.shape.gdn_rows(), m.shape.attention_rows(), 2 * m.shape.mlp}), 8)) {
    auto const& g = m.shape;
    require(g.head_dim == 256, "head_dim 256");
    require(g.key_dim == 128 && g.value_dim == 128, "linear head dims of 128");
    require(g.convolution_width == 4, "a convolution of width 4");

    size_t const rows = chunk_rows, hidden = static_cast<size_t>(g.hidden);
    size_t const q = static_cast<size_t>(g.q_heads) * g.head_dim, kv = static_cast<size_t>(g.kv_heads) * g.head_dim;
    size_t const values = static_cast<size_t>(g.value_heads) * g.value_dim;
    inputs_ = {on, 1};
    outputs_ = {on, 1};
    cursors_ = {on, std::vector<request_cursors>(1, {0, 0, 1})};
    residual_ = {on, rows * hidden};
    update_ = {on, rows * hidden};
    normed_ = {on, rows * hidden};
    mixed_ = {on, rows * mixed_stride_};
    channels_ = {on, rows * g.gdn_channels()};
    decay_ = {on, rows * g.value_heads};
    beta_ = {on, rows * g.value_heads};
    read_out_ = {on, rows * values};
    q_ = {on, rows * q};
    k_ = {on, rows * kv};
    attended_ = {on, rows * q};
    gated_ = {on, rows * std::max({values, q, static_cast<size_t>(g.mlp)})};
    logits_ = {on, rows * g.vocabulary};
    for (int i = 0; i < g.layers; ++i) {
      layer_state s;
      if (g.is_attention(i)) {
        s.k_pages = {on, static_cast<size_t>(pages_) * page_size * kv};
        s.v_pages = {on, static_cast<size_t>(pages_) * page_size * kv};
      } else {
        s.window = {on, static_cast<size_t>(window_rows()) * g.gdn_channels()};
        s.states = {on, static_cast<size_t>(state_slots) * state_elements()};
      }
      states_.push_back(std::move(s));
    }
    // Pages in an order of their own, as an allocator that serves many requests hands them out.
    std::vector<int32_t> table;
    for (int i = 0; i < pages_; ++i) table.push_back(pages_ - 1 - i);
    block_table_ = {on, table};

    size_t scratch = 0;
    walk(chunk_rows, stop_after::logits, [&](auto op, operation, auto const& p) {
      using type = typename decltype(op)::type;
      check(type::can_launch(p, on_));
      scratch = std::max(scratch, type::workspace_bytes(p, on_));
    });
    walk(round_rows, stop_after::acceptance, [&](auto op, operation, auto const& p) {
      using type = typename decltype(op)::type;
      check(type::can_launch(p, on_));
      scratch = std::max(scratch, type::workspace_bytes(p, on_));
    });
    scratch_ = {on, scratch};
    if (!shadowed) return;
    shadow_.records = {on, std::vector<ratify::shadow_record>(static_cast<size_t>(g.layers))};
    shadow_.states = {on, static_cast<size_t>(state_slots) * state_elements()};
    shadow_.read_out = {on, rows * values};
    shadow_.attended = {on, rows * q};
  }

  geometry const& shape() const { return m_.shape; }
  operation_times const& times() const { return stopwatch_.times(); }
  /// What the shadow found in each layer, which has either attention or a recurrence; empty without one.
  std::vector<ratify::shadow_record> shadow_records() const {
    return shadow_.records.read(on_, 0, shadow_.records.size());
  }
  /// Tokens the state stands after.
  int length() const { return length_; }

  /// Takes in up to `chunk_rows` tokens of known text.
  void feed(int32_t const* tokens, int n) { take_in(tokens, n, stop_after::layers); }

  /// Takes in known text and says what the model makes of each of its tokens: logits [n, vocabulary].
  std::vector<float> score(int32_t const* tokens, int n) {
    take_in(tokens, n, stop_after::logits);
    return logits_.read(on_, 0, static_cast<size_t>(n) * m_.shape.vocabulary);
  }

  /// A round: row 0 is the last token of the text, the drafts follow. Keeps the rows of what is emitted but for its
  /// last token, which is row 0 of the next round.
  /// @param limit most tokens to emit
  verdict verify(int32_t last, std::vector<int32_t> const& drafts, sampling const& how, int limit) {
    int const rows = 1 + static_cast<int>(drafts.size());
    if (rows > round_rows || length_ + rows > m_.shape.context || limit < 1)
      throw std::logic_error("generate: a round without room for it");
    round_inputs in = inputs_of(rows);
    in.tokens[0] = last;
    for (size_t i = 0; i < drafts.size(); ++i) in.tokens[i + 1] = in.drafts[i] = drafts[i];
    for (int i = 0; i < round_rows; ++i) in.snapshot_slot[i] = i;
    in.temperature = how.temperature;
    in.top_p = how.top_p;
    in.top_k = how.top_k;
    in.seed = how.seed;
    in.limit = limit;
    in.end_token = how.stop_at_end ? m_.shape.end_token : -1;
    launch(in, rows, stop_after::acceptance);

    round_outputs out;
    example::memory<Executor>::to_host(on_, &out, outputs_.data(), sizeof out);
    stopwatch_.collect();
    auto const finish = static_cast<ratify::acceptance_finish>(out.finish);
    if (finish == ratify::acceptance_finish::bad_row || out.emitted < 1 || out.emitted > rows)
      throw std::runtime_error("the model gives no usable logits after token " + std::to_string(length_));
    length_ += out.emitted;
    return {{out.tokens, out.tokens + out.emitted}, out.accepted, finish == ratify::acceptance_finish::end};
  }

  /// Everything a later round could read: recurrent states, convolution windows, and K and V of the tokens so far.
  std::vector<state_part> state() const {
    auto const& g = m_.shape;
    std::vector<state_part> parts;
    request_cursors const at = cursors_.read(on_, 0, 1).front();
    for (int i = 0; i < g.layers; ++i) {
      std::string const layer = "layer " + std::to_string(i) + ": ";
      auto const& s = states_[static_cast<size_t>(i)];
      if (g.is_attention(i)) {
        parts.push_back({layer + "keys", visible(s.k_pages)});
        parts.push_back({layer + "values", visible(s.v_pages)});
        continue;
      }
      size_t const slot = at.selector > 0 ? static_cast<size_t>(at.selector - 1) : base_slot;
      size_t const channels = static_cast<size_t>(g.gdn_channels());
      parts.push_back(
          {layer + "recurrent state", bytes(s.states.read(on_, slot * state_elements(), state_elements()))});
      parts.push_back({layer + "convolution window",
                       bytes(s.window.read(on_, static_cast<size_t>(at.kept) * channels,
                                           static_cast<size_t>(g.convolution_width - 1) * channels))});
    }
    return parts;
  }
 private:
  static constexpr int page_size = 64;
  // A round leaves one state for each row; text that is fed leaves one, in a slot of its own.
  static constexpr int base_slot = round_rows, state_slots = round_rows + 1;

  enum class stop_after { layers, logits, acceptance };

  /// All a launch reads that changes from launch to launch: one copy to the device.
  struct round_inputs {
    int64_t seed, position;
    float temperature, top_p;
    int32_t top_k, limit, end_token;
    int32_t query_start[2];
    int32_t context_len, slot, initial_slot;
    int32_t snapshot_slot[chunk_rows];
    int32_t tokens[chunk_rows], positions[chunk_rows];
    int32_t drafts[most_drafts];
  };
  /// What the next round starts from: the snapshot after the last row that is kept, and the window there. Rounds leave
  /// it on the device, where acceptance writes it.
  struct request_cursors {
    int32_t selector, kept, fresh;
  };
  /// All it leaves for the host: one copy back.
  struct round_outputs {
    int32_t tokens[round_rows];
    int32_t emitted, accepted, finish;
    int32_t row_status[round_rows];
  };

  struct layer_state {
    example::buffer<KvFormat, Executor> k_pages, v_pages;  ///< [pages, page_size, kv_heads, head_dim]
    example::buffer<ratify::f16, Executor> window;         ///< [1, width - 1 + chunk_rows, channels]
    example::buffer<float, Executor> states;               ///< [state_slots, value_heads, key_dim, value_dim]
  };

  template <class Operation>
  struct tag {
    using type = Operation;
  };

  static int round_up(int n, int to) { return (n + to - 1) / to * to; }
  int window_rows() const { return m_.shape.convolution_width - 1 + chunk_rows; }
  size_t state_elements() const {
    return static_cast<size_t>(m_.shape.value_heads) * m_.shape.key_dim * m_.shape.value_dim;
  }

  static void require(bool good, char const* what) {
    if (!good) throw std::runtime_error(std::string("this program is built for models with ") + what);
  }
  static void check(ratify::status const& s) {
    if (!s) throw std::runtime_error(s.reason());
  }

  void take_in(int32_t const* tokens, int n, stop_after last) {
    if (n < 1 || n > chunk_rows || length_ + n > m_.shape.context)
      throw std::logic_error("generate: a chunk without room for it");
    round_inputs in = inputs_of(n);
    std::copy(tokens, tokens + n, in.tokens);
    std::fill(in.snapshot_slot, in.snapshot_slot + chunk_rows, -1);
    in.snapshot_slot[n - 1] = base_slot;
    launch(in, n, last);
    request_cursors const after{0, n, 0};  // in the base slot, all of it kept
    example::memory<Executor>::to_device(on_, cursors_.data(), &after, sizeof after);
    example::memory<Executor>::wait(on_);
    stopwatch_.collect();
    length_ += n;
  }

  /// What every launch of `rows` rows says about where the request stands.
  round_inputs inputs_of(int rows) const {
    round_inputs in{};
    in.query_start[1] = rows;
    in.context_len = length_ + rows;
    in.initial_slot = base_slot;
    in.position = length_ + 1;  // row t draws the token after position length + t
    for (int i = 0; i < rows; ++i) in.positions[i] = length_ + i;
    return in;
  }

  void launch(round_inputs const& in, int rows, stop_after last) {
    example::memory<Executor>::to_device(on_, inputs_.data(), &in, sizeof in);
    int layer = 0;
    walk(rows, last, [&](auto op, operation id, auto const& p) {
      using type = typename decltype(op)::type;
      stopwatch_.start(on_);
      check(launch_one<type>(p, layer));
      stopwatch_.stop(on_, id);
      layer += std::is_same_v<type, attend> || std::is_same_v<type, recur>;
    });
  }

  using recur = ratify::recurrence<recurrence_policy>;
  using attend = ratify::attention<attention_policy<KvFormat>>;

  /// One operation of a layer, with its shadow where it has one.
  template <class Operation>
  ratify::status launch_one(typename Operation::params const& p, int layer) {
    ratify::workspace const scratch{scratch_.data(), scratch_.size()};
    [[maybe_unused]] int const rows = p.rows;
    if (shadow_.records.size() > 0) {
      [[maybe_unused]] auto* const record = shadow_.records.data() + layer;
      [[maybe_unused]] layer_state const& s = states_[static_cast<size_t>(layer)];
      if constexpr (std::is_same_v<Operation, attend>) {
        using other = ratify::attention<shadow_attention_policy<KvFormat>>;
        auto q = attention_params<shadow_attention_policy<KvFormat>>(rows, s);
        q.out.data = shadow_.attended.data();
        return ratify::shadow<attend, other>::launch(
            p, q, scratch, record, on_,
            ratify::shadow_tensor<float>{
                {p.out.data, p.out.row_stride}, {q.out.data, q.out.row_stride}, rows, p.out.row_stride});
      } else if constexpr (std::is_same_v<Operation, recur>) {
        using other = ratify::recurrence<shadow_recurrence_policy>;
        auto q = recurrence_params<shadow_recurrence_policy>(rows, s);
        q.out.data = shadow_.read_out.data();
        q.state_pool = shadow_.states.data();
        return ratify::shadow<recur, other>::launch(
            p, q, scratch, record, on_,
            ratify::shadow_tensor<ratify::f16>{
                {p.out.data, p.out.row_stride}, {q.out.data, q.out.row_stride}, rows, p.out.row_stride},
            ratify::shadow_tensor<float>{
                {p.state_pool, p.slot_stride}, {q.state_pool, q.slot_stride}, state_slots, p.slot_stride, true});
      }
    }
    return Operation::launch(p, scratch, on_);
  }

  /// Visits the operations of a launch in order, with their parameters.
  template <class Visit>
  void walk(int rows, stop_after last, Visit&& visit) const {
    auto const& g = m_.shape;
    using embed = ratify::embedding<embedding_policy>;
    typename embed::params e{};
    e.table = m_.embedding.data();
    e.tokens = inputs_.data()->tokens;
    e.out = {update_.data(), g.hidden};
    e.rows = rows;
    e.columns = g.hidden;
    e.vocab = g.vocabulary;
    visit(tag<embed>{}, operation::embedding, e);

    for (int i = 0; i < g.layers; ++i) {
      auto const& w = m_.layers[static_cast<size_t>(i)];
      walk_norm(rows, i > 0, w.norm.data(), visit);
      if (g.is_attention(i))
        walk_attention(rows, w.attention, states_[static_cast<size_t>(i)], visit);
      else
        walk_gdn(rows, w.gdn, states_[static_cast<size_t>(i)], visit);
      walk_norm(rows, true, w.mlp_norm.data(), visit);
      walk_mlp(rows, w, visit);
    }
    if (last == stop_after::layers) return;

    walk_norm(rows, true, m_.norm.data(), visit);
    walk_projection<outer_projection_policy>(rows, m_.head, {normed_.data(), g.hidden}, {logits_.data(), g.vocabulary},
                                             visit);
    if (last == stop_after::logits) return;

    using accept = ratify::acceptance<ratify::acceptance_policy>;
    auto a =
        example::acceptance_of_one_request<ratify::acceptance_policy>(inputs_.data(), outputs_.data(), cursors_.data());
    a.logits = {logits_.data(), g.vocabulary};
    a.draft = {inputs_.data()->drafts, most_drafts};
    a.rows = rows;
    a.vocab = g.vocabulary;
    a.max_drafts = most_drafts;
    visit(tag<accept>{}, operation::acceptance, a);
  }

  /// residual += update (the first layer: residual = update), normed = norm of it.
  template <class Visit>
  void walk_norm(int rows, bool add, float const* weight, Visit& visit) const {
    using norm = ratify::rmsnorm<norm_policy>;
    int const hidden = m_.shape.hidden;
    typename norm::params p{};
    p.x = {update_.data(), hidden};
    p.residual = {add ? residual_.data() : nullptr, hidden};
    p.residual_out = {residual_.data(), hidden};
    p.weight = weight;
    p.out = {normed_.data(), hidden};
    p.rows = rows;
    p.columns = hidden;
    p.eps = m_.shape.norm_eps;
    visit(tag<norm>{}, operation::rmsnorm, p);
  }

  template <class Policy, class Visit>
  void walk_projection(int rows, linear<Executor> const& w, ratify::rows_view<ratify::f16 const> x,
                       ratify::rows_view<typename Policy::output_format> y, Visit& visit) const {
    using project = ratify::projection<Policy>;
    typename project::params p{};
    p.x = x;
    p.w_packed = w.packed.data();
    p.w_scale = w.scale.data();
    p.w_global = w.global.data();
    p.segment_end = w.segment_end.data();
    p.segments = w.segments;
    p.y = y;
    p.rows = rows;
    p.n = w.n;
    p.k = w.k;
    visit(tag<project>{}, operation::projection, p);
  }

  template <class Policy>
  ratify::recurrence_params<Policy> recurrence_params(int rows, layer_state const& s) const {
    auto const& g = m_.shape;
    round_inputs* const in = inputs_.data();
    int const channels = g.gdn_channels(), values = g.value_heads * g.value_dim;
    ratify::recurrence_params<Policy> r{};
    r.q = {channels_.data(), channels, g.key_dim};
    r.k = {channels_.data() + g.key_heads * g.key_dim, channels, g.key_dim};
    r.v = {channels_.data() + 2 * g.key_heads * g.key_dim, channels, g.value_dim};
    r.g = decay_.data();
    r.beta = beta_.data();
    r.state_pool = s.states.data();
    r.slot_stride = static_cast<int64_t>(state_elements());
    r.slots = state_slots;
    r.query_start = in->query_start;
    r.initial_slot = &in->initial_slot;
    r.selector = &cursors_.data()->selector;
    r.fresh = &cursors_.data()->fresh;
    r.snapshot_slot = {in->snapshot_slot, chunk_rows};
    r.out = {read_out_.data(), values, g.value_dim};
    r.rows = rows;
    r.requests = 1;
    r.key_heads = g.key_heads;
    r.value_heads = g.value_heads;
    r.max_rows = chunk_rows;
    r.scale = 1.0f / std::sqrt(static_cast<float>(g.key_dim));
    return r;
  }

  template <class Policy>
  ratify::attention_params<Policy> attention_params(int rows, layer_state const& s) const {
    auto const& g = m_.shape;
    round_inputs* const in = inputs_.data();
    int const q_width = g.q_heads * g.head_dim, kv_width = g.kv_heads * g.head_dim;
    auto const read_pages = [&](KvFormat const* p) {
      return ratify::pages_view<KvFormat const>{p, static_cast<int64_t>(page_size) * kv_width, kv_width, g.head_dim};
    };
    ratify::attention_params<Policy> a{};
    a.q = {q_.data(), q_width, g.head_dim};
    a.k_pages = read_pages(s.k_pages.data());
    a.v_pages = read_pages(s.v_pages.data());
    a.block_table = {block_table_.data(), pages_};
    a.context_len = &in->context_len;
    a.query_start = in->query_start;
    a.k_scale = m_.kv_scales.data();
    a.v_scale = m_.kv_scales.data() + 1;
    a.out = {attended_.data(), q_width, g.head_dim};
    a.rows = rows;
    a.requests = 1;
    a.q_heads = g.q_heads;
    a.kv_heads = g.kv_heads;
    a.page_size = page_size;
    a.max_pages = pages_;
    a.max_context = a.total_context = g.context;
    a.softmax_scale = 1.0f / std::sqrt(static_cast<float>(g.head_dim));
    return a;
  }

  template <class Visit>
  void walk_gdn(int rows, gdn_weights<Executor> const& w, layer_state const& s, Visit& visit) const {
    auto const& g = m_.shape;
    round_inputs* const in = inputs_.data();
    int const channels = g.gdn_channels(), values = g.value_heads * g.value_dim;
    ratify::f16* const z = mixed_.data() + channels;
    ratify::f16* const a = z + values;
    walk_projection<inner_projection_policy>(rows, w.in, {normed_.data(), g.hidden}, {mixed_.data(), mixed_stride_},
                                             visit);

    using convolve = ratify::convolution<convolution_policy>;
    typename convolve::params c{};
    c.x = {mixed_.data(), mixed_stride_};
    c.weight = w.convolution.data();
    c.window_pool = s.window.data();
    c.slot_stride = static_cast<int64_t>(window_rows()) * channels;
    c.slot = &in->slot;
    c.kept = &cursors_.data()->kept;
    c.fresh = &cursors_.data()->fresh;
    c.query_start = in->query_start;
    c.out = {channels_.data(), channels};
    c.rows = rows;
    c.requests = 1;
    c.channels = channels;
    c.max_rows = chunk_rows;
    visit(tag<convolve>{}, operation::convolution, c);

    using gates = ratify::gating<ratify::gating_policy>;
    typename gates::params d{};
    d.a = {a, mixed_stride_};
    d.b = {a + g.value_heads, mixed_stride_};
    d.a_log = w.a_log.data();
    d.dt_bias = w.dt_bias.data();
    d.g = decay_.data();
    d.beta = beta_.data();
    d.rows = rows;
    d.value_heads = g.value_heads;
    visit(tag<gates>{}, operation::gating, d);

    visit(tag<recur>{}, operation::recurrence, recurrence_params<recurrence_policy>(rows, s));

    using gated = ratify::gated_rmsnorm<ratify::gated_rmsnorm_policy>;
    typename gated::params n{};
    n.x = {read_out_.data(), values, g.value_dim};
    n.z = {z, mixed_stride_, g.value_dim};
    n.out = {gated_.data(), values, g.value_dim};
    n.weight = w.norm.data();
    n.rows = rows;
    n.heads = g.value_heads;
    n.head_dim = g.value_dim;
    n.eps = g.norm_eps;
    visit(tag<gated>{}, operation::gated_rmsnorm, n);

    walk_projection<outer_projection_policy>(rows, w.out, {gated_.data(), values}, {update_.data(), g.hidden}, visit);
  }

  template <class Visit>
  void walk_attention(int rows, attention_weights<Executor> const& w, layer_state const& s, Visit& visit) const {
    auto const& g = m_.shape;
    round_inputs* const in = inputs_.data();
    int const q_width = g.q_heads * g.head_dim, kv_width = g.kv_heads * g.head_dim;
    // A row is query and gate of each head in turn, then the keys, then the values.
    ratify::f16* const mixed_k = mixed_.data() + 2 * q_width;
    walk_projection<inner_projection_policy>(rows, w.in, {normed_.data(), g.hidden}, {mixed_.data(), mixed_stride_},
                                             visit);

    using rotate = ratify::qk_norm_rotary<rotary_policy>;
    typename rotate::params r{};
    r.cos = m_.cos.data();
    r.sin = m_.sin.data();
    r.positions = in->positions;
    r.rows = rows;
    r.head_dim = g.head_dim;
    r.rotary_dim = g.rotary_dim;
    r.max_position = g.context;
    r.eps = g.norm_eps;
    r.x = {mixed_.data(), mixed_stride_, 2 * g.head_dim};
    r.out = {q_.data(), q_width, g.head_dim};
    r.weight = w.q_norm.data();
    r.heads = g.q_heads;
    visit(tag<rotate>{}, operation::qk_norm_rotary, r);
    r.x = {mixed_k, mixed_stride_, g.head_dim};
    r.out = {k_.data(), kv_width, g.head_dim};
    r.weight = w.k_norm.data();
    r.heads = g.kv_heads;
    visit(tag<rotate>{}, operation::qk_norm_rotary, r);

    auto const pages = [&](KvFormat* p) {
      return ratify::pages_view<KvFormat>{p, static_cast<int64_t>(page_size) * kv_width, kv_width, g.head_dim};
    };
    using append = ratify::append<append_policy<KvFormat>>;
    typename append::params c{};
    c.k = {k_.data(), kv_width, g.head_dim};
    c.v = {mixed_k + kv_width, mixed_stride_, g.head_dim};
    c.k_pages = pages(s.k_pages.data());
    c.v_pages = pages(s.v_pages.data());
    c.block_table = {block_table_.data(), pages_};
    c.context_len = &in->context_len;
    c.query_start = in->query_start;
    c.k_scale = m_.kv_scales.data();
    c.v_scale = m_.kv_scales.data() + 1;
    c.rows = rows;
    c.requests = 1;
    c.kv_heads = g.kv_heads;
    c.head_dim = g.head_dim;
    c.page_size = page_size;
    c.max_pages = pages_;
    visit(tag<append>{}, operation::append, c);

    visit(tag<attend>{}, operation::attention, attention_params<attention_policy<KvFormat>>(rows, s));

    using gate = ratify::sigmoid_gate<output_gate_policy>;
    typename gate::params o{};
    o.x = {attended_.data(), q_width, g.head_dim};
    o.gate = {mixed_.data() + g.head_dim, mixed_stride_, 2 * g.head_dim};
    o.out = {gated_.data(), q_width, g.head_dim};
    o.rows = rows;
    o.heads = g.q_heads;
    o.head_dim = g.head_dim;
    visit(tag<gate>{}, operation::sigmoid_gate, o);

    walk_projection<outer_projection_policy>(rows, w.out, {gated_.data(), q_width}, {update_.data(), g.hidden}, visit);
  }

  template <class Visit>
  void walk_mlp(int rows, layer_weights<Executor> const& w, Visit& visit) const {
    auto const& g = m_.shape;
    walk_projection<inner_projection_policy>(rows, w.gate_up, {normed_.data(), g.hidden},
                                             {mixed_.data(), mixed_stride_}, visit);
    using gate = ratify::silu_and_mul<ratify::silu_and_mul_policy>;
    typename gate::params p{};
    p.x = {mixed_.data(), mixed_stride_};
    p.out = {gated_.data(), g.mlp};
    p.rows = rows;
    p.columns = g.mlp;
    visit(tag<gate>{}, operation::silu_and_mul, p);
    walk_projection<outer_projection_policy>(rows, w.down, {gated_.data(), g.mlp}, {update_.data(), g.hidden}, visit);
  }

  template <class T>
  static std::vector<unsigned char> bytes(std::vector<T> const& values) {
    auto const* const first = reinterpret_cast<unsigned char const*>(values.data());
    return {first, first + values.size() * sizeof(T)};
  }

  /// The entries of the tokens so far, in order of the tokens.
  std::vector<unsigned char> visible(example::buffer<KvFormat, Executor> const& pages) const {
    size_t const token = static_cast<size_t>(m_.shape.kv_heads) * m_.shape.head_dim;
    std::vector<unsigned char> all;
    for (int at = 0; at < length_; at += page_size) {
      int const page = pages_ - 1 - at / page_size;
      auto const part = bytes(pages.read(on_, static_cast<size_t>(page) * page_size * token,
                                         static_cast<size_t>(std::min(page_size, length_ - at)) * token));
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  Executor& on_;
  model<Executor> const& m_;
  mutable stopwatch<Executor> stopwatch_;
  int pages_, mixed_stride_;
  int length_ = 0;

  std::vector<layer_state> states_;
  example::buffer<int32_t, Executor> block_table_;  ///< [1, pages]
  example::buffer<round_inputs, Executor> inputs_;
  example::buffer<round_outputs, Executor> outputs_;
  example::buffer<request_cursors, Executor> cursors_;
  example::buffer<unsigned char, Executor> scratch_;

  /// Where the shadow writes what the engine writes elsewhere.
  struct {
    example::buffer<ratify::shadow_record, Executor> records;  ///< [layers]
    example::buffer<float, Executor> states, attended;
    example::buffer<ratify::f16, Executor> read_out;
  } shadow_;

  // Rows of a launch, [chunk_rows, ...].
  example::buffer<float, Executor> residual_, update_;
  example::buffer<ratify::f16, Executor> normed_, mixed_, channels_, read_out_, q_, k_, gated_;
  example::buffer<float, Executor> decay_, beta_, attended_, logits_;
};

}  // namespace generate
