#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the policy lists cost: build_size.py BUILD

For each translation unit of ratify-run, which is the policies of an operation or a few: seconds to compile, out of ninja's
log, and bytes of the object, each against its budget. Fails where one is over."""
import pathlib
import sys

# Two to three times what a quiet machine of two cores took with g++ 12. Seconds count by those of main.cpp, which has no
# kernels: on a machine that is slow or shared all take longer alike. Whoever makes a list longer raises its budget in the
# same change, and so says what it costs.
MAIN = 2.0  # seconds of main.cpp there
BUDGET = {  # translation unit: (seconds, megabytes)
    "acceptance": (17, 1.3),
    "attention": (90, 7.0),
    "cache": (13, 1.6),  # append and decode
    "convolution": (12, 1.5),
    "drafting": (8, 0.7),
    "glue": (12, 1.1),
    "projection": (28, 2.7),
    "recurrence": (30, 3.5),
}
ANOTHER = (10, 1.0)  # one that the table does not name
PROGRAM = ("ratify-run", 215, 11.0)

build = pathlib.Path(sys.argv[1])
seconds = {}
for line in (build / ".ninja_log").read_text().splitlines()[1:]:
    begin, end, _, path, _ = line.split("\t")
    if "ratify_run.dir/" in path:
        seconds[path] = (int(end) - int(begin)) / 1000  # the last time it was compiled
rows = [(pathlib.Path(path).name.split(".")[0], took, (build / path).stat().st_size / 1e6)
        for path, took in sorted(seconds.items()) if (build / path).exists()]
slow = max(1.0, max((r[1] for r in rows if r[0] == "main"), default=0.0) / MAIN)
over = []


def report(name, took, size, budget):
    print(f"{name:12} {took:5.0f} s of {budget[0] * slow:4.0f} {size:7.2f} MB of {budget[1]:4}")
    if took > budget[0] * slow or size > budget[1]:
        over.append(name)


if slow > 1:
    print(f"this machine, now: {slow:.1f} times slower than the one of the budget")
for name, took, size in rows:
    report(name, took, size, BUDGET.get(name, ANOTHER))
report(PROGRAM[0], sum(r[1] for r in rows), (build / "examples/ratify-run").stat().st_size / 1e6, PROGRAM[1:])
missing = set(BUDGET) - {r[0] for r in rows}
if missing:
    print("not found in ninja's log:", *sorted(missing))
if over:
    print("over budget:", *over)
sys.exit(1 if over or missing else 0)
