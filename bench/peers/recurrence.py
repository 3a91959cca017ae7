#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gated delta rule, 8 rows or one, keys and values of 128, FP32 state: FlashInfer's multi-token and one-token kernels and
flash-linear-attention's fused recurrence. Written for flashinfer-python 0.7.4 (with nvidia-cutlass-dsl 4.8.1) and fla-core
0.6.0."""
from timing import Run

DIM = 128
run = Run("recurrence", ("flashinfer", "fla"))
torch = run.torch
flashinfer = run.library("flashinfer", "flashinfer.gdn_decode", "flashinfer-python")
fla = run.library("fla", "fla.ops.gated_delta_rule", "fla-core")
if flashinfer is not None and not getattr(flashinfer, "_MTP_AVAILABLE", True):  # it imports without its compiler
    run.found["missing"]["nvidia-cutlass-dsl"] = "FlashInfer's gated delta rule needs it"
    print("nvidia-cutlass-dsl: not here (FlashInfer's gated delta rule needs it)", flush=True)
    flashinfer = None
run.begin()


class Inputs:
    """Operand sets; a state is value heads x values x keys."""

    def __init__(self, key_heads, value_heads, rows, moved):
        self.sets, self.rows, self.group = run.sets(moved), rows, value_heads // key_heads

        def numbers(*shape):
            return [torch.randn(1, rows, *shape, device="cuda", dtype=torch.bfloat16) for _ in range(self.sets)]

        self.q, self.k, self.v = numbers(key_heads, DIM), numbers(key_heads, DIM), numbers(value_heads, DIM)
        self.a, self.b, self.out = numbers(value_heads), numbers(value_heads), numbers(value_heads, DIM)
        self.a_log = torch.log(15 * torch.rand(value_heads, device="cuda") + 1)
        self.bias = 0.1 * torch.randn(value_heads, device="cuda")
        self.pool = 0.1 * torch.randn(self.sets, value_heads, DIM, DIM, device="cuda")
        self.slot = [torch.tensor([i], device="cuda", dtype=torch.int32) for i in range(self.sets)]
        self.first = self.pool[0].clone()

    def truth(self):
        """Rows of set 0 by the formula in FP32."""
        normal = torch.nn.functional.normalize
        q, k = (normal(x[0][0].float(), dim=-1).repeat_interleave(self.group, 1) for x in (self.q, self.k))
        decay = (-self.a_log.exp() * torch.nn.functional.softplus(self.a[0][0].float() + self.bias)).exp()
        beta, state, rows = self.b[0][0].float().sigmoid(), self.first.clone(), []
        for t in range(self.rows):
            state *= decay[t][:, None, None]
            u = beta[t][:, None] * (self.v[0][0, t].float() - torch.einsum("hvk,hk->hv", state, k[t]))
            state += u[:, :, None] * k[t][:, None]
            rows.append(torch.einsum("hvk,hk->hv", state, q[t]) / DIM**0.5)
        return torch.stack(rows)


def multi_token(key_heads, value_heads, what, note, states, snapshots=False, update=False):
    moved = 4 * value_heads * DIM * DIM * states
    shape = f"H{key_heads}/HV{value_heads} {what}"
    if not run.wants(shape):
        return
    d = Inputs(key_heads, value_heads, 8, moved)
    right = d.truth()
    kept = [torch.empty(1, 8, value_heads, DIM, DIM, device="cuda") if snapshots else None for _ in range(d.sets)]
    run.measure(shape, "FlashInfer gated_delta_rule_mtp", [
        lambda i=i: flashinfer.gated_delta_rule_mtp(
            d.q[i], d.k[i], d.v[i], d.pool, d.slot[i], d.a_log, d.a[i], d.bias, d.b[i], output=d.out[i],
            intermediate_states_buffer=kept[i], ssm_state_indices=None, disable_state_update=not update)
        for i in range(d.sets)], moved, lambda: (d.out[0][0], right), note)


def one_token(key_heads, value_heads):
    moved = 4 * value_heads * DIM * DIM * 2
    shape = f"H{key_heads}/HV{value_heads} one token"
    if not run.wants(shape):
        return
    d = Inputs(key_heads, value_heads, 1, moved)
    right = d.truth()
    run.measure(shape, "FlashInfer gated_delta_rule_decode_pretranspose", [
        lambda i=i: flashinfer.gated_delta_rule_decode_pretranspose(
            d.q[i], d.k[i], d.v[i], None, d.a_log, d.a[i], d.bias, d.b[i], output=d.out[i], initial_state=d.pool,
            initial_state_indices=d.slot[i], backend="flashinfer")
        for i in range(d.sets)], moved, lambda: (d.out[0][0], right))


def fused(key_heads, value_heads, rows, what, note):
    moved = 4 * value_heads * DIM * DIM * 2
    shape = f"H{key_heads}/HV{value_heads} {what}"
    if not run.wants(shape):
        return
    d = Inputs(key_heads, value_heads, rows, moved)
    right, out = d.truth(), {}

    def launch(i):
        with torch.no_grad():
            out[i], _ = fla.fused_recurrent_gated_delta_rule(
                d.q[i], d.k[i], d.v[i], g=d.a[i], beta=d.b[i], initial_state=d.pool[i:i + 1], output_final_state=True,
                use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True, A_log=d.a_log, dt_bias=d.bias,
                use_beta_sigmoid_in_kernel=True, state_v_first=True)

    run.measure(shape, "fla fused_recurrent_gated_delta_rule", [lambda i=i: launch(i) for i in range(d.sets)], moved,
                lambda: (out[0][0], right), note)


FLUSH, LAST = "replay of 8, flush", "writes the state after 8 rows; no rows kept from before"
for heads in ((8, 24), (16, 48)):
    if flashinfer is not None:
        multi_token(*heads, "8 snapshots", "", 9, snapshots=True)
        multi_token(*heads, "read", "", 1)
        multi_token(*heads, FLUSH, LAST, 2, update=True)
        one_token(*heads)
    if fla is not None:
        fused(*heads, 8, FLUSH, LAST)
        fused(*heads, 1, "one token", "")
    torch.cuda.empty_cache()
