// SPDX-License-Identifier: Apache-2.0
#include <run/options.hpp>

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace ratify_run {

namespace {

/// @returns what is wrong with a number of bytes; empty if nothing is
std::string check_bytes(std::string const& text) {
  bool const digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  errno = 0;
  if (digits && std::strtoll(text.c_str(), nullptr, 10) > 0 && errno == 0) return {};
  return "'" + text + "' is no number of bytes, which is a whole number from 1 to 9223372036854775807";
}

}  // namespace

std::optional<int> parse(int argc, char const* const* argv, options& o) {
  CLI::App app("Runs one operation of ratify on the tensors of a safetensors file.", "ratify-run");
  app.add_option("op", o.operation, "the operation; --list names them");
  app.add_option("input", o.input, "its tensors, IN.safetensors");
  app.add_option("--policy", o.policy, "key=value,... over what the file's metadata says")
      ->allow_extra_args(false);  // one argument each time: what follows is the operation and its file
  app.add_option("--executor", o.executor, "host, cuda, or ptx=FOLDER (kernels out of PTX files)")
      ->capture_default_str();
  app.add_option("--max-bytes", o.max_bytes,
                 "most memory to ask for, in bytes: the program's and the executor's, added up over the run")
      ->check(CLI::Validator(check_bytes, "BYTES"))
      ->capture_default_str();
  app.add_option("--out", o.out, "where to write the outputs, OUT.safetensors");
  app.add_flag("--check", o.check, "compare each output with the tensor expected.<output> of the file");
  app.add_option("--rtol", o.rtol, "relative tolerance, over the file's rtol.<output>");
  app.add_option("--atol", o.atol, "absolute tolerance, over the file's atol.<output>");
  app.add_option("--compare", o.compare, "key=value,...: run a second policy on the same inputs and compare");
  app.add_flag("--list", o.list, "print every operation, its keys and the policies that are built");
  app.add_flag("--json", o.json, "with --list: as JSON, with the kernels' NVRTC name expressions");
  app.footer(
      "Exit codes: 0 done and within tolerance; 1 a check failed; 2 unsupported policy or shape, or an input that has "
      "no\n"
      "effect under the policy; 3 bad input, or one that needs more memory than --max-bytes.\n"
      "Without a tolerance, bits must be equal.");
  try {
    app.parse(argc, argv);
    if (o.list) {
      if (!o.operation.empty() || o.check || o.compare || o.out || o.rtol || o.atol)
        throw CLI::ValidationError("--list", "goes with --json alone");
      return {};
    }
    if (o.operation.empty()) throw CLI::RequiredError("op");
    if (o.input.empty()) throw CLI::RequiredError("input");
    if (o.json) throw CLI::RequiresError("--json", "--list");
    if ((o.rtol || o.atol) && !o.check && !o.compare)
      throw CLI::RequiresError(o.rtol ? "--rtol" : "--atol", "--check or --compare");
    if (o.out.has_value() && o.out->empty()) throw CLI::ValidationError("--out", "must name a file");
  } catch (CLI::CallForHelp const& e) {
    return app.exit(e);
  } catch (CLI::ParseError const& e) {
    std::fprintf(stderr, "ratify-run: %s (ratify-run --help says more)\n", e.what());
    return 3;
  }
  return {};
}

}  // namespace ratify_run
