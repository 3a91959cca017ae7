// SPDX-License-Identifier: Apache-2.0
/// Writes English by speculative decoding: a drafter proposes bytes, a small hybrid language model checks all of them
/// in one round, and those that the model would have written itself are kept.
#include <generate/decoding.hpp>
#include <generate/options.hpp>
#include <generate/output.hpp>
#include <generate/report.hpp>

#include <cstdio>
#include <exception>
#include <string>

#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#endif

namespace {

using namespace generate;

bool on_terminal() {
#if defined(__unix__) || defined(__APPLE__)
  return isatty(STDOUT_FILENO) != 0;
#else
  return false;
#endif
}

template <class Executor>
int run(options const& o, Executor& on) {
  drafter const from{ngram_table(safetensors::file::read(o.ngram))};
  model<Executor> const m(on, safetensors::file::read(o.model));
  request r;
  for (char const c : o.prompt) r.prompt.push_back(static_cast<unsigned char>(c));
  if (static_cast<int>(r.prompt.size()) >= m.shape.context)
    throw usage_error("the prompt has " + std::to_string(r.prompt.size()) + " bytes; the context of " +
                      std::to_string(m.shape.context) + " leaves no room for a token after it");
  r.tokens = o.tokens;
  r.drafts = o.drafts;
  r.draws = {o.temperature, o.top_p, o.top_k, o.seed, true};

  engine<Executor> with(on, m, o.time_operations || o.executor == "host", o.shadow);
  run_summary s;
  {
    token_printer printer(o.color == "always" || (o.color == "auto" && on_terminal()));
    if (!o.json) printer.prompt(o.prompt);
    s.speculative = decode(with, from, r, [&](verdict const& v) {
      if (o.json) return;
      for (size_t i = 0; i < v.tokens.size(); ++i) printer.token(v.tokens[i], static_cast<int>(i) < v.accepted);
      printer.flush();
    });
  }
  s.times = with.times();
  if (o.shadow) {
    auto const records = with.shadow_records();
    for (size_t i = 0; i < records.size(); ++i)
      s.shadow.push_back({m.shape.is_attention(static_cast<int>(i)) ? "attention" : "recurrence", records[i]});
    s.shadowed = ratify::judge(records.data(), static_cast<int64_t>(records.size()));
  }
  if (o.compare) {
    request plain = r;
    plain.drafts = 0;
    engine<Executor> without(on, m, false);
    s.plain = decode(without, from, plain, [](verdict const&) {});
    s.compared = true;
    s.difference = first_difference(s.speculative, with, s.plain, without);
  }
  o.json ? print_json(o, s) : print_text(o, s);
  return s.difference.empty() && s.shadowed ? 0 : 1;
}

int run_on_card(options const& o) {
#if defined(__CUDACC__)
  int cards = 0;
  if (cudaGetDeviceCount(&cards) != cudaSuccess || cards == 0)
    throw usage_error("--executor cuda: no CUDA device or no driver");
  cudaStream_t stream = nullptr;
  example::require_success(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ratify::cuda_executor on(stream);
  int const result = run(o, on);
  example::require_success(cudaStreamDestroy(stream));
  return result;
#else
  (void)o;
  throw usage_error("--executor cuda: this program was built without CUDA");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  try {
    options o;
    if (!parse_options(argc, argv, o)) return 0;
    int result = 0;
    if (o.executor == "cuda") {
      result = run_on_card(o);
    } else {
      ratify::host_executor on(o.threads);
      result = run(o, on);
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw std::runtime_error("the output cannot be written");
    return result;
  } catch (std::exception const& e) {
    std::fflush(stdout);
    std::fprintf(stderr, "generate: %s\n", e.what());
    return 2;
  }
}
