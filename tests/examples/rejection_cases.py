#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rule rejection in plain Python: rejection_cases.py CASES_DIR [--write]

Says what the acceptance_rejection cases must give, from their inputs alone: exponentials in FP64, everything after them
in integers of any size. A decision so close that another exponential of 2 ulp could turn it is an error, so that the
files hold for every implementation. Without --write the files' expectations are compared; with it they are made anew."""
import math
import pathlib
import random
import struct
import sys

import run_files as rf
from philox import philox

CLOSE = 2**-18  # relative; an FP32 exponential of an argument up to 16 errs by less than 2^-19


def apart(a, b):
    """The two sides of a comparison, far enough apart."""
    if abs(a - b) <= CLOSE * max(abs(a), abs(b)) and (a or b):
        sys.exit(f"too close to call: {a} and {b}")


def distribution(x, temperature, top_p, top_k):
    """[(id, mass)] in order; None for a bad row."""
    if any(math.isnan(v) for v in x) or max(x) == -math.inf:
        return None
    order = sorted(range(len(x)), key=lambda i: (-x[i], i))
    best = x[order[0]]
    if best == math.inf or temperature < 1e-5:
        return [(order[0], 1 << 40)]
    kept = order[:top_k] if 0 < top_k < len(x) else order
    entries = [(i, round(2**40 * math.exp((x[i] - best) / temperature))) for i in kept]
    total, running = sum(m for _, m in entries), 0
    if top_p == 1:
        return entries
    for n, (_, mass) in enumerate(entries):
        running += mass
        apart(running, top_p * total)
        if running >= top_p * total:
            return entries[:n + 1]


def inverse_cdf(entries, word, scale=0):
    """`scale`: the sum of the masses that these were made of, whose errors they have."""
    total = sum(m for _, m in entries)
    point, running = word * total >> 32, 0
    for i, mass in entries:
        running += mass
        if mass and abs(running - point) <= 4 * CLOSE * max(total, scale):
            sys.exit(f"too close to call: {running} and {point}")
        if running > point:
            return i


def judge(p, draft, weights, vocab, accept, redraw):
    """`weights`: [(id, FP32)], or None for a chosen draft."""
    if not 0 <= draft < vocab:
        return inverse_cdf(p, redraw)
    q, p_total = {draft: 1}, sum(m for _, m in p)
    if weights is not None:
        counted = [(i, w) for i, w in weights if 0 <= i < vocab]
        exponent = math.frexp(max(w for _, w in counted))[1]
        q = {}
        for i, w in counted:
            q[i] = q.get(i, 0) + round(math.ldexp(w, 40 - exponent))
    q_total = sum(q.values())
    share = lambda i: q.get(i, 0) * p_total // q_total
    own = dict(p).get(draft, 0)
    if own and share(draft):
        apart(accept * share(draft), own << 32)
    if accept * share(draft) < own << 32:
        return draft
    rest = [(i, max(0, m - share(i))) for i, m in p]
    return inverse_cdf(rest, redraw, p_total) if sum(m for _, m in rest) else inverse_cdf(p, redraw)


