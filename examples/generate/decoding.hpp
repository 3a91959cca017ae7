// SPDX-License-Identifier: Apache-2.0
/// The loop around the engine: take in the prompt, then draft, verify and emit, round after round.
#pragma once

#include <generate/drafter.hpp>
#include <generate/engine.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace generate {

struct request {
  std::vector<int32_t> prompt;  ///< at least one token
  int tokens = 0;               ///< the most tokens to emit
  int drafts = 0;               ///< the most drafts per round, 0 to 15; 0 is plain decoding
  sampling draws;
};

enum class stop_reason { end_token, token_limit, context_limit };

inline char const* describe(stop_reason reason) {
  switch (reason) {
    case stop_reason::end_token:
      return "end token";
    case stop_reason::token_limit:
      return "token limit";
    default:
      return "context limit";
  }
}

struct decoded {
  std::vector<int32_t> tokens;
  stop_reason stop = stop_reason::token_limit;
  int rounds = 0, proposed = 0, accepted = 0;
  double prompt_seconds = 0, drafting_seconds = 0;
  double round_seconds = 0;  ///< of all rounds, without the drafting
};

/// Decodes one request on an engine that has seen nothing yet. `from.propose(text, most)` gives drafts;
/// `on_round(verdict)` is called after each round.
/// The tokens do not depend on the drafts: the target model draws each token with a random number that belongs to its
/// position, and an accepted draft only saves the round in which it would have been drawn.
template <class Engine, class Drafter, class OnRound>
decoded decode(Engine& on, Drafter const& from, request const& r, OnRound&& on_round) {
  using clock = std::chrono::steady_clock;
  int const prompt = static_cast<int>(r.prompt.size()), room = on.shape().context - prompt;
  if (prompt < 1 || room < 1) throw std::logic_error("generate: a prompt without room for it");
  decoded d;
  auto const start = clock::now();
  // All tokens but the last one, which is row 0 of the first round.
  for (int at = 0; at < prompt - 1; at += Engine::chunk_rows)
    on.feed(r.prompt.data() + at, std::min(Engine::chunk_rows, prompt - 1 - at));
  d.prompt_seconds = seconds_since(start);

  int const most = std::min(r.tokens, room);
  d.stop = most < r.tokens ? stop_reason::context_limit : stop_reason::token_limit;
  std::vector<int32_t> text = r.prompt;
  while (static_cast<int>(d.tokens.size()) < most) {
    int const left = most - static_cast<int>(d.tokens.size());
    auto const drafting = clock::now();
    auto const drafts = from.propose(text, std::min(r.drafts, left - 1));
    d.drafting_seconds += seconds_since(drafting);

    auto const round = clock::now();
    verdict const v = on.verify(text.back(), drafts, r.draws, left);
    d.round_seconds += seconds_since(round);
    ++d.rounds;
    d.proposed += static_cast<int>(drafts.size());
    d.accepted += v.accepted;
    d.tokens.insert(d.tokens.end(), v.tokens.begin(), v.tokens.end());
    text.insert(text.end(), v.tokens.begin(), v.tokens.end());
    on_round(v);
    if (v.ended) {
      d.stop = stop_reason::end_token;
      break;
    }
  }
  return d;
}

/// Names the first difference between two runs; "" if they are equal to the last bit of the state.
template <class First, class Second>
std::string first_difference(decoded const& a, First const& a_engine, decoded const& b, Second const& b_engine) {
  for (size_t i = 0; i < std::max(a.tokens.size(), b.tokens.size()); ++i) {
    auto const token = [i](decoded const& d) {
      return i < d.tokens.size() ? std::to_string(d.tokens[i]) : std::string("nothing");
    };
    if (token(a) != token(b)) return "token " + std::to_string(i) + ": " + token(a) + " against " + token(b);
  }
  auto const a_state = a_engine.state(), b_state = b_engine.state();
  for (size_t i = 0; i < a_state.size(); ++i) {
    auto const &x = a_state[i].bytes, &y = b_state[i].bytes;
    if (x == y) continue;
    size_t const at = static_cast<size_t>(
        std::mismatch(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), y.size())), y.begin())
            .first -
        x.begin());
    return a_state[i].name + ": byte " + std::to_string(at) + " of " + std::to_string(x.size());
  }
  return "";
}

}  // namespace generate
