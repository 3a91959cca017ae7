// SPDX-License-Identifier: Apache-2.0
#include <generate/decoding.hpp>

#include "../support/executors.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace {

using namespace generate;

safetensors::file model_file() { return safetensors::file::read(RATIFY_GENERATE_MODEL_DIR "/model.safetensors"); }
drafter table_drafter() {
  return drafter{ngram_table(safetensors::file::read(RATIFY_GENERATE_MODEL_DIR "/ngram.safetensors"))};
}

/// The model's file with changes to its tensors and metadata.
template <class Change>
safetensors::file changed_model(Change&& change) {
  auto const f = model_file();
  auto tensors = f.tensors();
  auto metadata = f.metadata();
  change(tensors, metadata);
  return safetensors::file("model", safetensors::serialize(tensors, metadata));
}

request request_for(std::string const& prompt, int tokens, int drafts, float temperature) {
  request r;
  for (char const c : prompt) r.prompt.push_back(static_cast<unsigned char>(c));
  r.tokens = tokens;
  r.drafts = drafts;
  r.draws.temperature = temperature;
  r.draws.seed = 7;
  r.draws.stop_at_end = false;
  return r;
}

/// Knows the text that plain decoding writes and drafts it, wrongly at every place where `wrong` says so.
template <class Wrong>
struct oracle {
  std::vector<int32_t> text;
  Wrong wrong;
  std::vector<int32_t> propose(std::vector<int32_t> const& so_far, int most) const {
    std::vector<int32_t> drafts;
    for (size_t at = so_far.size(); at < text.size() && static_cast<int>(drafts.size()) < most; ++at)
      drafts.push_back(wrong(at, text[at]));
    return drafts;
  }
};
template <class Wrong>
oracle(std::vector<int32_t>, Wrong) -> oracle<Wrong>;

auto const ignore = [](verdict const&) {};

struct deviation {
  double error = 0, logit = 0, largest = 0;  ///< sums of squares, and the largest error
  int agree = 0, rows = 0;                   ///< rows whose likeliest token is the reference's
  size_t logits = 0;
};

template <class KvFormat, class Executor>
void add_deviation(deviation& d, Executor& on, model<Executor> const& m, std::vector<int32_t> const& prompt,
                   std::vector<int32_t> const& rows, std::vector<float> const& expected) {
  engine<Executor, KvFormat> e(on, m, false);
  std::vector<float> got;
  for (size_t at = 0; at < prompt.size(); at += e.chunk_rows) {
    int const n = static_cast<int>(std::min<size_t>(e.chunk_rows, prompt.size() - at));
    auto const part = e.score(prompt.data() + at, n);
    got.insert(got.end(), part.begin(), part.end());
  }
  size_t const v = static_cast<size_t>(m.shape.vocabulary);
  REQUIRE(expected.size() == rows.size() * v);
  for (size_t r = 0; r < rows.size(); ++r) {
    float const *const x = got.data() + static_cast<size_t>(rows[r]) * v, *const y = expected.data() + r * v;
    for (size_t i = 0; i < v; ++i) {
      double const difference = std::fabs(static_cast<double>(x[i]) - y[i]);
      d.error += difference * difference;
      d.logit += static_cast<double>(y[i]) * y[i];
      d.largest = std::fmax(d.largest, std::isnan(difference) ? INFINITY : difference);
    }
    d.agree += std::max_element(x, x + v) - x == std::max_element(y, y + v) - y;
    ++d.rows;
    d.logits += v;
  }
}

}  // namespace

TEST_CASE("generate: the text and the state are the same with and without drafts") {
  auto const file = model_file();
  auto const table = table_drafter();
  ratify_test::on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    model<executor> const m(on, file);
    for (float const temperature : {0.0f, 1.0f}) {
      CAPTURE(temperature);
      auto r = request_for("The two friends came down to the river, and one of them said", 40, 0, temperature);
      engine<executor> plain_engine(on, m, false);
      decoded const plain = decode(plain_engine, table, r, ignore);
      REQUIRE(plain.tokens.size() == 40);
      CHECK(plain.rounds == 40);
      CHECK(plain.proposed == 0);
      for (int const drafts : {1, 7, 15}) {
        CAPTURE(drafts);
        r.drafts = drafts;
        engine<executor> e(on, m, false);
        decoded const d = decode(e, table, r, ignore);
        CHECK(first_difference(d, e, plain, plain_engine) == "");
        CHECK(d.rounds + d.accepted == 40);
      }
      auto text = r.prompt;
      text.insert(text.end(), plain.tokens.begin(), plain.tokens.end());
      auto const with = [&](int rounds, auto wrong) {
        engine<executor> e(on, m, false);
        decoded const d = decode(e, oracle{text, wrong}, r, ignore);
        CHECK(first_difference(d, e, plain, plain_engine) == "");
        CHECK(d.rounds == rounds);
      };
      with(3, [](size_t, int32_t token) { return token; });
      // Runs of 0, 1, 2, ... accepted drafts, and drafts that are no token.
      with(10, [&](size_t at, int32_t token) {
        for (size_t n = 0, end = r.prompt.size(); end <= at; end += ++n)
          if (end == at) return n % 2 == 0 ? -1 : n % 3 == 0 ? 1 << 30 : token ^ 1;
        return token;
      });
    }
  });
}

