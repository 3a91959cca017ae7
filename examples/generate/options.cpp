// SPDX-License-Identifier: Apache-2.0
#include <generate/options.hpp>

#include <CLI/CLI.hpp>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace generate {
namespace {

/// The bytes of a prompt file. Stops reading where the prompt is too long for any context, because a device file may
/// never end.
std::string read_prompt(std::string const& path) {
  constexpr size_t most = size_t{1} << 20;
  std::ifstream in(path, std::ios::binary);
  if (!in) throw usage_error(path + ": cannot be opened");
  std::string text(most + 1, '\0');
  in.read(&text[0], static_cast<std::streamsize>(text.size()));
  if (in.bad() || (in.gcount() == 0 && !in.eof())) throw usage_error(path + ": cannot be read");
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > most) throw usage_error(path + ": longer than 1 MiB, which is no prompt");
  return text;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

/// The option parser would silently replace a number that is too large by the nearest one.
int64_t parse_seed(std::string const& text) {
  int64_t value = 0;
  char const* const end = text.data() + text.size();
  auto const [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end) return value;
  throw usage_error("--seed " + one_line(text) + ": must be an integer from -2^63 to 2^63 - 1");
}

}  // namespace

bool parse_options(int argc, char** argv, options& o) {
  o.model = RATIFY_GENERATE_MODEL_DIR "/model.safetensors";
  o.ngram = RATIFY_GENERATE_MODEL_DIR "/ngram.safetensors";
  std::string prompt_file;
  CLI::App app(
      "Continues an English text with a small language model by speculative decoding.\n"
      "Exit codes: 0 done; 1 --compare or --shadow found a difference; 2 bad input or a missing executor.",
      "generate");
  auto* const text = app.add_option("--prompt,prompt", o.prompt, "Text to continue");
  app.add_option("--prompt-file", prompt_file, "Read the text from a file, byte for byte")->excludes(text);
  app.add_option("--tokens", o.tokens, "The most bytes to write")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  app.add_option("--temperature", o.temperature, "0 takes the likeliest token")
      ->check(CLI::Range(0.0f, 100.0f))
      ->capture_default_str();
  app.add_option("--top-k", o.top_k, "Keep the k likeliest tokens, 0: all")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--top-p", o.top_p, "Then keep the fewest that reach this probability")
      ->check(CLI::Range(0.0f, 1.0f))
      ->capture_default_str();
  std::string seed = std::to_string(o.seed);
  app.add_option("--seed", seed, "Of the random numbers, any integer of 64 bits")->capture_default_str();
  app.add_option("--drafts", o.drafts, "The most drafts per round")->check(CLI::Range(1, 15))->capture_default_str();
  app.add_option("--executor", o.executor, "Where the kernels run")
      ->check(CLI::IsMember({"host", "cuda"}))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "CPU threads of the host executor, 0: all of the machine")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  app.add_flag("--compare", o.compare, "Decode again without drafts and compare tokens, states and cache bit for bit");
  app.add_flag(
      "--shadow", o.shadow,
      "Run attention and recurrence under a second policy too and count what differs in each layer (nothing may)");
  app.add_flag("--json", o.json, "Print one JSON object instead of text");
  app.add_flag("--time-operations", o.time_operations,
               "On a card, time each operation with events (the host executor always does)");
  app.add_option("--color", o.color, "Show accepted drafts in colour")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str();
  app.add_option("--model", o.model, "Weights")->capture_default_str();
  app.add_option("--ngram", o.ngram, "Table of the drafter")->capture_default_str();
  try {
    app.parse(argc, argv);
    if (std::isnan(o.temperature) || std::isnan(o.top_p)) throw usage_error("--temperature and --top-p are numbers");
    o.seed = parse_seed(seed);
    if (!prompt_file.empty()) o.prompt = read_prompt(prompt_file);
  } catch (CLI::CallForHelp const&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (CLI::ParseError const& e) {
    throw usage_error(one_line(e.what()) + " (--help lists the options)");
  }
  if (o.prompt.empty()) throw usage_error("the prompt is empty: give a text to continue, or --prompt-file");
  return true;
}

}  // namespace generate
