#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The drafter's operations in plain Python: drafting_cases.py CASES_DIR [--write]

Computes what the draft_walk and draft_convolution cases must give, from their inputs alone: scores and exponentials in
FP64, masses and draws in integers. A decision that is so close that an error of FP32 scores could change it ends the
program with an error, so that the files are right for every implementation. Without --write, the expected tensors of the
files are compared with the computed ones; with it, the files are written again."""
import math
import pathlib
import random
import struct
import sys

import run_files as rf
from philox import philox

CLOSE = 1e-5  # difference of scores, whose FP32 error is below 1e-6 here; temperatures are at least 0.6


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bf16(x):
    """-> (bits, value) of a number whose lower 16 bits are cut off, which is a BF16 number."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0] >> 16
    return bits, struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def values(t):
    if t.dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + t.data[i:i + 2])[0] for i in range(0, len(t.data), 2)]
    return t.values()


def choose(entries, temperature, word):
    """[(score, id, place)] -> (token, {place: q}); (-1, {}) if no entry counts."""
    entries = sorted((e for e in entries if e[0] > -math.inf), key=lambda e: (-e[0], e[1], e[2]))
    if not entries:
        return -1, {}
    for (a, _, _), (b, _, _) in zip(entries, entries[1:]):
        if a != b and a - b <= CLOSE:
            sys.exit(f"too close to call: scores {a} and {b}")
    if temperature < 1e-5 or entries[0][0] == math.inf:
        return entries[0][1], {entries[0][2]: 1.0}
    masses = [round(2**40 * math.exp((score - entries[0][0]) / temperature)) for score, _, _ in entries]
    total = sum(masses)
    point, running, token = word * total >> 32, 0, None
    for (_, id, _), mass in zip(entries, masses):
        running += mass
        if abs(running - point) <= 4 * CLOSE * total and running != total:
            sys.exit(f"too close to call: {running} and {point} of {total}")
        if running > point and token is None:
            token = id
    return token, {place: mass / total for (_, _, place), mass in zip(entries, masses)}


def walk(tensors, sample):
    get = lambda name: values(tensors[name])
    requests, slots, count = tensors["unary"].shape
    vocab, rank = tensors["left"].shape
    unary, candidates, left, right, project = map(get, ("unary", "candidates", "left", "right", "project"))
    tokens, q = [], []
    for r in range(requests):
        token = get("anchor")[r]
        for s in range(slots):
            entries, at = [], (r * slots + s) * count
            for c in range(count if token >= 0 else 0):
                id = candidates[at + c]
                if 0 <= id < vocab:
                    p = project[(r * slots + s) * rank:(r * slots + s + 1) * rank]
                    pair = zip(left[token * rank:(token + 1) * rank], p, right[id * rank:(id + 1) * rank])
                    entries.append((unary[at + c] + math.fsum(a * b * d for a, b, d in pair), id, c))
            word = philox(get("seed")[r], get("position")[r] + s, 3) if sample else 0
            token, share = choose(entries, get("temperature")[r] if sample else 0.0, word)
            tokens.append(token)
            q += [share.get(c, 0.0) for c in range(count)]
    return {"expected.tokens": rf.Tensor.of("I32", [requests, slots], tokens),
            "expected.q": rf.Tensor.of("F32", [requests, slots, count], q)}


