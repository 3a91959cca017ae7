#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ours and other libraries, on one card in one go, in one table.

compare.py PROGRAM RESULT [--cap SECONDS] [--only OPERATION] [--commit ID] [--note TEXT] [-- ARGUMENTS OF PROGRAM]
compare.py --table RESULT

PROGRAM is ratify-bench. Writes RESULT.json and RESULT.md after every process, so that a stop loses only the rest; --table makes
RESULT.md anew from RESULT.json. Each peer of each operation is a process of its own; what is not installed, fails or takes
longer than the cap is a line under the table. Needs nothing but Python 3; the peers need what README.md names."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
from run import command_line, commit, quantile  # noqa: E402

PEERS = {"attention": ("flashinfer", "torch"), "recurrence": ("flashinfer", "fla"), "acceptance": ("flashinfer", "torch"),
         "projection": ("torch",)}
METHOD = (
    "Ours and a peer run in processes of their own, one after the other on an otherwise idle card, an operation's peers right "
    "after ours. A sample is one replay of a CUDA graph of launches of at least half a millisecond, timed by events around it, "
    "and divided by its launches; the launches go through operand sets that together hold more than twice the L2 cache, random "
    "contents. Ours is the fastest of the measured policies at the shape. Ratio = p50 of the peer / p50 of ours, above 1 where "
    "ours is faster. bound = bytes that our operation must move / the bandwidth of a streaming read measured in our process. "
    "error = relative L2 distance of a peer's result from the formula in FP32, where it was looked at.")


def p(samples):
    us = [quantile(samples, q) for q in (0.5, 0.9, 0.99)]
    return " / ".join(f"{u:.{1 if us[0] >= 1000 else 2}f}" for u in us)


def fastest(case):
    """Name and samples of the policy with the least p50."""
    arms = [(case["control"]["name"], sum((c["control_us"] for c in case["comparisons"]), []))]
    arms += [(c["candidate"]["name"], c["candidate_us"]) for c in case["comparisons"] if c["candidate_us"]]
    return min(arms, key=lambda arm: quantile(arm[1], 0.5))


def table(result):
    ours, card, bandwidth = {}, {"card": "No card"}, None
    for start in result["ours"]:
        bandwidth = start["numbers"]["read_gb_per_s"]
        card.update(start["facts"])
        for case in start["cases"]:
            ours[case["operation"], case["shape"]] = (*fastest(case), case["bytes"] / bandwidth / 1e3)
    versions, missing = {}, {}
    for peer in result["peers"]:
        card.update({key: peer[key] for key in ("card", "driver") if key in peer})
        versions.update(peer["versions"])
        missing.update(peer["missing"])
    lines = ["# Ours and other libraries", "",
             ", ".join([card["card"]] + [f"{what} {card[key]}" for what, key in (("driver", "driver"), ("CUDA", "cuda_runtime"))
                                         if key in card] + [f"commit {result['commit']}"] +
                       [f"{name} {number}" for name, number in sorted(versions.items())]) +
             (f". Streaming read {bandwidth:.0f} GB/s" if bandwidth else "") +
             ". Microseconds a launch, p50 / p90 / p99.", "", f"`{result['command']}`", "", METHOD, ""]
    lines += [result["note"], ""] if result["note"] else []
    lines += ["| operation | shape | ours | us | peer | us | ratio | bound us | error | the peer otherwise |",
              "|---|---|---|---|---|---|---|---|---|---|"]
    seen = set()
    for peer in result["peers"]:
        for case in peer["cases"]:
            key = (case["operation"], case["shape"])
            seen.add(key)
            name, samples, bound = ours.get(key, ("not measured", None, None))
            us = p(case["us"]) if "us" in case else f"failed: {case.get('failed', 'it was stopped here')}"
            ratio = f"{quantile(case['us'], 0.5) / quantile(samples, 0.5):.2f}" if samples and "us" in case else ""
            error = f"{case['error']:.1e}" if "error" in case else ""
            mine, least = (p(samples), f"{bound:.2f}") if samples else ("", "")
            lines.append(f"| {key[0]} | {key[1]} | {name} | {mine} | {case['peer']} | {us} | {ratio} | {least} | {error} | "
                         f"{case['note']} |")
    for key in ours:
        if key in seen:
            continue
        name, samples, bound = ours[key]
        lines.append(f"| {key[0]} | {key[1]} | {name} | {p(samples)} | none | | | {bound:.2f} | | |")
    lines += ["", *(f"- Not here: {name} ({why})." for name, why in sorted(missing.items())),
              *(f"- {trouble}" for trouble in result["trouble"])]
    return "\n".join(lines).rstrip() + "\n"


