// SPDX-License-Identifier: Apache-2.0
/// ratify-bench [OPERATION...]: one start of the paired measurement of single operations, on a card.
#include <bench/card.hpp>

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  try {
    struct operation {
      char const* name;
      void (*run)(bench::card const&, bench::options const&, bench::report&);
    };
    operation const all[] = {{"attention", bench::attention},     {"recurrence", bench::recurrence},
                             {"convolution", bench::convolution}, {"projection", bench::projection},
                             {"acceptance", bench::acceptance},   {"glue", bench::glue}};
    std::vector<std::string> names;
    for (auto const& o : all) names.push_back(o.name);
    bench::options settings;
    settings.read(argc, argv, names);
    bench::card const on;
    bench::report to = bench::first_report(on);
    to.fact("programmatic_dependent_launch", settings.programmatic ? "on" : "off");
    for (auto const& o : all)
      if (settings.wants(o.name)) o.run(on, settings, to);
    to.write(settings.json);
    return 0;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "ratify-bench: %s\n", e.what());
    return 1;
  }
}
