#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the program as a user would, with good and with bad input.
#   generate_cli.sh PROGRAM MODEL_DIR
program=$1
models=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
  echo "FAILED: $1"
  failures=$((failures + 1))
}

# expect CODE PATTERN ARGUMENTS...: the exit code, one line on stderr that matches, nothing on stdout.
expect() {
  code=$1
  pattern=$2
  shift 2
  "$program" "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: $*"
  [ "$(wc -l <"$work/err")" -eq 1 ] || fail "not one line on stderr: $*: $(cat "$work/err")"
  grep -q -- "$pattern" "$work/err" || fail "stderr does not say '$pattern': $*: $(cat "$work/err")"
  [ -s "$work/out" ] && fail "something on stdout: $*"
  return 0
}

expect 2 'prompt is empty'
expect 2 'prompt is empty' --prompt ''
expect 2 'no-such-option' --no-such-option text
expect 2 'drafts' --drafts 0 text
expect 2 'drafts' --drafts 16 text
expect 2 'drafts' --drafts many text
expect 2 'tokens' --tokens 0 text
expect 2 'temperature' --temperature -1 text
expect 2 'temperature' --temperature nan text
expect 2 'top-p' --top-p 1.5 text
expect 2 'executor' --executor abacus text
expect 2 'seed 9223372036854775808: must be' --seed 9223372036854775808 text
expect 2 'seed -99999999999999999999: must be' --seed -99999999999999999999 text
expect 2 'seed 1.5: must be' --seed 1.5 text
expect 2 'seed : must be' --seed '' text
expect 2 'prompt is empty' --seed -9223372036854775808 --prompt ''
expect 2 'excludes' --prompt-file "$work/none" text
expect 2 'cannot be opened' --prompt-file "$work/none"
expect 2 'cannot be read' --prompt-file "$work"
expect 2 'no prompt' --prompt-file /dev/zero
expect 2 'none: cannot be opened' --model "$work/none" text
expect 2 'none: cannot be opened' --ngram "$work/none" text
expect 2 'cannot be read' --model "$work" text

head -c 5000 /dev/zero | tr '\0' 'a' >"$work/long"
expect 2 'the prompt has 5000 bytes' --prompt-file "$work/long"

head -c 100000 "$models/model.safetensors" >"$work/short"
expect 2 'past the end of the data' --model "$work/short" text
head -c 100 "$models/model.safetensors" >"$work/shorter"
expect 2 'does not fit' --model "$work/shorter" text
expect 2 'hidden_size' --model "$models/ngram.safetensors" text
expect 2 'min_order' --ngram "$models/model.safetensors" text
expect 2 'not fit\|too short\|JSON' --model "$0" text

# Without a card, or built without CUDA, asking for one is an error; with one it runs.
"$program" --executor cuda --tokens 4 text >"$work/out" 2>"$work/err"
case $? in
  0) ;;
  2) grep -q 'executor cuda' "$work/err" || fail "cuda: $(cat "$work/err")" ;;
  *) fail "exit code of --executor cuda" ;;
esac

"$program" --help >"$work/out" 2>"$work/err" || fail '--help'
grep -q -- '--compare' "$work/out" || fail '--help says nothing of --compare'

"$program" --compare --tokens 24 --temperature 1 --seed 3 --threads 2 'It was a dark night' >"$work/out" 2>"$work/err" ||
  fail "a plain run: $(cat "$work/err")"
grep -q '^It was a dark night' "$work/out" || fail 'the prompt is not shown'
grep -q 'identical to plain decoding' "$work/out" || fail 'no verdict'

# A second policy on the same operands: the same text, every layer compared, no bit differs.
"$program" --shadow --tokens 6 --temperature 1 --seed 3 --threads 2 'It was a dark night' >"$work/shadow" 2>"$work/err" ||
  fail "a run with --shadow: $(cat "$work/err" "$work/shadow")"
grep -q 'of 8 layers under a second policy, .* no bit differs' "$work/shadow" || fail 'no verdict of the shadow'

# A file as prompt gives the same tokens, and JSON holds them.
printf 'It was a dark night' >"$work/prompt"
"$program" --json --tokens 24 --temperature 1 --seed 3 --prompt-file "$work/prompt" >"$work/json" 2>"$work/err" ||
  fail "a run with --json: $(cat "$work/err")"
if command -v python3 >/dev/null; then
  python3 - "$work/json" "$work/out" <<'PYTHON' || fail 'the JSON object'
import json, sys
run = json.load(open(sys.argv[1]))
shown = open(sys.argv[2], encoding="utf-8").read()
assert len(run["tokens"]) == 24 or run["stop"] == "end token", run["stop"]
text = bytes(t for t in run["tokens"] if t < 256)
if all(32 <= b < 127 for b in text):
    assert shown.startswith("It was a dark night" + text.decode()), (shown, text)
assert run["rounds"] + run["accepted"] == len(run["tokens"])
PYTHON
fi

[ "$failures" -eq 0 ] || exit 1
echo 'all runs of the program as expected'
