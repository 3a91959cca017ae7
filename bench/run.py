#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts a benchmark several times and writes one JSON file and one table.

run.py PROGRAM RESULT [--starts N] [--commit ID] [--title TEXT] [-- ARGUMENTS OF PROGRAM]
run.py --table RESULT

Writes RESULT.json and RESULT.md; --table makes RESULT.md anew from RESULT.json. PROGRAM is ratify-bench or
ratify-bench-round. Needs nothing but Python 3; a card is needed by PROGRAM."""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

METHOD = (
    "Each start is a process of its own. In a start, control and candidate alternate pair by pair (the order inside a "
    "pair swaps), after a warm-up. A sample is one replay of a CUDA graph of launches, timed by events around it, and "
    "divided by its launches; the launches go through operand sets that together hold more than twice the L2 cache, "
    "random contents. p50, p90, p99 are of all samples of all starts. The ratio is control / candidate of a pair, "
    "above 1 where the candidate is faster: the median over all pairs; [a, b] is where the median of one more start is "
    "expected, 95 of 100 times (Student's t over the starts' medians), iqr the interquartile range of the pairs. "
    "bound = bytes that must move / the bandwidth of a streaming read measured in the same starts (median of starts); "
    "share = bound / p50 of the candidate.")


def quantile(values, q):
    v = sorted(values)
    at = q * (len(v) - 1)
    low = int(at)
    high = min(low + 1, len(v) - 1)
    return v[low] + (v[high] - v[low]) * (at - low)


# 97.5 % of Student's t for 1 degree of freedom and more.
STUDENT = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def expected(medians):
    """Where the median of one more start lies, 95 of 100 times; None for one start, which says nothing of others."""
    n = len(medians)
    if n < 2:
        return None
    half = STUDENT[min(n - 1, len(STUDENT)) - 1] * statistics.stdev(medians) * math.sqrt(1 + 1 / n)
    return [statistics.mean(medians) - half, statistics.mean(medians) + half]


def arm(samples):
    return {"p50": quantile(samples, 0.5), "p90": quantile(samples, 0.9), "p99": quantile(samples, 0.99)}


def merge(starts):
    """The cases of all starts, each with its figures."""
    bandwidth = statistics.median(s["numbers"]["read_gb_per_s"] for s in starts)
    cases = []
    for index, first in enumerate(starts[0]["cases"]):
        same = [s["cases"][index] for s in starts]
        for other in same:
            if (other["operation"], other["shape"]) != (first["operation"], first["shape"]):
                sys.exit("run.py: starts measured different cases")
        case = {key: first[key] for key in ("operation", "shape", "part_of", "bytes", "rotated_bytes", "sets", "launches",
                                            "control")}
        case["bound_us"] = first["bytes"] / bandwidth / 1e3
        case["comparisons"] = []
        for at, comparison in enumerate(first["comparisons"]):
            control = [c["comparisons"][at]["control_us"] for c in same]
            candidate = [c["comparisons"][at]["candidate_us"] for c in same]
            one = {"candidate": comparison["candidate"], "control_us": control, "candidate_us": candidate,
                   "control": arm(sum(control, []))}
            if comparison["candidate_us"]:
                ratios = [[a / b for a, b in zip(x, y)] for x, y in zip(control, candidate)]
                flat = sum(ratios, [])
                one["measured"] = arm(sum(candidate, []))
                one["ratio"] = {"median": statistics.median(flat), "iqr": [quantile(flat, 0.25), quantile(flat, 0.75)],
                                "of_starts": [statistics.median(r) for r in ratios]}
                one["ratio"]["interval"] = expected(one["ratio"]["of_starts"])
            one["share_of_read_bandwidth"] = case["bound_us"] / one.get("measured", one["control"])["p50"]
            case["comparisons"].append(one)
        cases.append(case)
    return cases


def figures(a):
    digits = 1 if a["p50"] >= 1000 else 2
    return " / ".join(f"{a[p]:.{digits}f}" for p in ("p50", "p90", "p99"))


def difference(comparison):
    """Control less candidate, microseconds."""
    return statistics.median(a - b for x, y in zip(comparison["control_us"], comparison["candidate_us"]) for a, b in zip(x, y))


def table(result):
    facts = result["facts"]
    lines = [f"# {result['title']}", "",
             f"{facts['card']}, driver {facts['driver']}, CUDA {facts['cuda_runtime']}, commit {facts['commit']}, "
             f"{len(result['starts'])} starts. Streaming read "
             f"{statistics.median(s['read_gb_per_s'] for s in result['starts']):.0f} GB/s; a dependent launch that does "
             f"nothing {statistics.median(s['dependent_node_us'] for s in result['starts']):.2f} us. Microseconds a "
             "launch, p50 / p90 / p99.", "", f"`{result['command']}`", "", result["method"], ""]
    head = ["| operation | shape | control | us | candidate | us | ratio | bound us | share |",
            "|---|---|---|---|---|---|---|---|---|"]

    def rows(cases):
        out = list(head)
        for case in cases:
            for c in case["comparisons"]:
                ratio = candidate = name = ""
                if "ratio" in c:
                    r = c["ratio"]
                    interval = "one start" if r["interval"] is None else ", ".join(f"{v:.3f}" for v in r["interval"])
                    ratio = f"{r['median']:.3f} [{interval}], iqr {r['iqr'][0]:.3f} to {r['iqr'][1]:.3f}"
                    candidate, name = figures(c["measured"]), c["candidate"]["name"]
                out.append(f"| {case['operation']} | {case['shape']} | {case['control']['name']} | {figures(c['control'])} | "
                           f"{name} | {candidate} | {ratio} | {case['bound_us']:.2f} | "
                           f"{100 * c['share_of_read_bandwidth']:.1f} % |")
        return out

    lines += rows([c for c in result["cases"] if not c["part_of"]])
    for whole in dict.fromkeys(c["part_of"] for c in result["cases"] if c["part_of"]):
        parts = [c for c in result["cases"] if c["part_of"] == whole]
        total = sum(c["comparisons"][0]["measured"]["p50"] for c in parts)
        lines += ["", f"## Parts of a round: {whole}", "",
                  "A graph of the part's launches in a round, in their order, over the round's buffers; microseconds of all "
                  f"of them. The parts' candidates sum to {total:.0f} us.", ""]
        felt = all(len(c["comparisons"]) > 1 for c in parts)
        if felt:
            lines += ["In the round: a candidate's round less one without the part, median of pairs.", ""]
        lines += ["| part | launches | control us | candidate us | of the sum | bound us | share |" +
                  (" in the round us |" if felt else ""), "|---|---|---|---|---|---|---|" + ("---|" if felt else "")]
        for c in sorted(parts, key=lambda c: -c["comparisons"][0]["measured"]["p50"]):
            one = c["comparisons"][0]
            launches = c["shape"].rsplit(", ", 1)[1].split()[0]
            lines.append(f"| {c['operation']} | {launches} | {one['control']['p50']:.1f} | {one['measured']['p50']:.1f} | "
                         f"{100 * one['measured']['p50'] / total:.1f} % | {c['bound_us']:.1f} | "
                         f"{100 * one['share_of_read_bandwidth']:.0f} % |" +
                         (f" {difference(c['comparisons'][1]):.1f} |" if felt else ""))
    return "\n".join(lines) + "\n"


def text_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def driver():
    return text_of(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])


def commit():
    return text_of(["git", "-C", str(pathlib.Path(__file__).resolve().parent), "rev-parse", "--short", "HEAD"])


def command_line(what, make_table, add_options):
    """PROGRAM RESULT, --commit and the options that are added; and the words after --, which are PROGRAM's. For --table
    RESULT: makes the table anew and exits."""
    words = sys.argv[1:]
    if words[:1] == ["--table"] and len(words) == 2:
        path = pathlib.Path(words[1])
        path.with_suffix(".md").write_text(make_table(json.loads(path.with_suffix(".json").read_text())))
        sys.exit()
    own, passed = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    parser = argparse.ArgumentParser(description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("result", type=pathlib.Path)
    parser.add_argument("--commit", help="of the program; default: what git says here")
    add_options(parser)
    return parser.parse_args(own), passed


def main():
    def options(parser):
        parser.add_argument("--starts", type=int, default=3)
        parser.add_argument("--title", default="Paired measurements")

    a, passed = command_line(__doc__, table, options)

    starts = []
    with tempfile.TemporaryDirectory() as folder:
        for i in range(a.starts):
            path = pathlib.Path(folder) / f"{i}.json"
            done = subprocess.run([str(a.program.resolve()), *passed, "--json", str(path)], check=False)
            if done.returncode != 0:
                sys.exit(done.returncode)
            starts.append(json.loads(path.read_text()))
    facts = dict(starts[0]["facts"])
    facts["driver"] = driver()
    facts["commit"] = a.commit or commit()
    command = " ".join(["bench/run.py", a.program.name, a.result.name, "--starts", str(a.starts)] +
                       (["--", *passed] if passed else []))
    result = {"title": a.title, "command": command, "method": METHOD, "facts": facts,
              "starts": [s["numbers"] for s in starts], "cases": merge(starts)}

    def short(value):
        """Samples to a nanosecond are enough."""
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, list):
            return [short(v) for v in value]
        return {k: short(v) for k, v in value.items()} if isinstance(value, dict) else value

    a.result.parent.mkdir(parents=True, exist_ok=True)
    result = short(result)
    a.result.with_suffix(".json").write_text(json.dumps(result, separators=(",", ":")) + "\n")
    a.result.with_suffix(".md").write_text(table(result))


if __name__ == "__main__":
    main()
