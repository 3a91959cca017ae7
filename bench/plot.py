#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws results of bench/run.py: plot.py RESULT.json FOLDER writes FOLDER/RESULT_OPERATION.svg for each operation.

Operations with one policy share a drawing, of a round's parts the first and the last length are drawn. Bars: p50 of every arm with p99 as a whisker, and the lower bound as a line. Needs matplotlib."""
import json
import pathlib
import re
import sys


def draw(plt, operation, cases, facts, path):
    rows = []  # label, arm, p50, p99, bound
    for case in cases:
        rows.append((case["shape"], case["control"]["name"], case["comparisons"][0]["control"], case["bound_us"]))
        rows += [("", c["candidate"]["name"], c["measured"], case["bound_us"]) for c in case["comparisons"] if "measured" in c]
    arms = list(dict.fromkeys(r[1] for r in rows))
    colours = ["#8c8c8c", "#2b6cb0", "#c05621", "#2f855a"]
    figure, axes = plt.subplots(figsize=(10, 0.8 + 0.26 * len(rows)))
    y, ticks, labels, seen = 0.0, [], [], set()
    for shape, name, measured, bound in rows:
        y -= 0.4 * bool(shape) + 1
        colour = colours[arms.index(name) % len(colours)]
        axes.barh(y, measured["p50"], 0.85, color=colour, label=None if name in seen else name)
        axes.plot([measured["p50"], measured["p99"]], [y, y], color="black", linewidth=0.8)
        if bound > 0:
            axes.plot([bound, bound], [y - 0.45, y + 0.45], color="black", linewidth=1.6,
                      label=None if "bound" in seen else "bytes / read bandwidth")
            seen.add("bound")
        seen.add(name)
        if shape:
            ticks.append(y)
            labels.append(shape)
    axes.set_yticks(ticks, labels, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlabel("microseconds a launch, p50 (line: p99)")
    axes.set_title(f"{operation}: {facts['card']}, commit {facts['commit']}", fontsize=10)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    axes.margins(y=0.01)
    axes.grid(axis="x", linewidth=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot.py: matplotlib is not installed")
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ratify"
    matplotlib.rcParams["svg.fonttype"] = "none"
    import matplotlib.pyplot as plt
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    result = json.loads(source.read_text())
    folder.mkdir(parents=True, exist_ok=True)
    groups = {}
    whole = list(dict.fromkeys(c["part_of"] for c in result["cases"] if c["part_of"]))
    for case in result["cases"]:
        if case["part_of"]:
            if case["part_of"] in (whole[0], whole[-1]):
                groups.setdefault(f"parts of {case['part_of']}", []).append({**case, "shape": case["operation"],
                                                                            "comparisons": case["comparisons"][:1]})
        elif any("measured" in c for c in case["comparisons"]):
            groups.setdefault(case["operation"], []).append(case)
        else:
            named = {**case["control"], "name": "the only policy"}
            groups.setdefault("others", []).append({**case, "shape": f"{case['operation']} {case['shape']}", "control": named})
    for name, cases in groups.items():
        path = folder / (source.stem + "_" + re.sub(r"[^A-Za-z0-9]+", "_", name) + ".svg")
        draw(plt, name, cases, result["facts"], path)
        print(path)


if __name__ == "__main__":
    main()