def walk_inputs(sample):
    rng = random.Random(11 + sample)
    requests, slots, count, vocab, rank = 5, 7, 8, 40, 37
    normals = lambda n, deviation=1.0: [single(rng.gauss(0, deviation)) for _ in range(n)]
    unary, project = normals(requests * slots * count), normals(requests * slots * rank, rank**-0.5)
    candidates = []
    for _ in range(requests * slots):
        candidates += rng.sample(range(vocab), count)
    at = lambda r, s, c=0: (r * slots + s) * count + c
    candidates[at(0, 1, 2)] = candidates[at(0, 5, 7)] = -1  # counts nothing, whatever its unary is
    unary[at(0, 1, 2)] = 99.0
    for s in (0, 3):  # equal scores: the lowest id wins, and the shares are exact
        project[(slots + s) * rank:(slots + s + 1) * rank] = [0.0] * rank
        unary[at(1, s):at(1, s + 1)] = [0.5] * count
    candidates[at(2, 2, 6)], unary[at(2, 2, 6)] = candidates[at(2, 2, 1)], unary[at(2, 2, 1)]  # listed twice
    unary[at(3, 1, 4)], unary[at(3, 1, 5)] = math.nan, -math.inf
    unary[at(3, 4, 3)] = unary[at(3, 4, 6)] = math.inf  # the lower id of the two
    candidates[at(4, 5):at(4, 6)] = [-1] * count  # no token in this slot and in those after it
    of = rf.Tensor.of
    tables = [bf16(rng.gauss(0, 1)) for _ in range(vocab * rank)]
    tensors = {
        "unary": of("F32", [requests, slots, count], unary), "candidates": of("I32", [requests, slots, count], candidates),
        "left": of("F32", [vocab, rank], normals(vocab * rank)),
        "right": rf.Tensor("BF16", [vocab, rank], struct.pack(f"<{len(tables)}H", *(b for b, _ in tables))),
        "project": of("F32", [requests, slots, rank], project), "anchor": of("I32", [requests], [3, 0, vocab - 1, 17, 5])
    }
    if sample:
        tensors["temperature"] = of("F32", [requests], [1, 0.7, 1.5, 1, 0.6])
        tensors["seed"] = of("I64", [requests], [rng.getrandbits(63) - (1 << 62) for _ in range(requests)])
        tensors["position"] = of("I64", [requests], [0, 262140, (1 << 32) - 3, 1 << 40, 12])
    return tensors


def greedy_inputs():
    """Mode sample with temperatures at which nothing is drawn."""
    tensors = walk_inputs(True)
    tensors["temperature"] = tensors["temperature"].with_values([0, 1e-6, 9.9e-6, 0, 0])
    return tensors


def convolution(tensors):
    x, base, delta = (values(tensors[n]) for n in ("x", "base", "delta"))
    requests, slots, channels = tensors["x"].shape
    out = []
    for row in range(requests * slots):
        for c in range(channels):
            taps = range(2 if row % slots else 1)
            out.append(math.fsum((base[t * channels + c] + delta[(row * 2 + t) * (channels // 16) + c // 16]) *
                                 x[(row - t) * channels + c] for t in taps))
    return {"expected.out": rf.Tensor.of("F32", tensors["x"].shape, out)}


def convolution_inputs():
    rng = random.Random(13)
    requests, slots, channels = 2, 8, 48
    half = lambda n: [struct.unpack("<e", struct.pack("<e", rng.gauss(0, 1)))[0] for _ in range(n)]
    taps = [bf16(rng.gauss(0, 1)) for _ in range(2 * channels)]
    return {
        "x": rf.Tensor.of("F16", [requests, slots, channels], half(requests * slots * channels)),
        "base": rf.Tensor("BF16", [2, channels], struct.pack(f"<{len(taps)}H", *(b for b, _ in taps))),
        "delta": rf.Tensor.of("F32", [requests, slots, 2, channels // 16],
                              [single(rng.gauss(0, 1)) for _ in range(requests * slots * 2 * channels // 16)])
    }


SAMPLE = {"op": "draft_walk", "policy": "mode=sample"}
CASES = {  # name: (inputs, expected, metadata)
    "draft_walk": (lambda: walk_inputs(False), lambda t: walk(t, False), {"op": "draft_walk"}),
    "draft_walk_sample": (lambda: walk_inputs(True), lambda t: walk(t, True), {**SAMPLE, "rtol.q": "1e-4", "atol.q": "1e-9"}),
    "draft_walk_greedy": (greedy_inputs, lambda t: walk(t, True), SAMPLE),
    "draft_convolution": (convolution_inputs, convolution,
                          {"op": "draft_convolution", "rtol.out": "1e-6", "atol.out": "4e-6"}),
}
failed = 0
for name, (inputs, expected, metadata) in CASES.items():
    path = pathlib.Path(sys.argv[1]) / f"{name}.safetensors"
    if "--write" in sys.argv:
        tensors = inputs()
        rf.write(path, {**tensors, **expected(tensors)}, metadata)
    tensors = rf.read(path)[0]
    for key, value in expected(tensors).items():
        if tensors[key].data != value.data or tensors[key].shape != value.shape:
            failed += 1
            print(f"{name} {key}: the file has {tensors[key].values()}, must be {value.values()}")
    print(f"{name}: {len(tensors)} tensors, {path.stat().st_size} bytes")
sys.exit(1 if failed else 0)
