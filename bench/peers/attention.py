#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention of 8 rows over a long cache, head dim 256, pages of 64: FlashInfer's paged prefill (E4M3 and FP16 cache) and
torch's scaled_dot_product_attention (FP16, no pages). Written for flashinfer-python 0.7.4 and torch 2.11."""
from timing import Run

ROWS, DIM, PAGE = 8, 256, 64
run = Run("attention", ("flashinfer", "torch"))
torch = run.torch
flashinfer = run.library("flashinfer", "flashinfer", "flashinfer-python")
run.begin()


def truth(q, k, v, causal):
    """q: rows, heads, dim; k, v: tokens, KV heads, dim; by the formula in FP32."""
    k, v = (x.float().repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) / DIM**0.5
    if causal:
        last = torch.arange(len(q), device="cuda")[:, None] + len(k) - len(q)
        scores.masked_fill_(torch.arange(len(k), device="cuda")[None] > last, float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v)


def paged(q_heads, kv_heads, tokens, kv_type, name):
    size = tokens * kv_heads * DIM * 2 * torch.empty((), dtype=kv_type).element_size()
    sets, pages = run.sets(size), tokens // PAGE
    cache = [tuple((0.5 * torch.randn(pages, PAGE, kv_heads, DIM, device="cuda", dtype=torch.float16)).to(kv_type)
                   for _ in "kv") for _ in range(sets)]
    q = torch.randn(ROWS, q_heads, DIM, device="cuda", dtype=torch.float16)
    out = torch.empty_like(q)
    order = torch.randperm(pages, device="cuda").to(torch.int32)

    def integers(*values):
        return torch.tensor(values, dtype=torch.int32, device="cuda")

    def launches():
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            torch.zeros(256 << 20, dtype=torch.uint8, device="cuda"), "NHD", backend="fa2")
        wrapper.plan(integers(0, ROWS), integers(0, pages), order, integers(PAGE), q_heads, kv_heads, DIM, PAGE, causal=True,
                     q_data_type=torch.float16, kv_data_type=kv_type, o_data_type=torch.float16)
        return [lambda c=c: wrapper.run(q, c, out=out) for c in cache]

    def check():  # every launch wrote the same place: the last set's came last
        k, v = (x[order.long()].flatten(0, 1) for x in cache[-1])
        return out, truth(q, k, v, True)

    run.measure(shape, f"FlashInfer paged prefill fa2, {name} cache", launches, size, check if tokens <= 16384 else None)


def dense(q_heads, kv_heads, tokens):
    size = tokens * kv_heads * DIM * 2 * 2
    cache = [[torch.randn(1, kv_heads, tokens, DIM, device="cuda", dtype=torch.float16) for _ in "kv"]
             for _ in range(run.sets(size))]
    # The query heads that share a KV head are rows of it, so that K and V are read once.
    rows = ROWS * q_heads // kv_heads
    q = torch.randn(1, kv_heads, rows, DIM, device="cuda", dtype=torch.float16)
    run.measure(shape, "torch scaled_dot_product_attention",
                [lambda c=c: torch.nn.functional.scaled_dot_product_attention(q, c[0], c[1]) for c in cache], size,
                note="FP16 cache, no pages, not causal")


for q_heads, kv_heads in ((12, 2), (24, 4)):
    for tokens in (1024, 4096, 16384, 65536, 262144):
        shape = f"hq{q_heads}/hkv{kv_heads} {tokens} tokens"
        if not run.wants(shape):
            continue
        if flashinfer is not None:
            paged(q_heads, kv_heads, tokens, torch.float8_e4m3fn, "E4M3")
            paged(q_heads, kv_heads, tokens, torch.float16, "FP16")
        if run.wants_peer("torch"):
            dense(q_heads, kv_heads, tokens)
        torch.cuda.empty_cache()