class Peer:
    """A process that has imported its packages and waits for the card."""

    def __init__(self, operation, peer, folder):
        self.name, self.path = f"{operation}.py --peer {peer}", pathlib.Path(folder) / f"{operation}_{peer}.json"
        self.process = subprocess.Popen([sys.executable, str(FOLDER / f"{operation}.py"), "--peer", peer, "--wait", "--json",
                                         str(self.path)], stdin=subprocess.PIPE, text=True)

    def imported(self, cap):
        """Waits until it wants the card; it writes what it imported before that."""
        until = time.monotonic() + cap
        while not self.path.exists() and self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)

    def go(self, cap):
        """What it found, and a line where it did not come to its end."""
        trouble = None
        try:
            self.process.communicate("\n", timeout=cap)
            if self.process.returncode != 0:
                trouble = f"{self.name} ended with status {self.process.returncode}; what it had measured before is above."
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            trouble = f"{self.name} was stopped after {cap:.0f} s; what it had measured before is above."
        return json.loads(self.path.read_text()) if self.path.exists() else None, trouble


def ours(program, operation, passed, folder, cap):
    path = pathlib.Path(folder) / "ours.json"
    path.unlink(missing_ok=True)
    try:
        done = subprocess.run([str(program.resolve()), operation, *passed, "--json", str(path)], check=False, timeout=cap)
    except (OSError, subprocess.TimeoutExpired) as e:
        return None, f"{program.name} {operation}: {type(e).__name__}; ours was not measured."
    if done.returncode != 0 or not path.exists():
        return None, f"{program.name} {operation} ended with status {done.returncode}; ours was not measured."
    return json.loads(path.read_text()), None


def write(path, result):
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix, text in ((".json", json.dumps(result, separators=(",", ":")) + "\n"), (".md", table(result))):
        part = path.with_suffix(".part")
        part.write_text(text)
        os.replace(part, path.with_suffix(suffix))


def main():
    def options(parser):
        parser.add_argument("--cap", type=float, default=900, help="most seconds of a process; compiling on first use counts")
        parser.add_argument("--only", action="append", choices=PEERS, help="this operation")
        parser.add_argument("--note", default="", help="how the peers were installed, for the table")

    a, passed = command_line(__doc__, table, options)
    command = " ".join(["bench/peers/compare.py", a.program.name, a.result.name] + (["--", *passed] if passed else []))
    result = {"command": command, "commit": a.commit or commit(), "note": a.note, "ours": [], "peers": [], "trouble": []}
    operations = a.only or list(PEERS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # takes the waiting processes along
    with tempfile.TemporaryDirectory() as folder:
        # All of them import at once, which takes longer than many a measurement; then one at a time has the machine.
        began = time.monotonic()
        waiting = {(o, peer): Peer(o, peer, folder) for o in operations for peer in PEERS[o]}
        try:
            for peer in waiting.values():
                peer.imported(a.cap - (time.monotonic() - began))
            print(f"imports: {time.monotonic() - began:.0f} s", flush=True)
            for operation in operations:
                began = time.monotonic()
                steps = [("ours", lambda o=operation: ours(a.program, o, passed, folder, a.cap))]
                steps += [("peers", lambda o=operation, peer=peer: waiting[o, peer].go(a.cap)) for peer in PEERS[operation]]
                for where, step in steps:
                    found, trouble = step()
                    result[where] += [found] if found is not None else []
                    result["trouble"] += [trouble] if trouble is not None else []
                    write(a.result, result)
                print(f"{operation}: {time.monotonic() - began:.0f} s", flush=True)
        finally:
            for peer in waiting.values():
                peer.process.kill()


if __name__ == "__main__":
    main()
