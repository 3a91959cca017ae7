// SPDX-License-Identifier: Apache-2.0
/// One request on one model: runs rounds of rows through the library's operations and keeps what a round leaves behind,
/// which is the KV cache, the recurrent states and the convolution windows.
#pragma once

#include <common/shadowed_round.hpp>
#include <generate/model.hpp>
#include <generate/operations.hpp>
#include <generate/timing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
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

/// The target model's answer to a round.
struct verdict {
  std::vector<int32_t> tokens;  ///< accepted drafts, then one token of the model's own
  int accepted = 0;             ///< how many of them were drafts
  bool ended = false;           ///< the last one is the end token
};

/// Bytes of the state that a request has reached, with a name to report.
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
      : on_(on), model_(m), stopwatch_(timed), pages_((m.shape.context + page_size - 1) / page_size) {
    require_shape();
    connect();
    make_state();
    size_t const scratch = std::max(required_scratch(chunk_rows, example::stop_after::logits),
                                    required_scratch(round_rows, example::stop_after::acceptance));
    scratch_ = {on, scratch};
    if (shadowed) make_shadow();
  }

  geometry const& shape() const { return model_.shape; }
  operation_times const& times() const { return stopwatch_.times(); }
  /// What the shadow found in each layer, which has either attention or a recurrence; empty without one.
  std::vector<ratify::shadow_record> shadow_records() const {
    return shadow_records_.read(on_, 0, shadow_records_.size());
  }
  /// The tokens that the state covers.
  int length() const { return length_; }

  /// Takes in up to `chunk_rows` tokens of known text.
  void feed(int32_t const* tokens, int n) { take_in(tokens, n, example::stop_after::layers); }

  /// Takes in known text and says what the model makes of each of its tokens: logits [n, vocabulary].
  std::vector<float> score(int32_t const* tokens, int n) {
    take_in(tokens, n, example::stop_after::logits);
    return example::read(on_, memory_.logits, static_cast<size_t>(n) * shape().vocabulary);
  }

  /// A round: row 0 is the last token of the text, the drafts follow. Keeps the rows of what is emitted but for its
  /// last token, which is row 0 of the next round.
  /// @param limit the most tokens to emit
  verdict verify(int32_t last, std::vector<int32_t> const& drafts, sampling const& draws, int limit) {
    int const rows = 1 + static_cast<int>(drafts.size());
    if (rows > round_rows || length_ + rows > shape().context || limit < 1)
      throw std::logic_error("generate: a round without room for it");
    inputs in = inputs_of(rows);
    in.tokens[0] = last;
    for (size_t i = 0; i < drafts.size(); ++i) in.tokens[i + 1] = in.drafts[i] = drafts[i];
    for (int i = 0; i < round_rows; ++i) in.snapshot_slot[i] = i;
    in.temperature = draws.temperature;
    in.top_p = draws.top_p;
    in.top_k = draws.top_k;
    in.seed = draws.seed;
    in.limit = limit;
    in.end_token = draws.stop_at_end ? shape().end_token : -1;
    launch(in, rows, example::stop_after::acceptance);

    auto const out = example::read(on_, memory_.outputs, 1).front();
    stopwatch_.collect();
    auto const finish = static_cast<ratify::acceptance_finish>(out.finish);
    if (finish == ratify::acceptance_finish::bad_row || out.emitted < 1 || out.emitted > rows)
      throw std::runtime_error("the model gives no usable logits after token " + std::to_string(length_));
    length_ += out.emitted;
    return {{out.tokens, out.tokens + out.emitted}, out.accepted, finish == ratify::acceptance_finish::end};
  }

  /// Everything a later round could read: recurrent states, convolution windows, and K and V of the tokens so far.
  std::vector<state_part> state() const {
    auto const& g = shape();
    std::vector<state_part> parts;
    example::round_cursors const at = example::read(on_, memory_.cursors, 1).front();
    for (int i = 0; i < g.layers; ++i) {
      std::string const layer = "layer " + std::to_string(i) + ": ";
      auto const& l = memory_.layers[static_cast<size_t>(i)];
      if (g.is_attention(i)) {
        parts.push_back({layer + "keys", visible(l.k_pages)});
        parts.push_back({layer + "values", visible(l.v_pages)});
        continue;
      }
      size_t const slot = at.selector > 0 ? static_cast<size_t>(at.selector - 1) : base_slot;
      size_t const channels = static_cast<size_t>(g.gdn_channels());
      parts.push_back({layer + "recurrent state", bytes(l.states + slot * g.state_elements(), g.state_elements())});
      parts.push_back({layer + "convolution window", bytes(l.windows + static_cast<size_t>(at.kept) * channels,
                                                           static_cast<size_t>(g.convolution_width - 1) * channels)});
    }
    return parts;
  }
 private:
  static constexpr int page_size = 64;
  // A round leaves one state for each row; text that is fed leaves one, in a slot of its own.
  static constexpr int base_slot = round_rows, state_slots = round_rows + 1;

  using memory = example::round_memory<KvFormat, chunk_rows, most_drafts>;
  using inputs = typename memory::inputs_type;
  using driving = driving_operations<KvFormat>;

  static void require(bool good, char const* what) {
    if (!good) throw std::runtime_error(std::string("this program is built for models with ") + what);
  }
  static void check(ratify::status const& s) {
    if (!s) throw std::runtime_error(s.reason());
  }

  void require_shape() const {
    auto const& g = shape();
    using recurrence = typename driving::recurrence::policy;
    require(g.head_dim == driving::attention::policy::head_dim, "head_dim 256");
    require(g.key_dim == recurrence::key_dim && g.value_dim == recurrence::value_dim, "linear head dims of 128");
    require(g.convolution_width == driving::convolution::policy::width, "a convolution of width 4");
  }

  /// Names the model's weights, and the memory of a launch.
  void connect() {
    auto const& g = shape();
    memory_.shape = g;
    memory_.embedding = model_.embedding.data();
    for (auto const& l : model_.layers) memory_.layers.push_back(example::view_of_weights<KvFormat>(l));
    memory_.norm = model_.norm.data();
    memory_.head = model_.head.view();
    memory_.between = example::make_activations(g, chunk_rows, [this](auto element, size_t count) {
      return owned_.template make<decltype(element)>(on_, count);
    });
    memory_.logits = owned_.template make<float>(on_, static_cast<size_t>(chunk_rows) * g.vocabulary);
    memory_.inputs = owned_.template make<inputs>(on_, 1);
    memory_.cursors = owned_.make(on_, std::vector<example::round_cursors>(1, {0, 0, 1}));
    memory_.outputs = owned_.template make<typename memory::outputs_type>(on_, 1);
    memory_.constant.cos = model_.cos.data();
    memory_.constant.sin = model_.sin.data();
    memory_.constant.k_scale = model_.kv_scales.data();
    memory_.constant.v_scale = model_.kv_scales.data() + 1;
  }

  /// Cache, windows and states of every layer.
  void make_state() {
    auto const& g = shape();
    size_t const cache = static_cast<size_t>(pages_) * page_size * g.kv_width();
    for (int i = 0; i < g.layers; ++i) {
      auto& l = memory_.layers[static_cast<size_t>(i)];
      if (g.is_attention(i)) {
        l.k_pages = owned_.template make<KvFormat>(on_, cache);
        l.v_pages = owned_.template make<KvFormat>(on_, cache);
      } else {
        size_t const window_rows = static_cast<size_t>(g.convolution_width - 1 + chunk_rows);
        l.windows = owned_.template make<ratify::f16>(on_, window_rows * g.gdn_channels());
        l.states = owned_.template make<float>(on_, state_slots * g.state_elements());
      }
    }
    // Pages in descending order: the table must be followed, as where an allocator hands them out in any order.
    std::vector<int32_t> table;
    for (int i = 0; i < pages_; ++i) table.push_back(pages_ - 1 - i);
    memory_.constant.block_table = {owned_.make(on_, table), pages_};
    memory_.constant.page_size = page_size;
    memory_.constant.max_pages = pages_;
    memory_.constant.pool_pages = pages_;
    memory_.constant.state_slots = state_slots;
    memory_.constant.window_slots = 1;
  }

  void make_shadow() {
    auto const& g = shape();
    size_t const rows = chunk_rows;
    shadow_records_ = {on_, std::vector<ratify::shadow_record>(static_cast<size_t>(g.layers))};
    spare_.states = owned_.template make<float>(on_, state_slots * g.state_elements());
    spare_.read_out = owned_.template make<ratify::f16>(on_, rows * g.gdn_values());
    spare_.attended = owned_.template make<float>(on_, rows * g.q_width());
  }

  /// Asks every operation of a launch whether it would run.
  size_t required_scratch(int rows, example::stop_after last) const {
    size_t most = 0;
    example::visit_round<driving>(memory_, rows, last, [&](auto const& s) {
      using operation = typename std::decay_t<decltype(s)>::operation;
      check(operation::can_launch(s.params, on_));
      most = std::max(most, operation::workspace_bytes(s.params, on_));
    });
    return most;
  }

  void take_in(int32_t const* tokens, int n, example::stop_after last) {
    if (n < 1 || n > chunk_rows || length_ + n > shape().context)
      throw std::logic_error("generate: a chunk without room for it");
    inputs in = inputs_of(n);
    std::copy(tokens, tokens + n, in.tokens);
    std::fill(in.snapshot_slot, in.snapshot_slot + chunk_rows, -1);
    in.snapshot_slot[n - 1] = base_slot;
    launch(in, n, last);
    example::round_cursors const after{0, n, 0};  // in the base slot, and all rows kept
    example::memory<Executor>::to_device(on_, memory_.cursors, &after, sizeof after);
    example::memory<Executor>::wait(on_);
    stopwatch_.collect();
    length_ += n;
  }

  /// What every launch of `rows` rows says about where the request stands.
  inputs inputs_of(int rows) const {
    inputs in{};
    in.query_start[1] = rows;
    in.context_len = length_ + rows;
    in.initial_slot = base_slot;
    in.position = length_ + 1;  // row t draws the token after position length + t
    for (int i = 0; i < rows; ++i) in.positions[i] = length_ + i;
    return in;
  }

  void launch(inputs const& in, int rows, example::stop_after last) {
    example::memory<Executor>::to_device(on_, memory_.inputs, &in, sizeof in);
    ratify::workspace const scratch{scratch_.data(), scratch_.size()};
    example::visit_round<driving>(memory_, rows, last, [&](auto const& s) {
      using operation = typename std::decay_t<decltype(s)>::operation;
      stopwatch_.start(on_);
      if (shadow_records_.size() > 0)
        check(example::launch_shadowed<shadow_operations<KvFormat>>(s, memory_, spare_, shadow_records_.data(), scratch,
                                                                    on_));
      else
        check(operation::launch(s.params, scratch, on_));
      stopwatch_.stop(on_, s.id);
    });
  }

  template <class Element>
  std::vector<unsigned char> bytes(Element const* first, size_t count) const {
    return example::read(on_, reinterpret_cast<unsigned char const*>(first), count * sizeof(Element));
  }

  /// The entries of the tokens so far, in order of the tokens.
  std::vector<unsigned char> visible(KvFormat const* pages) const {
    size_t const token = static_cast<size_t>(shape().kv_width());
    std::vector<unsigned char> all;
    for (int at = 0; at < length_; at += page_size) {
      size_t const page = static_cast<size_t>(pages_ - 1 - at / page_size);
      auto const part =
          bytes(pages + page * page_size * token, static_cast<size_t>(std::min(page_size, length_ - at)) * token);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  Executor& on_;
  model<Executor> const& model_;
  mutable stopwatch<Executor> stopwatch_;
  int pages_;
  int length_ = 0;

  memory memory_;
  example::arrays<Executor> owned_;
  example::buffer<unsigned char, Executor> scratch_;

  example::buffer<ratify::shadow_record, Executor> shadow_records_;  ///< [layers], empty without a shadow
  example::spare_tensors spare_;
};

}  // namespace generate
