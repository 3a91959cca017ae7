# SPDX-License-Identifier: Apache-2.0
"""Writes tests/cases/generate_logits.safetensors: what the model must say.

    python3 make_fixtures.py model.safetensors OUT.safetensors [--cache]

transformers' reference path in FP32 on the effective weights, for prompts of
several lengths that are not in the training text: prompt_LEN U8 [LEN], the
positions kept, rows_LEN I32, and their logits, logits_LEN F32 [rows, 264].
--cache also prints how far the logits move when keys and values are rounded
to the formats that a cache may store.
"""

import argparse

import numpy as np
import torch

import checkpoint

LENGTHS = (1, 2, 17, 64, 131, 600)

PROMPT = (
    "The rain had ceased before the travellers came down to the ford, and the river, which the "
    "night had swollen, ran brown and loud between the alders. \"We shall not cross before noon,\" "
    "said the elder of the two, and he sat down upon a stone and drew the letter from his coat. "
    "His companion made no answer; he was looking at the farther bank, where a woman in a grey "
    "cloak had led her horse to the edge of the water, and stood there as one who waits for a "
    "word. And behold, she lifted up her hand, and called to them by name.\n"
    "\"Who can have told her that we were upon this road?\" cried the younger man. \"I spoke of it to "
    "nobody, I assure you, and you are not in the habit of saying more than you mean.\""
)


def logits_of(model, prompt):
    with torch.no_grad():
        return model(torch.tensor([list(prompt)])).logits[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--cache", action="store_true")
    args = parser.parse_args()
    model = checkpoint.load_model(args.model)
    tensors = {}
    for length in LENGTHS:
        prompt = PROMPT.encode("ascii")[:length]
        assert len(prompt) == length
        rows = np.arange(length) if length < 600 else np.union1d(np.arange(0, length, 8), [length - 1])
        logits = logits_of(model, prompt).numpy()
        tensors[f"prompt_{length}"] = ("U8", np.frombuffer(prompt, np.uint8))
        tensors[f"rows_{length}"] = ("I32", rows.astype(np.int32))
        tensors[f"logits_{length}"] = ("F32", logits[rows])
    notes = {"note.made_by": "examples/generate/model/make_fixtures.py",
             "note.torch": torch.__version__.split("+")[0]}
    checkpoint.write_safetensors(args.out, tensors, notes)
    if not args.cache:
        return
    exact = logits_of(model, PROMPT.encode()[:600])
    for label, dtype in (("FP16", torch.float16), ("E4M3", torch.float8_e4m3fn)):
        def rounded(module, query, key, value, *rest, **kwargs):
            from transformers.integrations.sdpa_attention import sdpa_attention_forward

            return sdpa_attention_forward(module, query, key.to(dtype).float(), value.to(dtype).float(),
                                          *rest, **kwargs)

        from transformers import AttentionInterface

        AttentionInterface.register("rounded", rounded)
        model.config._attn_implementation = "rounded"
        moved = logits_of(model, PROMPT.encode()[:600])
        model.config._attn_implementation = "sdpa"
        change = (moved - exact)[:, :257].abs()
        same = (moved.argmax(-1) == exact.argmax(-1)).float().mean()
        print(f"keys and values in {label}: logits move by {change.mean():.4f} on average, {change.max():.4f} "
              f"at most; the likeliest byte is the same in {100 * same:.1f} % of rows")


if __name__ == "__main__":
    main()
