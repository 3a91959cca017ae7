#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that can only be checked on a card, in one command. Writes one result file.
#
# tests/device.sh RESULT_FILE [PTX_FOLDER]
#
# PTX_FOLDER holds PTX of another architecture, made by tests/toolchains/nvrtc.py --ptx: with it, code for sm_70 is
# executed on whatever card this is. Needs a card, nvcc, and what the tests need. The environment variable BUILD names the
# build folder (default: build/device).
set -uo pipefail
result=$(realpath -m "${1:?RESULT_FILE}")
ptx=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
build=${BUILD:-build/device}
mkdir -p "$(dirname "$result")" "$build"
rm -f "$build/failed"

say() { echo "$@" | tee -a "$result"; }

# run NAME COMMAND...: runs a command and reports its verdict, and the last line of its output that sums it up.
run() {
  local name=$1 begin=$SECONDS log="$build/$1.log"
  shift
  if "$@" >"$log" 2>&1; then
    say "ok      $name ($((SECONDS - begin)) s): $(grep -E 'assertions:|trials|tests passed|differ from|each object launches|ERROR SUMMARY|identical to|kernels of' "$log" | tail -1)"
  else
    touch "$build/failed"
    say "FAILED  $name ($((SECONDS - begin)) s), see $log"
    tail -15 "$log" | tee -a "$result"
  fi
}

: >"$result"
say "card: $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)"
say "commit: $(git rev-parse --short HEAD 2>/dev/null || cat .commit 2>/dev/null || echo unknown); $(nvcc --version | tail -1)"
say "command: tests/device.sh"

run configure cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRATIFY_CUDA=ON
run build cmake --build "$build" -- -k 0
[ -e "$build/failed" ] && exit 1
# No figure below depends on time, so everything runs at once.
tests=$build/tests/ratify_tests
# The tests of an operation lie in tests/OPERATION.cpp, tests/OPERATION_*.cpp or tests/OPERATION/.
operations=$(printf '*tests/%s*,' acceptance activation attention cache convolution decoder drafting embedding graph merge \
  normalization projection recurrence shadow)
run tests "$tests" &
run generate_tests "$build/tests/generate_tests" --test-case-exclude='*2000*' &
run graphs env RATIFY_TEST_GRAPH=1 "$tests" --source-file="${operations%,}" &
run programmatic_graphs env RATIFY_TEST_GRAPH=1 RATIFY_TEST_PROGRAMMATIC=1 "$tests" --source-file="${operations%,}" &
run linkage_architectures python3 tests/linkage/run.py . "${CXX:-g++}" nvcc --architectures &
run threads "$tests" --source-file='*tests/threads.cpp' &
run lengths "$tests" --test-case='lengths: *' &
run cases python3 tests/examples/run_cases.py "$build/examples/ratify-run" tests/cases cuda &
if [ -n "$ptx" ]; then
  run "ptx" python3 tests/examples/run_cases.py "$build/examples/ratify-run" tests/cases "ptx=$ptx" &
else
  say "not run ptx: no PTX_FOLDER given"
fi
run run_time_policy "$build/examples/run_time_policy" 256 8 "$build/policy_cache" &
run demo "$build/examples/generate" --executor cuda --compare --tokens 240 --temperature 0.7 --top-k 20 --top-p 0.95 \
  --prompt "The old man looked at the sea and said" &
# check NAME TOOL ARGUMENTS OF THE TESTS...
check() {
  local name=$1 tool=$2
  shift 2
  run "$name" timeout "${SANITIZER_SECONDS:-600}" compute-sanitizer --tool "$tool" --error-exitcode 1 "$tests" "$@" &
}
for tool in memcheck racecheck initcheck synccheck; do
  # G6 runs 4096 tokens one by one, which takes racecheck minutes and shows nothing that 32 rows do not show. Lengths are
  # checked below.
  for operation in acceptance attention cache convolution drafting normalization projection recurrence; do
    RATIFY_TEST_SCALE=0.1 check "${tool}_$operation" "$tool" --source-file="*tests/$operation*" \
      --test-case-exclude='G6*,lengths: *'
  done
done
for checked in memcheck:1025 memcheck:3297 memcheck:262144 racecheck:1025 racecheck:3297; do
  check "lengths_${checked/:/_}" "${checked%:*}" --test-case="lengths: attention at context ${checked#*:}*"
done
check threads_memcheck memcheck --source-file='*tests/threads.cpp'
wait
if [ -e "$build/failed" ]; then
  say "SOMETHING FAILED"
  exit 1
fi
say "all passed"