def expected(tensors):
    get = lambda name: tensors[name].values()
    starts, limit, ends = get("query_start"), get("limit"), get("end_tokens")
    vocab, most = tensors["logits"].shape[1], tensors["draft"].shape[1]
    logits, draft = get("logits"), get("draft")
    out = {"tokens": [], "emitted": [], "accepted": [], "finish": [], "row_status": []}
    dense = "draft_probs" in tensors
    each = vocab if dense else tensors["draft_candidates"].shape[2]
    for r in range(len(starts) - 1):
        rows = range(starts[r], starts[r + 1])
        if not rows:
            out["tokens"] += [-1] * (most + 1)
            for name in ("emitted", "accepted", "finish"):
                out[name].append(0)
            continue
        given = []
        for t, row in enumerate(rows):
            p = distribution(logits[row * vocab:(row + 1) * vocab], get("temperature")[r], get("top_p")[r], get("top_k")[r])
            out["row_status"].append(int(p is None))
            position = get("position")[r] + t
            accept, redraw = (philox(get("seed")[r], position, purpose) for purpose in (1, 2))
            if p is None:
                given.append(None)
            elif row + 1 == rows.stop:
                given.append(inverse_cdf(p, redraw))
            else:
                at = (r * most + t) * each
                ids = range(vocab) if dense else get("draft_candidates")[at:at + each]
                weights = get("draft_probs" if dense else "draft_candidate_q")[at:at + each]
                given.append(judge(p, draft[r * most + t], list(zip(ids, weights)), vocab, accept, redraw))
        tokens, accepted, finish = [], 0, 0
        for t, token in enumerate(given):
            if len(tokens) >= limit[r]:
                break
            if token is None:
                finish = 3
                break
            tokens.append(token)
            same = t + 1 < len(given) and draft[r * most + t] == token
            accepted += same
            if token in ends:
                finish = 1
            if finish or not same:
                break
        if not finish and len(tokens) >= limit[r]:
            finish = 2
        out["tokens"] += tokens + [-1] * (most + 1 - len(tokens))
        out["emitted"].append(len(tokens))
        out["accepted"].append(accepted)
        out["finish"].append(finish)
    shapes = {"tokens": [len(starts) - 1, most + 1], "row_status": [tensors["logits"].shape[0]]}
    return {f"expected.{k}": rf.Tensor.of("I32", shapes.get(k, [len(starts) - 1]), v) for k, v in out.items()}


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def inputs(dense, seed):
    rng = random.Random(seed)
    vocab, most, candidates = 40, 4, 6
    drafts = [4, 4, 0, 3, 4, 2, 4, 1, 4, 4]  # of each request; one has no rows
    rows = [n + 1 for n in drafts]
    rows[5] = 0
    n = len(rows)
    starts = [sum(rows[:i]) for i in range(n + 1)]
    temperature = [1, 0.7, 1, 0, 1.5, 1, 1e-6, 1, 1, 0.8]
    top_k = [0, 20, 5, 0, -1, 3, 4, 1, 100, 8]
    top_p = [1, 0.95, 0.9, 1, 1, 0.5, 0.9, 1, 0.6, 1]
    limit = [9, 9, 9, 9, 2, 9, 9, 9, 0, 9]
    logits, draft, ids, weights, end = [], [], [], [], 0
    for r in range(n):
        for t in range(most):
            row = [single(rng.gauss(0, 2)) for _ in range(vocab)]
            if (r, t) in ((1, 3), (7, 0)):
                row[7] = math.nan
            if (r, t) == (9, 2):
                row[11] = row[30] = math.inf
            if t < rows[r]:
                logits += row
            near = [v if math.isfinite(v) else 9.0 for v in row]
            order = sorted(range(vocab), key=lambda i: (-near[i], i))
            q = [single(math.exp((v - max(near)) / 1.3 + rng.gauss(0, 0.8)) * (0.25 if r != 4 else 300.0)) for v in near]
            some = order[:candidates]
            own = [q[i] for i in some]
            if r == 0:
                some[-1], own[-1] = -1, -3.0  # counts nothing, whatever stands there
            if r == 1:
                some[-1] = some[0]  # counts twice
            ids += some
            weights += q if dense else own
            x = rng.choices(range(vocab) if dense else [max(i, 0) for i in some], q if dense else [max(w, 0) for w in own])[0]
            if r == 3 or r == 6:
                x = order[0] if t < 2 else order[1]
                end = order[0] if (r, t) == (3, 1) else end
            if (r, t) == (9, 3):
                x = vocab
            draft.append(x)
        if rows[r] == most + 1:
            logits += [single(rng.gauss(0, 2)) for _ in range(vocab)]
    of = rf.Tensor.of
    tensors = {
        "logits": of("F32", [starts[-1], vocab], logits), "query_start": of("I32", [n + 1], starts),
        "draft": of("I32", [n, most], draft), "temperature": of("F32", [n], temperature),
        "top_p": of("F32", [n], top_p), "top_k": of("I32", [n], top_k),
        "seed": of("I64", [n], [rng.getrandbits(63) - (1 << 62) for _ in range(n)]),
        "position": of("I64", [n], [0, 7, 1 << 40, 3, 262143, 0, (1 << 32) - 2, 1, 1, 12]),
        "end_tokens": of("I32", [2], [end, 39]), "limit": of("I32", [n], limit)
    }
    if dense:
        tensors["draft_probs"] = of("F32", [n, most, vocab], weights)
    else:
        tensors["draft_candidates"] = of("I32", [n, most, candidates], ids)
        tensors["draft_candidate_q"] = of("F32", [n, most, candidates], weights)
    return tensors


failed = 0
for name, dense in (("acceptance_rejection", False), ("acceptance_rejection_probs", True)):
    path = pathlib.Path(sys.argv[1]) / f"{name}.safetensors"
    if "--write" in sys.argv:
        tensors = inputs(dense, 2 + dense)
        rf.write(path, {**tensors, **expected(tensors)}, {"op": "acceptance", "policy": "rule=rejection"})
    tensors = rf.read(path)[0]
    for key, value in expected(tensors).items():
        if tensors[key].values() != value.values() or tensors[key].shape != value.shape:
            failed += 1
            print(f"{name} {key}: the file has {tensors[key].values()}, must be {value.values()}")
    show = {k: tensors[f"expected.{k}"].values() for k in ("emitted", "accepted", "finish")}
    print(f"{name}: {show}")
sys.exit(1 if failed else 0)
