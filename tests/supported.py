#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of what is built, between the README's markers: supported.py RATIFY_RUN README [--write]

The policies are those that ratify-run lists; what an operation promises, its limits and where it is tested stand here. An
operation without a test that names it is a failure, and without --write so is a README that differs."""
import json
import pathlib
import re
import subprocess
import sys

# operation: (contract, limits, files of tests/, with :WORD where their test cases call the operation that). Formats and knobs are in the headers and in the policies.
promises = {
    "acceptance": ("exact integers; rule alone changes which tokens are emitted", "vocabulary 1 to 4194304; any number of requests; 2^30 drafts per request; 65535 shards", ["acceptance/twin.cpp", "acceptance/rules.cpp"]),
    "append": ("correctly rounded", "any rows, heads, head_dim, page size", ["cache.cpp", "attention_lengths.cpp"]),
    "attention": ("ordered; partition_width alone changes bits", "32 rows per request; 64 query heads per KV head, 65535 in all; head_dim 64, 128, 256; any page size; context to 2^30; K and V aligned to 16 bytes", ["attention/twin.cpp", "attention/rows.cpp", "attention/nonfinite.cpp", "attention/range.cpp", "attention_lengths.cpp"]),
    "convolution": ("ordered; no knob changes the order", "any rows and channels; 65535 requests; width 2 to 4; input F16 or BF16", ["convolution.cpp"]),
    "decode": ("exact; every value of decoder gives the same bits", "2^40 - 512 codes", ["decoder.cpp"]),
    "draft_convolution": ("ordered", "any number of slots; channels a multiple of 16", ["drafting/convolution.cpp"]),
    "draft_walk": ("ordered scores, exact draws", "1 to 64 candidates per slot; any rank and number of slots; vocabulary to 4194304", ["drafting/walk.cpp", "drafting/draws.cpp", "drafting/walk_range.cpp"]),
    "embedding": ("a copy", "any table", ["embedding.cpp"]),
    "gated_rmsnorm": ("ordered", "any rows, heads, head_dim", ["normalization/twin.cpp", "normalization/range.cpp"]),
    "gating": ("element by element", "any rows and heads", ["activation/gating.cpp"]),
    "merge": ("ordered: parts are added in the order in which they are given", "any parts and rows; head_dim to 65536", ["merge.cpp"]),
    "projection": ("ordered; split_k and effective_scale change bits", "any M and N; K a multiple of 16; weights aligned to 8 bytes", ["projection/twin.cpp", "projection/range.cpp"]),
    "qk_norm_rotary": ("ordered", "any rows, heads, head_dim; rotary_dim even", ["normalization/twin.cpp", "normalization/range.cpp"]),
    "recurrence": ("ordered; l2norm alone changes bits; every mode gives the same bits", "32 rows per request; 65535 requests; value heads a multiple of key heads; key and value dim 64, 128; rings of 16, 32, 64", ["recurrence/twin.cpp", "recurrence/snapshots.cpp", "recurrence/histories.cpp:replay", "recurrence/replay.cpp:replay"]),
    "rmsnorm": ("ordered", "any rows and columns", ["normalization/twin.cpp", "normalization/range.cpp"]),
    "sigmoid_gate": ("element by element", "any rows, heads, head_dim", ["activation/products.cpp"]),
    "silu_and_mul": ("element by element", "any rows and columns", ["activation/products.cpp"]),
}

program, readme = sys.argv[1], pathlib.Path(sys.argv[2])
tests = pathlib.Path(__file__).resolve().parent
built = json.loads(subprocess.run([program, "--list", "--json"], check=True, capture_output=True, text=True).stdout)
rows = {}
for policy in built:
    row = rows.setdefault(policy["operation"], {"header": policy["header"], "count": 0, "knobs": {}})
    row["count"] += 1
    for key, value in policy["policy"].items():
        values = row["knobs"].setdefault(key, [])
        if value not in values:
            values.append(value)
if set(rows) != set(promises):
    sys.exit(f"tests/supported.py and the policies do not name the same operations: {sorted(set(rows) ^ set(promises))}")

policies = ["| operation | header | policies | knobs |", "|---|---|---|---|"]
contracts = ["| operation | bits | limits | tested in |", "|---|---|---|---|"]
for name, row in sorted(rows.items()):
    contract, limits, files = promises[name]
    for file, _, word in (f.partition(":") for f in files):
        word = word or name
        if not (tests / file).is_file():
            sys.exit(f"tests/{file}, where {name} is said to be tested, is not there")
        text = (tests / file).read_text()
        if not re.search(rf'TEST_CASE(_TEMPLATE)?\(\s*"[^"]*\b{word}\b', text):
            sys.exit(f"no test case of tests/{file} names {word}")
        text += "".join((tests / h).read_text() for h in re.findall(r'#include "(support/\w+\.hpp)"', text))
        if f"<ratify/{row['header'].split('/')[1]}>" not in text and not re.search(rf"\bratify::{name}(_policy)?[<,]", text):
            sys.exit(f"tests/{file} does not use {name}")
    varied = {k: v for k, v in row["knobs"].items() if len(v) > 1}
    knobs = "; ".join(f"`{k}` {', '.join(sorted(v, key=lambda x: (len(x), x)))}" for k, v in varied.items())
    policies.append(f"| `{name}` | [{row['header'].split('/')[1]}](include/{row['header']}) | {row['count']} | {knobs} |")
    where = ", ".join(f"[{file}](tests/{file})" for file in (f.partition(":")[0] for f in files))
    contracts.append(f"| `{name}` | {contract} | {limits} | {where} |")
caption = ("*Ordered*: the order of every sum is documented and kept ([docs/arithmetic.md](docs/arithmetic.md)). No knob changes a bit "
           "of a result, except those that choose its format or what is computed, and those that the table names. Limits are the "
           "largest values, and \"any\" is any number from 1 up whose byte offsets fit into 64 bits and whose blocks fit into a "
           "CUDA grid (2^31 - 1 in x, 65535 in y and z): a launch that needs more blocks is refused as unsupported.")
begin, end = "<!-- supported -->\n", "<!-- /supported -->"
text = readme.read_text()
head, rest = text.split(begin)
new = head + begin + "\n".join(policies + ["", caption, ""] + contracts) + "\n" + end + rest.split(end)[1]
if "--write" in sys.argv:
    readme.write_text(new)
elif new != text:
    sys.exit("the README's tables are not what is built: run tests/supported.py RATIFY_RUN README.md --write")
print(f"{len(built)} policies of {len(rows)} operations")
