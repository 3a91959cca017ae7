#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gated delta rule, 8 rows or one, keys and values of 128, FP32 state: FlashInfer's multi-token kernel and
flash-linear-attention's fused recurrence. Tried with flashinfer-python 0.7.4 (with nvidia-cutlass-dsl) and fla-core 0.6.0."""
from timing import Run, head

DIM = 128
run = Run("recurrence")
torch = run.torch
flashinfer = run.library("flashinfer.gdn_decode", "flashinfer-python")
fla = run.library("fla.ops.gated_delta_rule", "fla-core")
head()


def inputs(key_heads, value_heads, rows, sets):
    def numbers(*shape):
        return [torch.randn(1, rows, *shape, device="cuda", dtype=torch.bfloat16) for _ in range(sets)]

    return {"q": numbers(key_heads, DIM), "k": numbers(key_heads, DIM), "v": numbers(value_heads, DIM),
            "a": numbers(value_heads), "b": numbers(value_heads), "out": [torch.empty_like(v) for v in numbers(value_heads, DIM)],
            "a_log": torch.log(15 * torch.rand(value_heads, device="cuda") + 1),
            "bias": 0.1 * torch.randn(value_heads, device="cuda")}


def multi_token(key_heads, value_heads, snapshots):
    """The states after every row, or none of them."""
    state = 4 * value_heads * DIM * DIM
    moved = state * (9 if snapshots else 1)
    sets = run.sets(moved)
    d = inputs(key_heads, value_heads, 8, sets)
    pool = 0.1 * torch.randn(sets, value_heads, DIM, DIM, device="cuda")
    kept = [torch.empty(1, 8, value_heads, DIM, DIM, device="cuda") if snapshots else None for _ in range(sets)]
    slots = [torch.tensor([i], device="cuda", dtype=torch.int32) for i in range(sets)]
    shape = f"H{key_heads}/HV{value_heads} {'8 snapshots' if snapshots else 'read'}"
    if run.wants(shape):
        run.measure(shape, "FlashInfer gated_delta_rule_mtp", [
            lambda i=i: flashinfer.gated_delta_rule_mtp(
                d["q"][i], d["k"][i], d["v"][i], pool, slots[i], d["a_log"], d["a"][i], d["bias"], d["b"][i],
                output=d["out"][i], intermediate_states_buffer=kept[i], ssm_state_indices=None, disable_state_update=True)
            for i in range(sets)], moved)


def fused(key_heads, value_heads, rows):
    """The last state is written."""
    moved = 2 * 4 * value_heads * DIM * DIM
    sets = run.sets(moved)
    d = inputs(key_heads, value_heads, rows, sets)
    first = [0.1 * torch.randn(1, value_heads, DIM, DIM, device="cuda") for _ in range(sets)]
    shape = f"H{key_heads}/HV{value_heads} {'one token' if rows == 1 else f'{rows} rows, last state alone'}"

    def launch(i):
        with torch.no_grad():
            fla.fused_recurrent_gated_delta_rule(
                d["q"][i], d["k"][i], d["v"][i], g=d["a"][i], beta=d["b"][i], initial_state=first[i], output_final_state=True,
                use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, A_log=d["a_log"], dt_bias=d["bias"],
                use_beta_sigmoid_in_kernel=True)

    if run.wants(shape):
        run.measure(shape, "fla fused_recurrent_gated_delta_rule", [lambda i=i: launch(i) for i in range(sets)], moved)


for heads in ((8, 24), (16, 48)):
    if flashinfer is not None:
        multi_token(*heads, snapshots=True)
        multi_token(*heads, snapshots=False)
    if fla is not None:
        fused(*heads, rows=8)
        fused(*heads, rows=1)
    torch.cuda.empty_cache()
run.finish()
