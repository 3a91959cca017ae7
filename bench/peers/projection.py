#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Projections of 8 rows with FP16 weights by cuBLAS (torch.mm): what is given up where weights are not 4 bits wide. Written
for torch 2.11."""
from timing import Run

ROWS = 8
run = Run("projection", ("torch",))
torch = run.torch
run.begin()
for n, k in ((17408, 5120), (5120, 8704), (8256, 5120), (5120, 3072), (7168, 5120), (124160, 5120),
             (34816, 5120), (5120, 17408), (16480, 5120), (5120, 6144), (14336, 5120), (248320, 5120)):
    shape = f"{n}x{k}"
    if not run.wants(shape):
        continue
    moved = 2 * n * k
    weights = [torch.randn(n, k, device="cuda", dtype=torch.float16) for _ in range(run.sets(moved))]
    x = torch.randn(ROWS, k, device="cuda", dtype=torch.float16)
    y = torch.empty(ROWS, n, device="cuda", dtype=torch.float16)
    run.measure(shape, "cuBLAS FP16", [lambda w=w: torch.mm(x, w.T, out=y) for w in weights], moved,
                note="FP16 weights, 3.6 times the bytes")
    del weights
    torch.cuda.empty_cache()
