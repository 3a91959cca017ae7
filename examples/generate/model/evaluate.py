# SPDX-License-Identifier: Apache-2.0
"""Checks a stored model in transformers, FP32, on its effective weights.

    python3 evaluate.py model.safetensors TEXT_DIR [--bytes 200000] [--sample PROMPT]

Prints bits a byte of held-out and training text, by source and by place in
the context, and text written from a prompt, greedily and at temperature 0.8.
"""

import argparse
import json
import math
import os

import numpy as np
import torch

import checkpoint


def tokens_of(data):
    tokens = torch.from_numpy(data.astype(np.int64))
    tokens[tokens == 0] = checkpoint.END_TOKEN
    return tokens


@torch.no_grad()
def losses(model, tokens, length, batch=8):
    """Bits of every byte, [windows, length]; windows do not overlap."""
    count = (len(tokens) - 1) // length
    out = []
    for i in range(0, count, batch):
        starts = torch.arange(i, min(i + batch, count)) * length
        window = tokens[starts[:, None] + torch.arange(length + 1)]
        logits = model(window[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten(), reduction="none")
        out.append(loss.view(len(starts), length) / math.log(2))
    return torch.cat(out)


@torch.no_grad()
def write(model, prompt, count, temperature, seed):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.tensor([list(prompt.encode())])
    cache, text = None, []
    for _ in range(count):
        result = model(tokens, past_key_values=cache, use_cache=True)
        cache, logits = result.past_key_values, result.logits[0, -1].double()
        if temperature == 0:
            token = logits.argmax()
        else:
            token = torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=generator)[0]
        if int(token) >= checkpoint.END_TOKEN:
            break
        text.append(int(token))
        tokens = token.view(1, 1)
    return bytes(text).decode("latin-1")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("text")
    parser.add_argument("--bytes", type=int, default=200_000, help="of each text, spread over it")
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--sample", action="append", default=[])
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    model = checkpoint.load_model(args.model)
    with open(os.path.join(args.text, "sources.json")) as file:
        sources = json.load(file)
    for name in ("heldout", "train"):
        data = np.fromfile(os.path.join(args.text, name + ".bin"), np.uint8)
        tokens = tokens_of(data)
        count = (len(tokens) - 1) // args.length
        keep = np.arange(count)[:: max(1, count * args.length // args.bytes)]
        chosen = torch.cat([tokens[k * args.length:(k + 1) * args.length + 1] for k in keep])
        # Windows share no byte here, so step over the extra one of each.
        chosen = chosen.view(len(keep), args.length + 1)
        bits = torch.cat([losses(model, row, args.length) for row in chosen])
        print(f"{name}: {bits.mean():.4f} bits a byte over {bits.numel()} bytes")
        edges = [0, 16, 64, 256, 1024, args.length]
        print("  by place:", ", ".join(f"{a}..{b}: {bits[:, a:b].mean():.3f}" for a, b in zip(edges, edges[1:])))
        for source, entry in sources.items():
            a, b = entry[name]
            inside = [i for i, k in enumerate(keep) if a <= k * args.length and (k + 1) * args.length <= b]
            if inside:
                print(f"  {source}: {bits[inside].mean():.4f} ({len(inside)} windows)")
    for prompt in args.sample:
        for temperature in (0, 0.8):
            print(f"--- {prompt!r} temperature {temperature}, seed {args.seed}")
            print(prompt + write(model, prompt, 300, temperature, args.seed))


if __name__ == "__main__":
    main()
