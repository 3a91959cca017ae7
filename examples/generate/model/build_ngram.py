# SPDX-License-Identifier: Apache-2.0
"""Builds ngram.safetensors, the drafter of the demo, from the training text.

    python3 build_ngram.py TEXT_DIR ngram.safetensors

The file is one open-addressing hash table with linear probing. A slot is 0
when empty, otherwise (tag24 << 8) | next_byte. The key of a context of n
bytes is FNV-1a 64 over the byte n and the n bytes in text order; its slot is
key % slots and its tag key >> 40, where 0 becomes 1. A lookup tries the
longest order first and takes the first hit.

Entries are chosen by what they add: an entry is worth the number of places in
the training text that it predicts rightly, less those that the longest stored
shorter suffix would have predicted rightly. One that predicts the same byte
as that suffix is therefore worth nothing and is left out. The threshold is
the lowest one at which the entries fit.
"""

import argparse
import os

import numpy as np

from checkpoint import read_safetensors, write_safetensors

FNV_OFFSET = 0xCBF29CE484222325
FNV_PRIME = np.uint64(0x100000001B3)


def order_hash(n):
    """FNV-1a over the byte n: where every key of order n starts."""
    return np.uint64((FNV_OFFSET ^ n) * int(FNV_PRIME) % 2**64)


def context_hashes(text, n):
    """hash of the n bytes before each position n .. len(text) (inclusive)."""
    count = len(text) - n + 1
    h = np.full(count, order_hash(n), np.uint64)
    for j in range(n):
        h ^= text[j:j + count]
        h *= FNV_PRIME
    return h


def slot_and_tag(h, slots):
    tag = (h >> np.uint64(40)).astype(np.uint32)
    return (h % np.uint64(slots)).astype(np.int64), np.maximum(tag, 1)


def candidates(text, n, least):
    """Contexts of n bytes whose best next byte occurs at least `least` times.

    Returns keys of the contexts, a place where each occurs, and a sorted list
    of (56 bits of key, byte) with counts to look other bytes up in.
    """
    h = context_hashes(text, n)[:-1]  # the last has no next byte
    following = text[n:]
    # No context across an end of text, and none that predicts it.
    ends = np.concatenate([[0], np.cumsum(text == 0, dtype=np.int64)])
    valid = ends[n + 1:len(text) + 1] == ends[:len(text) - n]
    where = np.flatnonzero(valid)
    pair = (h[where] & ~np.uint64(255)) | following[where]
    order = np.argsort(pair)
    pair = pair[order]
    starts = np.flatnonzero(np.concatenate([[True], pair[1:] != pair[:-1]]))
    counts = np.diff(np.append(starts, len(pair)))
    pairs, somewhere = pair[starts], where[order[starts]]
    context = pairs >> np.uint64(8)
    # The best byte of each context that has one seen often enough: largest
    # count, then smallest byte.
    often = np.flatnonzero(counts >= least)
    often = often[np.lexsort((pairs[often], -counts[often], context[often]))]
    best = often[np.concatenate([[True], context[often][1:] != context[often][:-1]])]
    # Only the pairs of these contexts are ever looked up.
    at = np.minimum(np.searchsorted(context[best], context), len(best) - 1)
    keep = context[best][at] == context
    return {
        "n": n, "hash": h[somewhere[best]], "position": somewhere[best] + n,
        "byte": (pairs[best] & np.uint64(255)).astype(np.uint8), "count": counts[best],
        "pairs": pairs[keep], "counts": counts[keep],
    }


def select(text, tables, threshold):
    """One list of chosen candidates per order, for a threshold on the worth."""
    chosen = []
    for table in tables:
        positions = table["position"]
        fallback = np.zeros(len(positions), np.uint8)
        found = np.zeros(len(positions), bool)
        for shorter in reversed(chosen):
            n = shorter["n"]
            h = np.full(len(positions), order_hash(n), np.uint64)
            for j in range(n):
                h ^= text[positions - n + j]
                h *= FNV_PRIME
            at = np.searchsorted(shorter["hash"], h)
            at[at == len(shorter["hash"])] = 0
            hit = (shorter["hash"][at] == h) & ~found if len(shorter["hash"]) else np.zeros_like(found)
            fallback[hit] = shorter["byte"][at[hit]]
            found |= hit
        pair = (table["hash"] & ~np.uint64(255)) | fallback
        at = np.minimum(np.searchsorted(table["pairs"], pair), len(table["pairs"]) - 1)
        already = np.where(found & (table["pairs"][at] == pair), table["counts"][at], 0)
        take = table["count"] - already >= threshold
        order = np.argsort(table["hash"][take])
        chosen.append({
            "n": table["n"], "hash": table["hash"][take][order], "byte": table["byte"][take][order],
            "worth": (table["count"] - already)[take][order],
        })
    return chosen