TEST_CASE("generate: known text may be taken in by any number of rows at a time") {
  auto const file = model_file();
  auto const r = request_for("It was late, and nobody had lit the lamps in the house by the canal.", 0, 0, 0);
  ratify_test::on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    model<executor> const m(on, file);
    int const n = static_cast<int>(r.prompt.size());
    auto const score = [&](int rows) {
      engine<executor> e(on, m, false);
      std::vector<float> all;
      for (int at = 0; at < n; at += rows) {
        auto const part = e.score(r.prompt.data() + at, std::min(rows, n - at));
        all.insert(all.end(), part.begin(), part.end());
      }
      std::vector<unsigned char> state;
      for (auto const& part : e.state()) state.insert(state.end(), part.bytes.begin(), part.bytes.end());
      return std::make_pair(all, state);
    };
    auto const one = score(1), chunk = score(32), odd = score(7);
    CHECK((one == chunk));
    CHECK((one == odd));
  });
}

// Against the same weights in FP32 throughout (transformers on PyTorch). Bounds, relative to the root mean square of
// the logits: FP16 rounds with a relative error of at most u = 2^-11, u / sqrt(3) in the mean square. A sublayer's
// update of the residual stream passes at most six such roundings in series: the norm, the projection, convolution or
// rotary, the mixer's output, its gate, and the rounding inside the next norm that reads it. The roundings are
// independent and no update is larger than the stream, so two sublayers a layer and L layers move the stream, and with
// it the logits, by at most sqrt(12 L) u / sqrt(3) of itself: 2.8e-3 for L = 8. An E4M3 cache adds relative errors of
// at most 2^-4 in each k and v, 2^-4 / sqrt(3) in the mean square: v passes it to the update as it is; k changes a
// score by that times |q k| D^-1/2, which is about 1 for normed q and k, and so each weight of the softmax by that
// share. An attention layer's update is off by sqrt(2) 2^-4 / sqrt(3); the A of them are among 2 L updates of about one
// size, so the stream is off by sqrt(2 A / 3) 2^-4 / sqrt(2 L): 1.8e-2 for A = 2. The largest of some 10^5 errors is
// held to 8 times the bound of their root mean square.
TEST_CASE("generate: logits against the reference in FP32") {
  auto const fixtures = safetensors::file::read(RATIFY_TEST_CASES "/generate_logits.safetensors");
  auto const file = model_file();
  ratify_test::on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    model<executor> const m(on, file);
    deviation f16, e4m3;
    for (auto const& [name, tensor] : fixtures.tensors()) {
      if (name.rfind("prompt_", 0) != 0) continue;
      std::string const suffix = name.substr(6);
      std::vector<int32_t> prompt;
      for (uint8_t const byte : tensor.template copy<uint8_t>()) prompt.push_back(byte);
      auto const rows = fixtures.at("rows" + suffix).template copy<int32_t>();
      auto const logits = fixtures.at("logits" + suffix).template copy<float>();
      add_deviation<ratify::f16>(f16, on, m, prompt, rows, logits);
      add_deviation<ratify::e4m3>(e4m3, on, m, prompt, rows, logits);
    }
    REQUIRE(f16.rows > 0);
    double const half = std::sqrt(12.0 * m.shape.layers / 3) * std::ldexp(1.0, -11);
    double const eighth =
        std::sqrt(2.0 * m.shape.attention_layers() / 3 / (2.0 * m.shape.layers)) * std::ldexp(1.0, -4);
    auto const judge = [](char const* cache, deviation const& d, double bound) {
      double const relative = std::sqrt(d.error / d.logit);
      double const largest = d.largest / std::sqrt(d.logit / static_cast<double>(d.logits));
      std::printf(
          "generate: %s cache: error %.2e of the logits' rms (bound %.2e), largest %.2e, %d of %d rows agree on "
          "the likeliest token\n",
          cache, relative, bound, largest, d.agree, d.rows);
      CHECK(relative <= bound);
      CHECK(largest <= 8 * bound);
    };
    judge("F16", f16, half);
    judge("E4M3", e4m3, half + eighth);
  });
}

