# SPDX-License-Identifier: Apache-2.0
"""How another library is timed, as bench/harness.hpp times ours: replays of a CUDA graph of launches over operand sets that
together hold more than twice the L2 cache, events around a replay, after a warm-up; p50, p90 and p99 of the samples."""
import argparse
import importlib
import importlib.metadata
import json
import math
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from run import driver, quantile  # noqa: E402


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def one_line(error):
    return f"{type(error).__name__}: {' '.join(str(error).replace('|', '/').split())[:240]}"


class Run:
    """The cases of one script, and its table. What was found is written after every case, so that a process that is stopped
    or falls loses only the rest."""

    def __init__(self, operation, peers):
        parser = argparse.ArgumentParser()
        parser.add_argument("--json", type=pathlib.Path, help="also write samples and versions here")
        parser.add_argument("--samples", type=int, default=20)
        parser.add_argument("--shape", default="", help="only shapes with this text in them")
        parser.add_argument("--peer", choices=peers, help="only this one")
        parser.add_argument("--wait", action="store_true", help="touch no card before a line comes on standard input")
        self.options = parser.parse_args()
        self.operation, self.ready = operation, False
        self.found = {"operation": operation, "method": __doc__, "command": " ".join(sys.argv), "versions": {}, "missing": {},
                      "cases": []}
        self.torch = self.library("torch", "torch")
        if self.torch is None:
            self.stop("torch")

    def library(self, peer, module, package=None):
        """The module, or None with a line that says why not, or None where another peer was asked for."""
        if peer != "torch" and self.options.peer not in (None, peer):
            return None
        package = package or module
        try:
            found = importlib.import_module(module)
        except Exception as e:  # installed, but not for this machine, is no reason to stop either
            self.found["missing"][package] = one_line(e)
            print(f"{package}: not here ({module}: {one_line(e)})", flush=True)
            return None
        self.found["versions"][package] = version(package)
        print(f"{package} {version(package)}", flush=True)
        return found

    def wants_peer(self, peer):
        return self.options.peer in (None, peer)

    def begin(self):
        """Everything is imported; from here on the card is in use."""
        self.write()
        if self.options.wait and not sys.stdin.readline():
            sys.exit("nobody waits for this any more")
        if not self.torch.cuda.is_available():
            self.stop("CUDA device")
        self.torch.manual_seed(1)
        self.properties = self.torch.cuda.get_device_properties(0)
        self.found.update({"card": self.properties.name, "driver": driver()})
        print("| operation | shape | peer | us, p50 / p90 / p99 | |\n|---|---|---|---|---|", flush=True)

    def stop(self, what):
        self.found["missing"].setdefault(what, "nothing was measured without it")
        print(f"{what}: not here; nothing was measured", flush=True)
        self.write()
        sys.exit(0)

    def wants(self, shape):
        return self.options.shape in shape

    def sets(self, set_bytes):
        return max(2, math.ceil(2.2 * self.properties.L2_cache_size / set_bytes))

    def measure(self, shape, peer, launches, moved, check=None, note=""):
        """launches: one function for each operand set, or a function that makes them; moved: bytes that one has to move;
        check: called after the first launch of every set, gives (what set 0 came to, what it should be); note: what the peer
        does otherwise than the operation."""
        case = {"operation": self.operation, "shape": shape, "peer": peer, "bytes": moved, "note": note}
        self.found["cases"].append(case)
        try:
            self.time(case, launches() if callable(launches) else launches, check)
            us = [quantile(case["us"], q) for q in (0.5, 0.9, 0.99)]
            error = f", error {case['error']:.1e}" if "error" in case else ""
            print(f"| {self.operation} | {shape} | {peer} | {us[0]:.2f} / {us[1]:.2f} / {us[2]:.2f} | "
                  f"{moved / us[0] / 1e3:.0f} GB/s{error} |", flush=True)
        except Exception as e:  # a peer that lacks a shape or a card says so in its own words
            case["failed"] = one_line(e)
            print(f"| {self.operation} | {shape} | {peer} | failed: {case['failed']} | |", flush=True)
        self.write()
        if "failed" in case:
            try:
                self.torch.cuda.synchronize()
            except Exception as e:
                sys.exit(f"the device is lost to this process: {one_line(e)}")

    def time(self, case, launches, check):
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for launch in launches:
                launch()
        torch.cuda.synchronize()
        if check is not None:
            got, right = (t.double() for t in check())
            case["error"] = ((got - right).norm() / right.norm()).item()
            if not case["error"] < 0.05:
                raise ValueError(f"relative L2 error {case['error']:.2e}: this computes something else")

        def capture(times):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream):
                for _ in range(times):
                    for launch in launches:
                        launch()
            return graph

        def replay(graph):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            return 1e3 * begin.elapsed_time(end)

        once = capture(1)
        for _ in range(3):
            first = replay(once)
        times = max(1, math.ceil(500 / first))
        graph = capture(times)
        spent = 0
        while spent < 2e4:
            spent += replay(graph)
        case.update({"sets": len(launches), "launches": times * len(launches)})
        case["us"] = [replay(graph) / case["launches"] for _ in range(self.options.samples)]

    def write(self):
        if self.options.json is None:
            return
        part = self.options.json.with_suffix(".part")
        part.write_text(json.dumps(self.found) + "\n")
        os.replace(part, self.options.json)
