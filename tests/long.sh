#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The random twin tests of every operation with many times more shapes, on the host and on a card if there is one. Takes
# minutes.
#
# tests/long.sh [TEST_PROGRAM [SEED]...]
#
# Prints how many shapes each test drew. Fails if a result differs from its twin, and prints the seed to run again with.
set -uo pipefail
cd "$(dirname "$0")/.."
program=${1:-build/tests/ratify_tests}
shift $(($# > 0))
[ $# -gt 0 ] || set -- 20261130
failed=0
total=0

# run OPERATION SCALE TEST_CASES: tests/OPERATION.cpp or the files of that folder. The scale is chosen such that every
# operation gets a share of the time.
run() {
  local output drawn
  if ! output=$(RATIFY_TEST_SEED=$seed RATIFY_TEST_SCALE=$2 "$program" --source-file="*tests/$1*" --test-case="$3" 2>&1); then
    failed=1
    echo "FAILED with RATIFY_TEST_SEED=$seed RATIFY_TEST_SCALE=$2 in tests/$1*:"
    grep -E 'ERROR' -A12 <<<"$output" | head -60
  fi
  drawn=$(grep -E '^ *[0-9]+ random shapes in +[0-9]' <<<"$output")
  total=$((total + $(awk '{ n += $1 } END { print n + 0 }' <<<"$drawn")))
  [ -n "$drawn" ] || { failed=1; drawn="no test of tests/$1* drew a shape"; }
  echo "$drawn"
}

for seed in "$@"; do
  echo "seed $seed"
  run attention 12 'attention*twin*,attention*unroll and decoder*'
  run merge 10 'merge equals its twin*'
  run recurrence 24 'recurrence equals its twin*'
  run recurrence 24 'replay equals its twin*'
  run convolution 30 'convolution equals its twin*'
  run projection 20 'projection equals its twin*odd shapes*'
  run acceptance 6 'acceptance equals its twin*,rejection equals its twin*'
  run drafting 15 'draft_walk equals its twin*,draft_convolution equals its twin*'
  run cache 20 'append equals its twin*'
  run normalization 40 'rmsnorm equals*,gated_rmsnorm equals*,qk_norm_rotary equals*'
  run activation 30 'gating equals its twin bit for bit,gating equals its twin bit for bit<*,silu_and_mul equals*,sigmoid_gate equals*'
  run embedding 40 'embedding equals its twin*'
  run decoder 100 'decode equals its table*'
done
echo "$total random shapes compared with their twins, $([ $failed = 0 ] && echo all equal || echo SOMETHING FAILED)"
exit $failed