TEST_CASE("generate: decoding stops at the end of the context, and at the end token") {
  auto const small = changed_model([](auto&, auto& metadata) { metadata["max_position_embeddings"] = "40"; });
  auto& on = ratify_test::host();
  model<ratify::host_executor> const m(on, small);
  auto const table = table_drafter();
  auto r = request_for("A prompt of thirty-three letters.", 100, 7, 0);
  engine<ratify::host_executor> e(on, m, false);
  auto const d = decode(e, table, r, ignore);
  CHECK(d.tokens.size() == 7);
  CHECK(d.stop == stop_reason::context_limit);

  // The end token takes over the head's row of the first token that was written.
  std::vector<uint8_t> codes, scales;
  auto const ended = changed_model([&](auto& tensors, auto& metadata) {
    metadata["max_position_embeddings"] = "64";
    auto const move = [&](std::string const& name, std::vector<uint8_t>& bytes) {
      auto& t = tensors[name];
      bytes = t.template copy<uint8_t>();
      auto const row = static_cast<std::ptrdiff_t>(t.shape[1]);
      auto const first = bytes.begin() + d.tokens[0] * row;
      std::copy(first, first + row, bytes.begin() + m.shape.end_token * row);
      if (name == "lm_head.weight_packed") std::fill(first, first + row, uint8_t{0});
      t.data = bytes.data();
    };
    move("lm_head.weight_packed", codes);
    move("lm_head.weight_scale", scales);
  });
  model<ratify::host_executor> const m_ended(on, ended);
  engine<ratify::host_executor> e_ended(on, m_ended, false);
  r.draws.stop_at_end = true;
  auto const d_ended = decode(e_ended, table, r, ignore);
  CHECK(d_ended.tokens == std::vector<int32_t>{m.shape.end_token});
  CHECK(d_ended.stop == stop_reason::end_token);

  r.prompt.resize(40);
  CHECK_THROWS_AS(decode(e, table, r, ignore), std::logic_error);
}

TEST_CASE("generate: a model that is not whole is refused by name") {
  auto const fault = [](auto change) -> std::string {
    try {
      auto const file = changed_model(change);
      model<ratify::host_executor> const m(ratify_test::host(), file);
      engine<ratify::host_executor> const e(ratify_test::host(), m, false);
    } catch (std::runtime_error const& e) {
      return e.what();
    }
    return "";
  };
  std::string const scale = "model.layers.3.self_attn.o_proj.weight_global_scale";
  CHECK(fault([](auto&, auto&) {}) == "");
  CHECK(fault([&](auto& tensors, auto&) { tensors.erase(scale); }) == "model: tensor '" + scale + "' is missing");
  CHECK(fault([](auto& tensors, auto&) { tensors["extra"] = tensors["model.norm.weight"]; }) ==
        "model: tensor 'extra' [256] is no part of this model");
  CHECK(fault([](auto& tensors, auto&) {
          tensors["model.norm.weight"] = tensors["model.layers.0.linear_attn.A_log"];
        }) == "model: tensor 'model.norm.weight': expected F32 [256], found F32 [2]");
  float const bad[] = {0.0f, -1.0f, INFINITY, NAN};
  for (float const& value : bad)
    CHECK(fault([&](auto& tensors, auto&) { tensors[scale].data = &value; }) ==
          "model: tensor '" + scale + "': is no positive number");
  CHECK(fault([](auto&, auto& metadata) { metadata.erase("hidden_size"); }) ==
        "model: metadata 'hidden_size' is missing");
  CHECK(fault([](auto&, auto& metadata) { metadata["hidden_size"] = "many"; }) ==
        "model: metadata 'hidden_size' is not a number this program can use");
  CHECK(fault([](auto&, auto& metadata) { metadata["num_hidden_layers"] = "1.5"; }) ==
        "model: metadata 'num_hidden_layers' is not a whole number");
  CHECK(fault([](auto&, auto& metadata) { metadata["linear_num_value_heads"] = "3"; }).find("model.layers.0.") !=
        std::string::npos);
  CHECK(fault([](auto&, auto& metadata) { metadata["num_key_value_heads"] = "3"; }) ==
        "model: metadata contradicts itself: num_attention_heads is no multiple of num_key_value_heads");

  // Weights that are no numbers are seen by the acceptance, not printed.
  std::vector<float> const nan(256, NAN);
  auto const file = changed_model([&](auto& tensors, auto&) { tensors["model.norm.weight"].data = nan.data(); });
  model<ratify::host_executor> const m(ratify_test::host(), file);
  engine<ratify::host_executor> e(ratify_test::host(), m, false);
  CHECK_THROWS_WITH_AS(e.verify('a', {}, {}, 1), "the model gives no usable logits after token 0", std::runtime_error);
}

TEST_CASE("generate: 2000 tokens leave the state of plain decoding" * doctest::skip()) {
  auto const file = model_file();
  auto const table = table_drafter();
  ratify_test::on_each_executor([&](auto& on) {
    using executor = std::decay_t<decltype(on)>;
    model<executor> const m(on, file);
    auto r = request_for("Many years ago there lived in that town", 2000, 0, 1);
    r.draws.top_k = 20;
    r.draws.top_p = 0.95f;
    engine<executor> plain_engine(on, m, false), e(on, m, false);
    decoded const plain = decode(plain_engine, table, r, ignore);
    r.drafts = 7;
    decoded const d = decode(e, table, r, ignore);
    REQUIRE(plain.tokens.size() == 2000);
    CHECK(first_difference(d, e, plain, plain_engine) == "");
    CHECK(d.accepted > 0);
    std::printf("generate: 2000 tokens in %d rounds\n", d.rounds);
  });
}