def build(chosen, slots):
    table = np.zeros(slots, np.uint32)
    entries = 0
    # The most used first: they then sit close to their own slot.
    h = np.concatenate([c["hash"] for c in chosen])
    byte = np.concatenate([c["byte"] for c in chosen])
    worth = np.concatenate([c["worth"] for c in chosen])
    order = np.argsort(-worth, kind="stable")
    slot, tag = slot_and_tag(h[order], slots)
    for s, t, b in zip(slot.tolist(), tag.tolist(), byte[order].tolist()):
        while table[s] and table[s] >> 8 != t:
            s = (s + 1) % slots
        if not table[s]:
            table[s] = t << 8 | b
            entries += 1
    return table, entries


def predict(table, text, low, high):
    """The predicted byte at every position of the text, -1 where there is none."""
    out = np.full(len(text), -1, np.int64)
    for n in range(high, low - 1, -1):
        slot, tag = slot_and_tag(context_hashes(text, n)[:-1], len(table))
        open_ = np.flatnonzero(out[n:] < 0)
        s, t = slot[open_], tag[open_]
        while len(open_):
            entry = table[s]
            hit = (entry != 0) & (entry >> 8 == t)
            out[n + open_[hit]] = entry[hit] & 255
            more = (entry != 0) & ~hit
            open_, s, t = open_[more], (s[more] + 1) % len(table), t[more]
    return out


def accepted_per_round(table, text, low, high, drafts=7):
    """Greedy rounds over real text: drafts are right as long as the table
    predicts what stands there; the byte after them is emitted as well."""
    right = predict(table, text, low, high) == text
    at, rounds, accepted = high, 0, 0
    right = right.tolist()
    while at + drafts < len(text):
        n = 0
        while n < drafts and right[at + n]:
            n += 1
        accepted += n
        rounds += 1
        at += n + 1
    return accepted / rounds, float(np.mean(right))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--slots", type=int, default=249_000)
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--min-order", type=int, default=2)
    parser.add_argument("--max-order", type=int, default=12)
    parser.add_argument("--least", type=int, default=8, help="fewest occurrences of a candidate")
    args = parser.parse_args()
    text = np.fromfile(os.path.join(args.text, "train.bin"), np.uint8)
    tables = [candidates(text, n, args.least) for n in range(args.min_order, args.max_order + 1)]
    room = int(args.slots * args.load)

    def fits(threshold):
        return sum(len(c["hash"]) for c in select(text, tables, threshold)) <= room

    low = high = args.least  # the lowest threshold that fits
    while not fits(high):
        low, high = high + 1, high * 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    chosen = select(text, tables, low)
    table, entries = build(chosen, args.slots)
    metadata = {"min_order": str(args.min_order), "max_order": str(args.max_order), "slots": str(args.slots),
                "entries": str(entries), "hash": "fnv1a64", "license": "Apache-2.0"}
    write_safetensors(args.out, {"table": ("I32", table.view(np.int32))}, metadata)
    print(f"threshold {low}, {entries} entries, load {entries / args.slots:.3f}, {os.path.getsize(args.out)} bytes")
    print("per order:", {c["n"]: len(c["hash"]) for c in chosen})
    table = read_safetensors(args.out)[0]["table"][1].view(np.uint32)
    for name in ("heldout", "train"):
        part = np.fromfile(os.path.join(args.text, name + ".bin"), np.uint8)[:2_000_000]
        mean, rate = accepted_per_round(table, part, args.min_order, args.max_order)
        print(f"{name}: {mean:.3f} of 7 drafts accepted a round, {100 * rate:.1f} % of bytes predicted")


if __name__ == "__main__":
    main()
