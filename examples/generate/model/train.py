# SPDX-License-Identifier: Apache-2.0
"""Trains the demo model: transformers' Qwen3_5ForCausalLM on bytes.

    python3 corpus.py text
    python3 train.py text out --seconds 330

The last 40 % of the time trains through the NVFP4 quantiser: every step runs
on the quantised weights, as the file will hold them, and the gradient goes
straight through to the FP32 master weights. The schedule follows the clock, so one run
fits any time limit; the number of steps is therefore not fixed, and neither
is the result bit for bit. Linear layers train with Muon, the rest with AdamW.

out/ gets model.safetensors (quantised), master.safetensors (FP16, for going
on from), and both again at each checkpoint, so a run that is cut off leaves
the last one.
"""

import argparse
import json
import math
import os
import time

import numpy as np
import torch
import torch.nn.functional as F
from transformers.models.qwen3_5 import modeling_qwen3_5

import checkpoint

CHUNK = 64
SHARED = checkpoint.GEOMETRY["linear_num_value_heads"] // checkpoint.GEOMETRY["linear_num_key_heads"]

# How often a byte of each source is drawn, relative to the others: commentary
# is the largest part and the least varied.
WEIGHTS = {"kjv": 1.0, "web": 1.0, "henry": 0.8, "spurgeon": 0.6, "austen": 1.4, "melville": 1.4,
           "doyle": 1.4, "twain": 1.4, "newton": 1.0, "bierce": 1.0}


# ---------------------------------------------------------------- faster layers
#
# transformers' reference of the recurrence scans its chunks with several
# products each and solves a triangular system; its convolution is a grouped
# conv1d. Both are slow to train through. These two compute the same.

@torch.library.custom_op("demo::unit_lower_inverse", mutates_args=())
def unit_lower_inverse(lower: torch.Tensor) -> torch.Tensor:
    """(I + L)^-1 for strictly lower triangular L, block size doubling.

    In full FP32: with alike keys the products cancel, TF32 would show.
    """
    tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    size = lower.shape[-1]
    index = torch.arange(size, device=lower.device)
    inverse = torch.eye(size, device=lower.device, dtype=lower.dtype).expand_as(lower)
    width = 1
    while width < size:
        block = index // width
        below = (block[:, None] == block[None, :] + 1) & (block[None, :] % 2 == 0)
        corner = lower * below
        inverse = inverse - (corner if width == 1 else inverse @ corner @ inverse)
        width *= 2
    torch.backends.cuda.matmul.allow_tf32 = tf32
    return inverse


@unit_lower_inverse.register_fake
def _(lower):
    return torch.empty_like(lower)


@torch.library.custom_op("demo::unit_lower_inverse_backward", mutates_args=())
def unit_lower_inverse_backward(inverse: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    transposed = inverse.transpose(-1, -2)
    result = -(transposed @ gradient @ transposed).tril(-1)
    torch.backends.cuda.matmul.allow_tf32 = tf32
    return result


@unit_lower_inverse_backward.register_fake
def _(inverse, gradient):
    return torch.empty_like(gradient)


unit_lower_inverse.register_autograd(
    lambda ctx, gradient: unit_lower_inverse_backward(ctx.saved_tensors[0], gradient.contiguous()),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output),
)


@torch.library.custom_op("demo::scan", mutates_args=())
def scan(transition: torch.Tensor, addend: torch.Tensor) -> torch.Tensor:
    """state[0] = 0, state[i + 1] = transition[i] state[i] + addend[i]; all
    [sequences, chunks, ...]. Opaque to the compiler: unrolled, it would be
    most of the graph."""
    state = torch.empty_like(addend)
    state[:, 0] = 0
    for i in range(addend.shape[1] - 1):
        torch.baddbmm(addend[:, i], transition[:, i], state[:, i], out=state[:, i + 1])
    return state


@scan.register_fake
def _(transition, addend):
    return torch.empty_like(addend)


