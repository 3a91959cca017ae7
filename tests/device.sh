#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything a card can check, in one command; writes one result file.
#
# tests/device.sh RESULT_FILE [PTX_FOLDER]
#
# PTX_FOLDER holds PTX of another architecture, made by tests/toolchains/nvrtc.py --ptx: sm_70 code is executed here on
# whatever card this is. Needs a card, nvcc, and what the tests need. BUILD names the build folder (build/device).
set -uo pipefail
result=$(realpath -m "${1:?RESULT_FILE}")
ptx=${2:+$(realpath "$2")}
cd "$(dirname "$0")/.."
build=${BUILD:-build/device}
mkdir -p "$(dirname "$result")" "$build"
failed=0

say() { echo "$@" | tee -a "$result"; }

# run NAME COMMAND...: the last lines of what it prints that say how it went, and its verdict.
run() {
  local name=$1 begin=$SECONDS log="$build/$1.log"
  shift
  if "$@" >"$log" 2>&1; then
    say "ok      $name ($((SECONDS - begin)) s): $(grep -E 'assertions:|trials|tests passed|differ from|each object launches|ERROR SUMMARY|identical to|kernels of' "$log" | tail -1)"
  else
    failed=1
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
tests=$build/tests/ratify_tests
run tests "$tests"
run generate_tests "$build/tests/generate_tests" --test-case-exclude='*2000*'
run graphs env RATIFY_TEST_GRAPH=1 "$tests" --source-file='*tests/acceptance.cpp,*tests/activation.cpp,*tests/attention.cpp,*tests/cache.cpp,*tests/convolution.cpp,*tests/decoder.cpp,*tests/drafting.cpp,*tests/embedding.cpp,*tests/graph.cpp,*tests/merge.cpp,*tests/normalization.cpp,*tests/projection.cpp,*tests/recurrence.cpp,*tests/recurrence_replay.cpp,*tests/shadow.cpp'
run programmatic_graphs env RATIFY_TEST_GRAPH=1 RATIFY_TEST_PROGRAMMATIC=1 "$tests" --source-file='*tests/acceptance.cpp,*tests/activation.cpp,*tests/attention.cpp,*tests/cache.cpp,*tests/convolution.cpp,*tests/decoder.cpp,*tests/drafting.cpp,*tests/embedding.cpp,*tests/graph.cpp,*tests/merge.cpp,*tests/normalization.cpp,*tests/projection.cpp,*tests/recurrence.cpp,*tests/recurrence_replay.cpp,*tests/shadow.cpp'
run linkage_architectures python3 tests/linkage/run.py . "${CXX:-g++}" nvcc --architectures
run threads "$tests" --source-file='*tests/threads.cpp'
run lengths "$tests" --source-file='*tests/attention_lengths.cpp'
run cases python3 tests/examples/run_cases.py "$build/examples/ratify-run" tests/cases cuda
if [ -n "$ptx" ]; then
  run "ptx" python3 tests/examples/run_cases.py "$build/examples/ratify-run" tests/cases "ptx=$ptx"
else
  say "not run ptx: no PTX_FOLDER given"
fi
run run_time_policy "$build/examples/run_time_policy" 256 8 "$build/policy_cache"
run demo "$build/examples/generate" --executor cuda --compare --tokens 240 --temperature 0.7 --top-k 20 --top-p 0.95 \
  --prompt "The old man looked at the sea and said"
for tool in memcheck racecheck initcheck synccheck; do
  # G6 runs 4096 tokens one by one, which takes racecheck minutes and shows nothing that 32 rows do not.
  run "sanitizer_$tool" env RATIFY_TEST_SCALE=0.1 timeout "${SANITIZER_SECONDS:-600}" compute-sanitizer --tool "$tool" \
    --error-exitcode 1 "$tests" --source-file='*tests/attention.cpp,*tests/convolution.cpp,*tests/drafting.cpp,*tests/normalization.cpp,*tests/recurrence.cpp,*tests/recurrence_replay.cpp' --test-case-exclude='G6*'
done
for checked in memcheck:1025 memcheck:3297 memcheck:262144 racecheck:1025 racecheck:3297; do
  run "lengths_${checked/:/_}" timeout "${SANITIZER_SECONDS:-600}" compute-sanitizer --tool "${checked%:*}" --error-exitcode 1 \
    "$tests" --source-file='*tests/attention_lengths.cpp' --test-case="lengths: attention at context ${checked#*:}*"
done
run threads_memcheck timeout "${SANITIZER_SECONDS:-600}" compute-sanitizer --tool memcheck --error-exitcode 1 \
  "$tests" --source-file='*tests/threads.cpp'
say "$([ $failed = 0 ] && echo "all passed" || echo "SOMETHING FAILED")"
exit $failed
