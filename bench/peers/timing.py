# SPDX-License-Identifier: Apache-2.0
"""How another library is timed, as bench/harness.hpp times ours: replays of a CUDA graph of launches over operand sets that
together hold more than twice the L2 cache, events around a replay, after a warm-up; p50, p90 and p99 of the samples."""
import argparse
import importlib
import importlib.metadata
import json
import math
import pathlib
import subprocess
import sys


def need(module, package=None):
    """The module, or None with a line that says it is not installed."""
    package = package or module.split(".")[0]
    try:
        found = importlib.import_module(module)
    except ImportError as e:
        print(f"{package}: not installed ({module}: {e})")
        return None
    print(f"{package} {version(package)}")
    return found


def version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


class Run:
    """The cases of one script, and its table."""

    def __init__(self, operation):
        parser = argparse.ArgumentParser()
        parser.add_argument("--json", type=pathlib.Path, help="also write samples and versions here")
        parser.add_argument("--samples", type=int, default=20)
        parser.add_argument("--shape", default="", help="only shapes with this text in them")
        self.options = parser.parse_args()
        self.operation, self.cases, self.versions = operation, [], {}
        self.torch = need("torch")
        if self.torch is None:
            sys.exit(0)
        if not self.torch.cuda.is_available():
            print("no CUDA device here; nothing was measured")
            sys.exit(0)
        self.torch.manual_seed(1)
        self.properties = self.torch.cuda.get_device_properties(0)

    def library(self, module, package=None):
        found = need(module, package)
        if found is not None:
            name = package or module.split(".")[0]
            self.versions[name] = version(name)
        return found

    def wants(self, shape):
        return self.options.shape in shape

    def sets(self, set_bytes):
        return max(2, math.ceil(2.2 * self.properties.L2_cache_size / set_bytes))

    def measure(self, shape, peer, launches, moved):
        """launches: one function for each operand set; moved: bytes that one of them has to move."""
        torch = self.torch
        try:
            stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                for launch in launches:
                    launch()
            torch.cuda.synchronize()

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
            samples = [replay(graph) / (times * len(launches)) for _ in range(self.options.samples)]
        except Exception as e:  # a peer that lacks a shape or a card says so in its own words
            torch.cuda.synchronize()
            print(f"| {self.operation} | {shape} | {peer} | failed: {type(e).__name__}: {str(e).splitlines()[0][:200]} |")
            return
        samples_in_order, samples = samples, sorted(samples)

        def quantile(q):
            at = q * (len(samples) - 1)
            low, high = math.floor(at), math.ceil(at)
            return samples[low] + (samples[high] - samples[low]) * (at - low)

        self.cases.append({"operation": self.operation, "shape": shape, "peer": peer, "bytes": moved, "sets": len(launches),
                           "launches": times * len(launches), "us": samples_in_order})
        print(f"| {self.operation} | {shape} | {peer} | {quantile(0.5):.2f} / {quantile(0.9):.2f} / {quantile(0.99):.2f} | "
              f"{moved / quantile(0.5) / 1e3:.0f} GB/s |", flush=True)

    def finish(self):
        if self.options.json is None:
            return
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                                text=True, check=False).stdout.strip()
        self.options.json.write_text(json.dumps({
            "card": self.properties.name, "driver": driver, "torch": self.torch.__version__, "versions": self.versions,
            "command": " ".join(sys.argv), "method": __doc__, "cases": self.cases}) + "\n")


def head():
    print("| operation | shape | peer | us, p50 / p90 / p99 | |\n|---|---|---|---|---|", flush=True)
