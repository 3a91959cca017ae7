#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every case through ratify-run: run_cases.py PROGRAM CASES_DIR [EXECUTOR]

Checks the outputs against what each file expects; policies that may not move a bit against each other; strided inputs
against dense ones; output formats and exit codes."""
import pathlib
import struct
import sys
import tempfile

import run_files as rf

PROGRAM, CASES = sys.argv[1], pathlib.Path(sys.argv[2])
EXECUTOR = sys.argv[3] if len(sys.argv) > 3 else "host"

# Knobs that move no bit.
EVERY_E4M3_256 = ["revision=1", "revision=2", "revision=native", "revision=1,pv_unroll=1", "revision=2,pv_unroll=1",
                  "revision=2,pv_unroll=4", "revision=2,pv_unroll=16"]
SAME_BITS = {
    "attention_tp2_q8": EVERY_E4M3_256,
    "attention_batch": ["revision=2"],
    "attention_dot_overflow": ["revision=2"],
    "attention_edges": ["revision=0", "revision=2"],
    "attention_f16_cache": ["revision=2"],
    "attention_head_scales": ["revision=2"],
    "attention_page1648": ["revision=2"],
    "attention_short": ["revision=2"],
    "attention_window": ["revision=2"],
    "decode_e4m3": ["revision=1", "revision=2", "revision=native"],
    "draft_walk_greedy": ["mode=argmax"],
    "recurrence_snapshots": [f"value_block={n}" for n in (2, 4, 8, 32)],
    "recurrence_retired_vk": ["value_block=8"],
    "recurrence_replay": [f"value_block={n}" for n in (2, 8, 32)],
    "recurrence_fresh": [f"value_block={n}" for n in (2, 8, 32)],
}
# Knobs that may move bits, within the file's tolerance.
CLOSE = {
    "attention_tp2_q8": ["partition_width=64", "partition_width=1024", "partition_width=4096"],
    "attention_page1648": ["partition_width=1024"],
    "projection_matched": [f"split_k={n}" for n in (1, 2, 4, 5, 7, 9)],
    "projection_fp32_scale": ["split_k=1"],
}

failures, trials = [], 0


def expect(name, arguments, code, *texts, same_bits=False):
    global trials
    trials += 1
    found, out, err = rf.run(PROGRAM, *arguments, "--executor", EXECUTOR)
    wrong = []
    if found != code:
        wrong.append(f"exit code {found}, expected {code}")
    wrong += [f"does not say {t!r}" for t in texts if t not in out + err]
    if same_bits:
        bits = {line.split()[1]: line for line in out.splitlines() if line.startswith("compare ")}
        wrong += [line for line in bits.values() if ", bits differing 0," not in line] or ([] if bits else ["compares nothing"])
    if wrong:
        failures.append(name)
        print(f"FAILED {name}: {' '.join(map(str, arguments))}\n  " + "\n  ".join(wrong) + f"\n{out}{err}"[:3000])
    return out


def operation_of(path):
    return rf.read(path)[1].get("op")


def cases():
    paths = [p for p in sorted(CASES.glob("*.safetensors")) if operation_of(p)]  # others are for other programs
    if len(paths) < 25:
        sys.exit(f"{CASES} holds {len(paths)} cases")
    for path in paths:
        name, op = path.stem, operation_of(path)
        out = expect(name, [op, path, "--check"], 0)
        print(f"{name}: bits differing {rf.bits_differing(out)}")
        for knobs in SAME_BITS.get(name, []):
            expect(f"{name} {knobs}", [op, path, "--compare", knobs], 0, same_bits=True)
        for knobs in CLOSE.get(name, []):
            expect(f"{name} {knobs}", [op, path, "--check", "--policy", knobs], 0)


def spread(t, pads):
    """The same tensor as a 1-D buffer with `pads` extra elements after each entry of each dimension; the gaps are 0x7f."""
    width = rf.BYTES[t.dtype]
    strides, step = [], 1
    for extent, pad in zip(reversed(t.shape), reversed(pads)):
        strides.insert(0, step)
        step = step * extent + pad
    count = step
    buffer = bytearray(b"\x7f" * (count * width))
    index = [0] * len(t.shape)
    for i in range(len(t.data) // width):
        at = sum(a * b for a, b in zip(index, strides)) * width
        buffer[at:at + width] = t.data[i * width:(i + 1) * width]
        for d in reversed(range(len(index))):
            index[d] += 1
            if index[d] < t.shape[d]:
                break
            index[d] = 0
    text = lambda numbers: ",".join(map(str, numbers))
    return rf.Tensor(t.dtype, [count], buffer), text(strides), text(t.shape)


# Padding after each entry of each dimension, outermost first; the last number spreads the innermost entries' ends.
STRIDED = {
    "attention_short": {"q": [0, 3, 5], "k_pages": [0, 32, 16, 48], "v_pages": [0, 0, 16, 0], "block_table": [0, 4],
                        "expected.out": [0, 0, 3]},
    "attention_f16_cache": {"k_pages": [0, 8, 0, 24], "v_pages": [0, 16, 8, 0]},
    "append": {"k": [0, 0, 5], "v": [0, 7, 0], "k_pages": [0, 3, 1, 2], "v_pages": [0, 9, 0, 0], "block_table": [0, 1]},
    "convolution": {"x": [0, 3], "window_pool": [0, 7, 0], "weight": [0, 2]},
    "merge": {"out": [0, 3, 0, 1], "lse": [0, 5, 0]},
    "recurrence_snapshots": {"mixed": [0, 9], "state_pool": [0, 5, 0, 0], "snapshot_slot": [0, 3]},
    "recurrence_retired_vk": {"state_pool": [0, 0, 0, 1], "g": [0, 4]},  # gaps inside a slot: gathered
    "recurrence_replay": {"ring_k": [0, 7, 0, 0], "ring_u": [0, 5, 0, 0], "ring_g": [0, 3, 0], "state_pool": [0, 6, 0, 0],
                          "mixed": [0, 9]},
    "recurrence_fresh": {"ring_k": [0, 0, 0, 2], "ring_u": [0, 0, 3, 0], "ring_g": [0, 0, 1]},
    "projection_matched": {"x": [0, 16], "w_packed": [0, 8], "w_scale": [0, 3]},
    "acceptance_sampled": {"logits": [0, 5], "draft": [0, 2]},
    "acceptance_rejection": {"logits": [0, 3], "draft_candidates": [0, 4, 1], "draft_candidate_q": [0, 0, 2]},
    "acceptance_rejection_probs": {"draft_probs": [0, 5, 0]},
    "gating": {"a": [0, 1], "b": [0, 2]},
    "draft_walk_sample": {"unary": [0, 3, 2], "candidates": [0, 0, 1], "left": [0, 3], "right": [0, 5], "project": [0, 2, 1]},
    "draft_convolution": {"x": [0, 5, 2], "base": [0, 3], "delta": [0, 4, 3, 0]},
}


def strided(folder):
    for name, pads in STRIDED.items():
        path = CASES / f"{name}.safetensors"
        tensors, metadata = rf.read(path)
        op = metadata["op"]
        plain, other, changed = folder / "plain", folder / "other", folder / "strided.safetensors"
        expect(f"{name} dense", [op, path, "--out", plain], 0)
        for tensor, pad in pads.items():
            tensors[tensor], metadata[f"stride.{tensor}"], metadata[f"shape.{tensor}"] = spread(tensors[tensor], pad)
        rf.write(changed, tensors, metadata)
        expect(f"{name} strided", [op, changed, "--check", "--out", other], 0)
        if plain.read_bytes() != other.read_bytes():
            failures.append(f"{name} strided")
            print(f"FAILED {name}: outputs of strided inputs differ from those of dense ones")
    # One row seen eight times: stride 0 is a stride.
    tensors, metadata = rf.read(CASES / "projection_matched.safetensors")
    tensors["x"] = rf.Tensor("F16", [512], tensors["x"].data[:1024])
    metadata.update({"stride.x": "0,1", "shape.x": "8,512"})
    rows = [tensors["expected.y"].data[:512]] * 8
    tensors["expected.y"] = rf.Tensor("F32", [8, 128], b"".join(rows))
    rf.write(folder / "repeated.safetensors", tensors, metadata)
    expect("stride 0", ["projection", folder / "repeated.safetensors", "--check"], 0)


def glue(folder):
    for op, (tensors, metadata) in rf.glue().items():
        path = folder / f"{op}.safetensors"
        rf.write(path, tensors, metadata)
        expect(op, [op, path, "--check"], 0)
    tensors, metadata = rf.glue()["rmsnorm"]
    del tensors["residual"], tensors["expected.residual_out"], tensors["expected.out"]
    rf.write(folder / "alone.safetensors", tensors, {"op": "rmsnorm"})
    out = expect("rmsnorm alone", ["rmsnorm", folder / "alone.safetensors"], 0)
    if "residual_out" in out:
        failures.append("rmsnorm alone")
        print("FAILED rmsnorm alone: residual_out without a residual")
    expect("rmsnorm unit_offset", ["rmsnorm", folder / "alone.safetensors", "--compare", "unit_offset=0"], 1)


def formats(folder):
    """Outputs in FP16 and BF16 are the FP32 ones, rounded once."""
    path = CASES / "attention_short.safetensors"
    for out, dtype in (("f32", "F32"), ("f16", "F16"), ("bf16", "BF16")):
        expect(out, ["attention", path, "--policy", f"out={out}", "--out", folder / out], 0)
        if rf.read(folder / out)[0]["out"].dtype != dtype:
            failures.append(f"out={out}")
            print(f"FAILED out={out}: dtype {rf.read(folder / out)[0]['out'].dtype}")
    exact = rf.read(folder / "f32")[0]["out"].values()
    if rf.read(folder / "f16")[0]["out"].values() != [struct.unpack("<e", struct.pack("<e", v))[0] for v in exact]:
        failures.append("out=f16")
        print("FAILED out=f16: not the FP32 outputs, rounded")
    # Where dtypes differ, values are compared, under the tolerance that is given.
    expect("f16 against F32", ["attention", path, "--policy", "out=f16", "--check"], 1)
    expect("f16 against F32, 1e-3", ["attention", path, "--policy", "out=f16", "--check", "--rtol", "1e-3"], 0)


def codes(folder):
    path = CASES / "attention_short.safetensors"
    expect("exact", ["attention", path, "--check", "--rtol", "0", "--atol", "0"], 1, "largest error")
    tensors, metadata = rf.read(CASES / "decode_e4m3.safetensors")
    tensors["expected.values"] = tensors["expected.values"].with_entry(3, 0.5)
    rf.write(folder / "wrong.safetensors", tensors, metadata)
    expect("one wrong", ["decode", folder / "wrong.safetensors", "--check", "--out", folder / "kept"], 1,
           "elements 256, out of tolerance 1, bits differing 1", "at [3]")
    if not (folder / "kept").exists():
        failures.append("one wrong")
        print("FAILED one wrong: a failed check must still write the outputs")
    # A NaN equals a NaN under a tolerance, its bits only without; a zero has a sign only in bits.
    values = rf.read(CASES / "decode_e4m3.safetensors")[0]["expected.values"]
    raw = bytearray(values.data)
    raw[127 * 4:128 * 4] = struct.pack("<I", 0xffc00000)
    raw[128 * 4:129 * 4] = struct.pack("<I", 0)
    tensors["expected.values"] = rf.Tensor("F32", [256], raw)
    rf.write(folder / "nan.safetensors", tensors, metadata)
    expect("NaN bits", ["decode", folder / "nan.safetensors", "--check"], 1, "out of tolerance 2, bits differing 2")
    expect("NaN", ["decode", folder / "nan.safetensors", "--check", "--atol", "0"], 0,
           "out of tolerance 0, bits differing 2")
    # Infinities are within no distance of numbers.
    infinite, metadata = rf.read(CASES / "decode_e5m2.safetensors")
    infinite["expected.values"] = infinite["expected.values"].with_entry(0x7c, -float("inf")).with_entry(
        0x7b, float("inf"))
    rf.write(folder / "infinite.safetensors", infinite, metadata)
    expect("infinity", ["decode", folder / "infinite.safetensors", "--check", "--rtol", "1"], 1, "out of tolerance 2")
    out = expect("--list", ["--list"], 0, "attention", "head_dim=256", "arithmetic=ordered ")
    if "or revision=0|1|2|native (native): " not in out or "head_dim is no key: it follows from the tensors" not in out:
        failures.append("--list")
    expect("--list --json", ["--list", "--json"], 0, "ratify::entry<ratify::attention_partial_kernel<"
           "ratify::attention_policy<ratify::q_format<float>, ratify::partition_width<1024>, "
           "ratify::decoder<ratify::decoder_revision::fp16_shift>>>>")
    expect("--policy before the operation", ["--policy", "revision=2", "attention", path, "--check"], 0)
    expect("--policy twice", ["--policy", "revision=2", "--policy", "out=f32", "attention", path, "--check"], 0)
    expect("another key", ["attention", path, "--policy", "revision=2", "--compare", "arithmetic=ordered"], 0,
           same_bits=True)


with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    cases()
    strided(work)
    glue(work)
    formats(work)
    codes(work)
    if EXECUTOR == "host":
        code, _, err = rf.run(PROGRAM, "decode", CASES / "decode_e2m1.safetensors", "--executor", "cuda")
        if code not in (0, 2) or (code == 2 and "--executor cuda" not in err):
            failures.append("--executor cuda")
            print(f"FAILED --executor cuda: exit code {code}\n{err}")
print(f"{trials} trials, {len(failures)} failed")
sys.exit(1 if failures else 0)
