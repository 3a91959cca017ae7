#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From 8 rows of 248320 logits to tokens, top_k 20, top_p 0.95: FlashInfer's softmax and samplers, and its chain of
speculative sampling, which wants probabilities; torch's softmax and topk. Tried with flashinfer-python 0.7.4, torch 2.11."""
from timing import Run, head

ROWS, VOCABULARY = 8, 248320
run = Run("acceptance")
torch = run.torch
sampling = run.library("flashinfer.sampling", "flashinfer-python")
head()
moved = 4 * ROWS * VOCABULARY
logits = []
for _ in range(run.sets(moved)):
    x = 2 * torch.randn(ROWS, VOCABULARY, device="cuda")
    at = torch.randint(0, VOCABULARY, (ROWS, 48), device="cuda")
    logits.append(x.scatter_(1, at, 9 + 3 * torch.randn(ROWS, 48, device="cuda")))
shape = "8x248320"
run.measure(shape, "torch softmax", [lambda x=x: torch.softmax(x, -1) for x in logits], 2 * moved)
run.measure(shape, "torch topk 20", [lambda x=x: torch.topk(x, 20, dim=-1) for x in logits], moved)
if sampling is not None:
    seed = torch.tensor([7], device="cuda", dtype=torch.int64)
    offset = torch.tensor([0], device="cuda", dtype=torch.int64)
    random = {"seed": seed, "offset": offset}
    probabilities = [torch.softmax(x, -1) for x in logits]
    run.measure(shape, "FlashInfer softmax", [lambda x=x: sampling.softmax(x, temperature=1.0) for x in logits], 2 * moved)
    run.measure(shape, "FlashInfer top_k_top_p_sampling_from_logits",
                [lambda x=x: sampling.top_k_top_p_sampling_from_logits(x, 20, 0.95, **random) for x in logits], moved)
    run.measure(shape, "FlashInfer softmax, top_k_top_p_sampling_from_probs", [
        lambda x=x: sampling.top_k_top_p_sampling_from_probs(sampling.softmax(x, temperature=1.0), 20, 0.95, **random)
        for x in logits], 3 * moved)
    drafts = [p[:7].argmax(-1).to(torch.int32)[None] for p in probabilities]
    drawn_from = [p[None, :7].contiguous() for p in probabilities]
    accepted, emitted = (torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))
    run.measure(shape, "FlashInfer chain_speculative_sampling, 7 drafts, of given probabilities", [
        lambda p=p, q=q, d=d: sampling.chain_speculative_sampling(q, d, p[None], accepted, emitted, **random)
        for p, q, d in zip(probabilities, drawn_from, drafts)], 2 * moved)
run.finish()
