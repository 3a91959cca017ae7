// SPDX-License-Identifier: Apache-2.0
/// Entry of the test program. Says what it runs on and which seed it uses; a run of no test is a failure.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "executors.hpp"
#include "random.hpp"

#include <cstdio>

namespace {

unsigned tests_run = 0;
long all_shapes = 0;

struct counting_listener : doctest::IReporter {
  explicit counting_listener(doctest::ContextOptions const&) {}
  void report_query(doctest::QueryData const&) override {}
  void test_run_start() override {}
  void test_run_end(doctest::TestRunStats const& s) override { tests_run = s.numTestCasesPassingFilters; }
  void test_case_start(doctest::TestCaseData const& t) override {
    name_ = t.m_name;
    ratify_test::shapes_drawn() = 0;
  }
  void test_case_reenter(doctest::TestCaseData const&) override {}
  void test_case_end(doctest::CurrentTestCaseStats const& s) override {
    int const shapes = ratify_test::shapes_drawn();
    all_shapes += shapes;
    if (ratify_test::scale() > 1.0 && shapes > 0)
      std::printf("%6d random shapes in %5.1f s: %s\n", shapes, s.seconds, name_.c_str());
  }
  void test_case_exception(doctest::TestCaseException const&) override {}
  void subcase_start(doctest::SubcaseSignature const&) override {}
  void subcase_end() override {}
  void log_assert(doctest::AssertData const&) override {}
  void log_message(doctest::MessageData const&) override {}
  void test_case_skipped(doctest::TestCaseData const&) override {}
 private:
  std::string name_;
};
DOCTEST_REGISTER_LISTENER("count", 1, counting_listener);

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  std::printf("ratify tests: host executor%s; seed %llu (RATIFY_TEST_SEED)", ratify_test::card_description().c_str(),
              static_cast<unsigned long long>(ratify_test::seed()));
  if (ratify_test::scale() != 1.0) std::printf("; scale %g (RATIFY_TEST_SCALE)", ratify_test::scale());
  if (ratify_test::shuffle_seed() != 0)
    std::printf("; shuffled by %llu (RATIFY_TEST_SHUFFLE)",
                static_cast<unsigned long long>(ratify_test::shuffle_seed()));
  std::printf("\n");
  int const result = context.run();
  if (ratify_test::scale() > 1.0) std::printf("%6ld random shapes in all\n", all_shapes);
  if (!context.shouldExit() && tests_run == 0) {
    std::fputs("ratify tests: no test matches the filter\n", stderr);
    return 1;
  }
  return result;
}
