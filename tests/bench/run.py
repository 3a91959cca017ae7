#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/run.py on figures that are known beforehand: run.py BENCH_FOLDER. Needs no card: the program is a stand-in."""
import json
import pathlib
import subprocess
import sys
import tempfile

bench = pathlib.Path(sys.argv[1])
STAND_IN = '''#!/usr/bin/env python3
import json, pathlib, sys
if "--fail" in sys.argv:
    sys.exit("no CUDA device here; nothing was measured")
out = pathlib.Path(sys.argv[sys.argv.index("--json") + 1])
count = pathlib.Path(__file__).with_suffix(".count")
start = int(count.read_text()) if count.exists() else 0
count.write_text(str(start + 1))
named = lambda n: {"name": n, "policy": n}
pair = {"candidate": named("new"), "control_us": [20.0 + start, 30.0, 40.0], "candidate_us": [10.0 + start / 2, 15.0, 10.0]}
case = {"operation": "round", "shape": "all", "part_of": "", "bytes": 4e6, "rotated_bytes": 8e6, "sets": 2, "launches": 4,
        "control": named("old"), "comparisons": [pair]}
part = {**case, "operation": "norm", "shape": "all, 3 launches", "part_of": "all",
        "comparisons": [pair, {"candidate": named("without"), "control_us": [9.0, 9.5], "candidate_us": [7.0, 7.5]}]}
alone = {**case, "operation": "embed", "comparisons": [{"candidate": named(""), "control_us": [5.0, 6.0], "candidate_us": []}]}
out.write_text(json.dumps({"facts": {"card": "none", "cuda_runtime": "0"},
                           "numbers": {"read_gb_per_s": 2000.0 + 1000 * start, "dependent_node_us": 1.0},
                           "cases": [case, part, alone]}))
'''
failures = 0


def check(what, got, want):
    global failures
    if got != want:
        failures += 1
        print(f"{what}: {got}, not {want}")


with tempfile.TemporaryDirectory() as folder:
    program = pathlib.Path(folder) / "stand_in.py"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    result = pathlib.Path(folder) / "out" / "result"
    command = [sys.executable, str(bench / "run.py"), str(program), str(result), "--starts", "3", "--commit", "abc"]
    subprocess.run(command, check=True)
    found = json.loads(result.with_suffix(".json").read_text())
    table = result.with_suffix(".md").read_text()
    whole, part, alone = found["cases"]
    compared = whole["comparisons"][0]
    check("samples kept, by start", compared["control_us"], [[20.0, 30.0, 40.0], [21.0, 30.0, 40.0], [22.0, 30.0, 40.0]])
    check("control p50", compared["control"]["p50"], 30.0)
    check("candidate p50", compared["measured"]["p50"], 10.5)
    check("control p90", compared["control"]["p90"], 40.0)
    check("ratio of pairs", compared["ratio"]["median"], 2.0)
    check("medians of starts", compared["ratio"]["of_starts"], [2.0, 2.0, 2.0])
    check("interquartile range", compared["ratio"]["iqr"], [2.0, 4.0])
    check("where one more start is expected", compared["ratio"]["interval"], [2.0, 2.0])
    sys.path.insert(0, str(bench))
    import run
    check("Student's t", [round(v, 3) for v in run.expected([1.0, 2.0, 3.0])], [-2.969, 6.969])
    check("one start", run.expected([1.0]), None)
    check("bound by the median bandwidth", whole["bound_us"], 1.33333)
    check("commit", found["facts"]["commit"], "abc")
    check("without a candidate", (alone["comparisons"][0]["control"]["p50"], "ratio" in alone["comparisons"][0]), (5.5, False))
    check("parts in their own table", "## Parts of a round: all" in table and "| norm | 3 |" in table, True)
    check("what a part costs in the round", "| 2.0 |" in table.split("| norm |")[1].splitlines()[0], True)
    before = result.with_suffix(".md").read_text()
    subprocess.run([sys.executable, str(bench / "run.py"), "--table", str(result)], check=True)
    check("the table made anew", result.with_suffix(".md").read_text(), before)
    failed = subprocess.run([*command, "--", "--fail"], capture_output=True, text=True, check=False)
    check("a program that fails", (failed.returncode, "no CUDA device" in failed.stderr), (1, True))

for path in sorted((bench / "results").glob("*.json")):
    made = path.with_suffix(".md").read_text()
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / path.name
        copy.write_text(path.read_text())
        maker = bench / ("run.py" if "cases" in json.loads(path.read_text()) else "peers/compare.py")
        subprocess.run([sys.executable, str(maker), "--table", str(copy.with_suffix(""))], check=True)
        check(f"{path.name} and its table", copy.with_suffix(".md").read_text() == made, True)

print("bench/run.py:", "as expected" if failures == 0 else f"{failures} failures")
sys.exit(1 if failures else 0)
