#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""From 8 rows of 248320 logits to tokens, top_k 20, top_p 0.95: FlashInfer's softmax and samplers, and its chain of
speculative sampling, which wants probabilities; torch's softmax and topk. Written for flashinfer-python 0.7.4, torch 2.11."""
from timing import Run

ROWS, VOCABULARY = 8, 248320
run = Run("acceptance", ("flashinfer", "torch"))
torch = run.torch
flashinfer = run.library("flashinfer", "flashinfer", "flashinfer-python")
sampling = run.library("flashinfer", "flashinfer.sampling", "flashinfer-python")
run.begin()
moved = 4 * ROWS * VOCABULARY
logits = []
for _ in range(run.sets(moved)):
    x = 2 * torch.randn(ROWS, VOCABULARY, device="cuda")
    at = torch.randint(0, VOCABULARY, (ROWS, 48), device="cuda")
    logits.append(x.scatter_(1, at, 9 + 3 * torch.randn(ROWS, 48, device="cuda")))
coupled, rejection = "8x248320 coupled", "8x248320 rejection"
PART = "a part of the work"
SAMPLES = "samples every row, no drafts"


def each(f):
    return [lambda x=x: f(x) for x in logits]


if run.wants_peer("torch"):
    run.measure(coupled, "torch softmax", each(lambda x: torch.softmax(x, -1)), 2 * moved, note=PART)
    run.measure(coupled, "torch topk 20", each(lambda x: torch.topk(x, 20, dim=-1)), moved, note=PART)
if sampling is not None:
    random = {"seed": torch.tensor([7], device="cuda", dtype=torch.int64),
              "offset": torch.tensor([0], device="cuda", dtype=torch.int64)}
    probabilities = [torch.softmax(x, -1) for x in logits]
    kept = {}

    def softmax(x):
        kept["softmax"] = sampling.softmax(x, temperature=1.0)
        return kept["softmax"]

    def filtered(x):
        return sampling.top_p_renorm_probs(sampling.top_k_renorm_probs(softmax(x), 20), 0.95)

    run.measure(coupled, "FlashInfer softmax", each(softmax), 2 * moved,
                check=lambda: (kept["softmax"], probabilities[-1]), note=PART)
    run.measure(coupled, "FlashInfer top_k_top_p_sampling_from_logits",
                each(lambda x: sampling.top_k_top_p_sampling_from_logits(x, 20, 0.95, **random)), moved, note=SAMPLES)
    run.measure(coupled, "FlashInfer softmax, top_k_top_p_sampling_from_probs",
                each(lambda x: sampling.top_k_top_p_sampling_from_probs(softmax(x), 20, 0.95, **random)), 3 * moved,
                note=SAMPLES)
    run.measure(coupled, "FlashInfer softmax, cake_top_k_top_p_sampling_from_probs",
                each(lambda x: flashinfer.cake_top_k_top_p_sampling_from_probs(softmax(x), 20, 0.95, philox_seed=7,
                                                                               philox_offset=0)), 3 * moved, note=SAMPLES)
    accepted, emitted = (torch.zeros(1, dtype=torch.int32, device="cuda") for _ in range(2))

    def chain(target, draft, draft_from):
        return sampling.chain_speculative_sampling(draft_from, draft, target[None], accepted, emitted, **random)

    for all_accepted in (True, False):
        # The draft's distribution is the target's own, or that of another set.
        draft_from = [p[None, :-1].contiguous() for p in (probabilities if all_accepted else probabilities[1:] + probabilities)]
        drafts = [p.argmax(-1).to(torch.int32) for p in draft_from]
        case = "all 7 drafts accepted" if all_accepted else "drafts of another distribution"
        arguments = list(zip(logits, probabilities, drafts, draft_from))
        run.measure(rejection, f"FlashInfer chain_speculative_sampling, {case}",
                    [lambda p=p, d=d, q=q: chain(p, d, q) for _, p, d, q in arguments], 2 * moved,
                    note="a part of the work: of given probabilities")
        run.measure(rejection, f"FlashInfer softmax, top_k_renorm, top_p_renorm, chain_speculative_sampling, {case}",
                    [lambda x=x, d=d, q=q: chain(filtered(x), d, q) for x, _, d, q in arguments], 4 * moved)