@torch.library.custom_op("demo::scan_backward", mutates_args=())
def scan_backward(transition: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The gradient of each addend; the last one is not used."""
    result = torch.zeros_like(gradient)
    for i in range(gradient.shape[1] - 2, -1, -1):
        torch.baddbmm(gradient[:, i + 1], transition[:, i + 1].transpose(1, 2), result[:, i + 1], out=result[:, i])
    return result


@scan_backward.register_fake
def _(transition, gradient):
    return torch.empty_like(gradient)


def _scan_gradients(ctx, gradient):
    transition, state = ctx.saved_tensors
    addend = scan_backward(transition, gradient.contiguous())
    return addend @ state.transpose(-1, -2), addend


scan.register_autograd(
    _scan_gradients, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output)
)


def chunk_gated_delta_rule(query, key, value, g, beta, output_final_state=False, **_):
    """As the reference with use_qk_l2norm_in_kernel and no state kept, for
    lengths that are multiples of the chunk: the state after a chunk is an
    affine function of the state before, so the scan is one product a chunk."""
    device = query.device.type
    with torch.autocast(device, enabled=False):
        batch, length, heads, width = key.shape
        count = length // CHUNK

        def chunked(x, step):  # [batch, heads, chunks, CHUNK, ...], FP32
            x = x[:, :, ::step].float().transpose(1, 2)
            return x.reshape(batch, heads // step, count, CHUNK, *x.shape[3:])

        # The value heads that share a key head have the same query and key.
        q, k = chunked(query, SHARED), chunked(key, SHARED)
        q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * width**-0.5
        k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
        qk = (q @ k.transpose(-1, -2)).repeat_interleave(SHARED, 1)
        kk = (k @ k.transpose(-1, -2)).repeat_interleave(SHARED, 1)
        q, k = q.repeat_interleave(SHARED, 1), k.repeat_interleave(SHARED, 1)
        v, decay, beta = chunked(value, 1), chunked(g, 1).cumsum(-1), chunked(beta, 1).unsqueeze(-1)

        lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
        pair = (decay.unsqueeze(-1) - decay.unsqueeze(-2)).masked_fill(~lower, float("-inf")).exp()
        inverse = unit_lower_inverse((kk * pair * beta).tril(-1).contiguous())
        grown = decay.exp().unsqueeze(-1)
        u = inverse @ (v * beta)
        w = inverse @ (k * beta * grown)
        last = decay[..., -1:]
        tail = (k * (last - decay).exp().unsqueeze(-1)).transpose(-1, -2)
        identity = torch.eye(width, device=q.device)
        transition = last.exp().unsqueeze(-1) * identity - tail @ w
        addend = tail @ u

        flat = (batch * heads, count, width, -1)
        state = scan(transition.reshape(flat), addend.reshape(flat)).view_as(addend)
        out = (q * grown) @ state + (qk * pair) @ (u - w @ state)
        out = out.reshape(batch, heads, length, -1).transpose(1, 2)
    return out.to(query.dtype), None


def causal_convolution(hidden_states, weight, bias=None, activation=None, **_):
    """hidden_states [batch, channels, length], weight [channels, width]."""
    taps = weight.shape[-1]
    padded = F.pad(hidden_states.float(), (taps - 1, 0))
    length = hidden_states.shape[-1]
    out = sum(padded[..., j:j + length] * weight[:, j:j + 1].float() for j in range(taps))
    return F.silu(out).to(hidden_states.dtype)


# ---------------------------------------------------------------- the network

class Network(torch.nn.Module):
    """Runs the parts of a Qwen3_5ForCausalLM, with dropout on what each layer
    adds, which the original has no place for."""

    def __init__(self, model, length, dropout):
        super().__init__()
        self.model = model
        self.dropout = dropout
        self.fast_layer = self.fast_head = None
        device = model.lm_head.weight.device
        positions = torch.arange(length, device=device).view(1, 1, -1).expand(3, 1, -1)
        self.rotary = model.model.rotary_emb(torch.zeros(1, device=device), positions)

    def layer(self, layer, hidden, rotary, dropout):
        out = layer(hidden, position_embeddings=rotary, attention_mask=None)
        if dropout:
            out = hidden + F.dropout(out - hidden, dropout)
        return out

    def head(self, hidden, target):
        logits = self.model.lm_head(self.model.model.norm(hidden)).float()
        return F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view_as(target)

    def compile(self):
        self.fast_layer = torch.compile(self.layer, dynamic=False)
        self.fast_head = torch.compile(self.head, dynamic=False)

    def forward(self, tokens, target):
        # Evaluation is rare: it does without compiled code of its own.
        fast = self.training and self.fast_layer is not None
        layer_of, head_of = (self.fast_layer, self.fast_head) if fast else (self.layer, self.head)
        dropout = self.dropout if self.training else 0.0
        rotary = tuple(r[:, :tokens.shape[1]] for r in self.rotary)
        hidden = self.model.model.embed_tokens(tokens)
        for layer in self.model.model.layers:
            hidden = layer_of(layer, hidden, rotary, dropout)
        return head_of(hidden, target)


# ---------------------------------------------------------------- optimiser

class Muon:
    """Momentum whose matrix updates are orthogonalised by five Newton-Schulz
    steps, matrices of one shape together."""

    def __init__(self, pairs, momentum=0.95):
        self.groups = {}
        for parameter, master in pairs:
            self.groups.setdefault(tuple(sorted(parameter.shape)), []).append((parameter, master))
        self.buffers = {shape: None for shape in self.groups}
        self.momentum = momentum

    @torch.no_grad()
    def step(self, rate, decay):
        for shape, pairs in self.groups.items():
            turned = [p.shape[0] > p.shape[1] for p, _ in pairs]
            gradient = torch.stack([p.grad.T if t else p.grad for (p, _), t in zip(pairs, turned)]).float()
            if self.buffers[shape] is None:
                self.buffers[shape] = torch.zeros_like(gradient)
            buffer = self.buffers[shape]
            buffer.lerp_(gradient, 1 - self.momentum)
            x = gradient.lerp(buffer, self.momentum).bfloat16()
            x = x / (x.float().norm(dim=(1, 2), keepdim=True) + 1e-12).bfloat16()
            for _ in range(5):
                square = x @ x.transpose(1, 2)
                x = 3.4445 * x + torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315) @ x
            updates = [(u.T if t else u).float() for u, t in zip(x.unbind(), turned)]
            masters = [m for _, m in pairs]
            torch._foreach_mul_(masters, 1 - rate * decay)
            # 0.2 * sqrt(longer side): the size of an AdamW update at this rate.
            torch._foreach_add_(masters, updates, alpha=-rate * 0.2 * math.sqrt(shape[1]))


# ---------------------------------------------------------------- training

def initialise(model):
    """Where transformers' initial values suit a pretrained model's loader
    rather than training: decays that remember 5 to 500 bytes, and
    convolutions of the usual size."""
    with torch.no_grad():
        for index, layer in enumerate(model.model.layers):
            if not hasattr(layer, "linear_attn"):
                continue
            part = layer.linear_attn
            heads = part.A_log.numel()
            memory = torch.logspace(math.log10(5), math.log10(200), heads) * (1 + 0.25 * index)
            part.A_log.zero_()
            part.dt_bias.copy_(torch.log(torch.expm1(1 / memory)))
            part.conv1d.weight.uniform_(-0.5, 0.5)


def load_text(directory, device):
    with open(os.path.join(directory, "sources.json")) as file:
        sources = json.load(file)
    parts = {}
    for name in ("train", "heldout"):
        data = torch.from_numpy(np.fromfile(os.path.join(directory, name + ".bin"), np.uint8)).to(device)
        tokens = data.to(torch.int16)
        tokens[data == 0] = checkpoint.END_TOKEN
        parts[name] = tokens
    return parts["train"], parts["heldout"], sources


class Sampler:
    def __init__(self, text, sources, length, device, seed):
        self.text, self.length, self.device = text, length, device
        spans = np.array([sources[name]["train"] for name in WEIGHTS], np.int64)
        self.begin = torch.from_numpy(spans[:, 0]).to(device)
        self.room = torch.from_numpy(spans[:, 1] - spans[:, 0] - length - 1).to(device)
        self.share = torch.tensor(list(WEIGHTS.values()), device=device) * self.room
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.offsets = torch.arange(length + 1, device=device)

    def batch(self, size):
        source = torch.multinomial(self.share, size, replacement=True, generator=self.generator)
        fraction = torch.rand(size, device=self.device, generator=self.generator, dtype=torch.float64)
        start = self.begin[source] + (fraction * self.room[source]).long()
        window = self.text[start[:, None] + self.offsets].long()
        return window[:, :-1], window[:, 1:]


@torch.no_grad()
def bits_per_byte(network, text, length, batch, limit=None):
    """Mean over windows that do not overlap, each from an empty context."""
    network.eval()
    count = (len(text) - 1) // length
    starts = torch.arange(count, device=text.device) * length
    if limit and count > limit:
        starts = starts[:: count // limit][:limit]
    offsets = torch.arange(length + 1, device=text.device)
    total, places = 0.0, 0
    for i in range(0, len(starts), batch):
        part = starts[i:i + batch]
        window = text[part[:, None] + offsets].long()
        with torch.autocast(text.device.type, dtype=torch.bfloat16, enabled=text.device.type == "cuda"):
            loss = network(window[:, :-1], window[:, 1:])
        total += loss.double().sum().item()
        places += loss.numel()
    network.train()
    return total / places / math.log(2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("text")
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=330, help="training time after compilation")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--rate", type=float, default=4e-3, help="peak learning rate of Muon and AdamW")
    parser.add_argument("--decay", type=float, default=0.1, help="weight decay")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--quantise-from", type=float, default=0.6, help="fraction of the time")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    began = time.time()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"seed {args.seed}, torch {torch.__version__}, {name}", flush=True)
    os.makedirs(args.out, exist_ok=True)
    torch.manual_seed(args.seed)
    torch.backends.cuda.matmul.allow_tf32 = True
    modeling_qwen3_5.torch_chunk_gated_delta_rule = chunk_gated_delta_rule
    modeling_qwen3_5.causal_conv1d_fn = causal_convolution

    train, heldout, sources = load_text(args.text, device)
    sampler = Sampler(train, sources, args.length, device, args.seed)
    model = checkpoint.build_model()
    initialise(model)
    model.to(device).train()
    linears = checkpoint.linear_names(model)
    network = Network(model, args.length, args.dropout)

    # All linear weights live in two flat buffers: `master`, which the
    # optimisers change, and `effective`, which the layers read.
    parameters = dict(model.named_parameters())
    sizes = [parameters[n].numel() for n in linears]
    master = torch.cat([parameters[n].detach().flatten() for n in linears])
    effective = master.clone()
    masters = {n: m.view_as(parameters[n]) for n, m in zip(linears, master.split(sizes))}
    for n, view in zip(linears, effective.split(sizes)):
        parameters[n].data = view.view_as(parameters[n])
    groups = torch.tensor([s // 16 for s in sizes], device=device)

    def quantised(flat, w_global):
        return checkpoint.quantise(flat.view(-1, 16), w_global)[2].view(-1)

    def refresh(through_quantiser):
        with torch.no_grad():
            if through_quantiser:
                peaks = torch.stack(torch._foreach_norm(list(masters.values()), float("inf")))
                w_global = 1.0 / checkpoint.global_scale_of(peaks)
                w_global = w_global.repeat_interleave(groups, output_size=len(master) // 16)[:, None]
                effective.copy_(quantised(master, w_global))
            else:
                effective.copy_(master)

    small = ("in_proj_a.weight", "in_proj_b.weight", "lm_head.weight")
    muon = Muon([(parameters[n], masters[n]) for n in linears if not n.endswith(small)])
    direct = {n: torch.nn.Parameter(masters[n]) for n in linears if n.endswith(small)}
    others = [p for n, p in parameters.items() if n not in masters]
    matrices = list(direct.values()) + [model.model.embed_tokens.weight]
    adam = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": args.decay},
         {"params": [p for p in others if p is not matrices[-1]], "weight_decay": 0.0}],
        lr=args.rate, betas=(0.9, 0.98), fused=device == "cuda",
    )

    def forward_backward(batch):
        tokens, target = sampler.batch(batch)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            loss = network(tokens, target).mean()
        loss.backward()
        return loss.detach()

    plain = quantised
    if not args.no_compile:
        network.compile()
        quantised = torch.compile(quantised, dynamic=False)
    try:  # so that the clock starts on warm code
        forward_backward(args.batch)
        refresh(True)
    except Exception as error:  # a compiler that fails must not cost the run
        if args.no_compile:
            raise
        print("compiled code failed, going on without:", repr(error)[:2000], flush=True)
        network.fast_layer, quantised = None, plain
        forward_backward(args.batch)
    model.zero_grad(set_to_none=True)
    refresh(False)
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"ready after {time.time() - began:.0f} s", flush=True)

    def write(at):
        notes = {"license": "Apache-2.0", "seed": str(args.seed), "steps": str(at)}
        state = {**{n: p.detach() for n, p in parameters.items()}, **masters}
        path = os.path.join(args.out, "model.safetensors")
        checkpoint.save_quantised(path + ".new", state, set(linears), notes=notes)
        os.replace(path + ".new", path)
        path = os.path.join(args.out, "master.safetensors")
        half = {n: ("F16", v.float().cpu().numpy()) for n, v in state.items()}
        checkpoint.write_safetensors(path + ".new", half, notes)
        os.replace(path + ".new", path)

    start, step, shown, next_eval, next_write = time.time(), 0, time.time(), 0.1, 0.5
    average = None
    while True:
        at = min(1.0, (time.time() - start) / args.seconds)
        if at >= 1.0:
            break
        rate = args.rate * min(1.0, (step + 1) / 200) * min(1.0, (1 - at) / 0.6)
        through = at >= args.quantise_from
        refresh(through)
        loss = forward_backward(args.batch)
        muon.step(rate, args.decay)
        for n, parameter in direct.items():
            parameter.grad = parameters[n].grad
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
        model.zero_grad(set_to_none=True)
        average = loss if average is None else average.lerp(loss, 0.02)
        step += 1
        if step % 20 == 0:  # wait: the clock must not run ahead of the device
            value = average.item() / math.log(2)
            if not math.isfinite(value):
                raise SystemExit(f"the loss is not finite at step {step}")
            if time.time() - shown > args.seconds / 40:
                speed = step * args.batch * args.length / (time.time() - start)
                print(f"{at:.3f} step {step} rate {rate:.2e} loss {value:.4f} bits, {speed:.3g} bytes/s"
                      + (" quantised" if through else ""), flush=True)
                shown = time.time()
        if at >= next_eval:
            refresh(through)
            print(f"      held out {bits_per_byte(network, heldout, args.length, args.batch, 128):.4f}, "
                  f"train {bits_per_byte(network, train, args.length, args.batch, 128):.4f} bits a byte", flush=True)
            next_eval += 0.1
        if at >= next_write:
            write(step)
            next_write += 0.25
    write(step)
    seconds = time.time() - start
    print(f"{step} steps, {step * args.batch * args.length / 1e6:.1f} MB of text in {seconds:.0f} s", flush=True)
    for label, through in (("master", False), ("quantised", True)):
        refresh(through)
        print(f"{label}: held out {bits_per_byte(network, heldout, args.length, args.batch):.4f}, "
              f"train {bits_per_byte(network, train, args.length, args.batch, 512):.4f} bits a byte", flush=True)
    for source, entry in sources.items():
        part = heldout[slice(*entry["heldout"])]
        if len(part) > args.length:
            print(f"  {source}: {bits_per_byte(network, part, args.length, args.batch):.4f}", flush=True)


if __name__ == "__main__":
    main()
