#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Broken files through ratify-run: run_broken.py PROGRAM CASES_DIR [EXECUTOR]

Each is refused with its exit code, the tensor (or what stands for it) and the fault named, no crash, and no OUT. Worth
running on a build with sanitizers too."""
import copy
import json
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import run_files as rf

PROGRAM, CASES = sys.argv[1], pathlib.Path(sys.argv[2])
EXECUTOR = sys.argv[3] if len(sys.argv) > 3 else "host"

failures, trials = [], 0


def refuse(folder, name, op, content, *texts, code=3, arguments=(), executor=EXECUTOR, lines=None):
    """`content`: bytes, or (tensors, metadata). Bad input is one line, always."""
    global trials
    trials += 1
    path, out = folder / "broken.safetensors", folder / "out.safetensors"
    path.write_bytes(content if isinstance(content, bytes) else rf.assemble(*rf.layout(*content)))
    found, printed, err = rf.run(PROGRAM, op, path, "--executor", executor, "--out", out, "--check", *arguments)
    wrong = []
    if found != code:
        wrong.append(f"exit code {found}, expected {code}")
    wrong += [f"does not say {t!r}" for t in texts if t not in err]
    if code == 3 and "bad input" not in err or code == 2 and "unsupported" not in err:
        wrong.append("does not say what kind of fault it is")
    lines = 1 if code == 3 else lines
    if lines is not None and err.count("\n") != lines:
        wrong.append(f"says it in {err.count(chr(10))} lines, not {lines}")
    if "Sanitizer" in err or "runtime error" in err:
        wrong.append("a sanitizer speaks")
    left = [p.name for p in folder.iterdir() if p.name.startswith("out")]
    if left:
        wrong.append(f"leaves {left}")
        for p in left:
            (folder / p).unlink()
    if wrong:
        failures.append(name)
        print(f"FAILED {name}\n  " + "\n  ".join(wrong) + f"\n{printed}{err}"[:3000])


def case(name):
    return rf.read(CASES / f"{name}.safetensors")


# The file as a container -----------------------------------------------------------------------------------------


def container(folder):
    name, op = "attention_short", "attention"
    whole = (CASES / f"{name}.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", whole[:8])
    header, data = rf.layout(*case(name))
    body = lambda text: rf.assemble(text, data)

    refuse(folder, "empty", op, b"", "too short")
    refuse(folder, "7 bytes", op, whole[:7], "too short")
    refuse(folder, "length alone", op, whole[:8], "header")
    refuse(folder, "length of nothing", op, b"\0" * 8, "JSON")
    rng = random.Random(1)
    for cut in sorted({9, 8 + length - 1, 8 + length, 8 + length + 1, len(whole) - 1, len(whole) - 4096,
                       *(rng.randrange(9, len(whole)) for _ in range(14))}):
        refuse(folder, f"truncated to {cut}", op, whole[:cut], "data_offsets" if cut >= 8 + length else "header")
    refuse(folder, "one byte more", op, whole + b"\0", "belong to no tensor")
    for much in (1 << 63, (1 << 64) - 1, len(whole) - 7, 1 << 32):
        refuse(folder, f"header of {much}", op, struct.pack("<Q", much) + whole[8:], "header")
    for text in (b"", b"[]", b"{", b"null", b"12", b"{'a': 1}", b"\xff\xfe{}", b'{"q": }', b"{" * 100000, b"[" * 100000):
        refuse(folder, f"header {text[:12]}", op, body(text), "JSON")
    text = json.dumps(header).encode()
    twice = text[:-1] + b', "q": ' + json.dumps(header["q"]).encode() + b"}"
    refuse(folder, "a name twice", op, body(twice), "'q'", "twice")
    # One object and spaces, whatever a parser takes for the end or the beginning of its text.
    for before in (b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b" ", b"\n", b"//\n", b"{}"):
        refuse(folder, f"{before} before the header", op, body(before + text), "header")
    for after in (b"\0", b"\0 not JSON {{{", b"\0\0\0\0", b"\n", b"\t", b"{}", b"}", b"x", b"//", b"/**/", b"\x1a", b"\xef\xbb\xbf"):
        refuse(folder, f"{after} after the header", op, body(text + after), "header")
    for inside in (b"\0", b"/**/", b"#\n", b"\xc2\xa0", b"\xff"):
        refuse(folder, f"{inside} in the header", op, body(text.replace(b": {", b": " + inside + b"{", 1)), "JSON")
    for spelled in (b"\xc0\x80", b"\xed\xa0\x80", b"\\ud800", b"\\x41", b"\0", b"\n"):
        refuse(folder, f"a name with {spelled}", op, body(text.replace(b'"q"', b'"q' + spelled + b'"')), "JSON")
    refuse(folder, "a name twice, one escaped", op, body(text[:-1] + b', "\\u0071": ' + json.dumps(header["q"]).encode() + b"}"),
           "'q'", "twice")
    refuse(folder, "a NUL in a name", op, body(text.replace(b'"q"', b'"q\\u0000"')), "'q?'")
    refuse(folder, "a member that is not known", op, body(text.replace(b'"dtype"', b'"type": 1, "dtype"', 1)), "'type'")
    refuse(folder, "a very long name", op, body(text.replace(b'"q"', b'"' + b"q" * 1000000 + b'"')), "bytes more")
    refuse(folder, "a header over the format's limit", "decode",
           struct.pack("<Q", 100000001) + b'{"codes":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' + b" " * 100000001,
           "limit")

    def changed(entry, **members):
        h = copy.deepcopy(header)
        for member, value in members.items():
            if value is None:
                del h[entry][member]
            else:
                h[entry][member] = value
        return body(json.dumps(h).encode())

    begin, end = header["k_pages"]["data_offsets"]
    for offsets, text in (([begin, len(data) + 1], "past the end"), ([begin, 1 << 62], "past the end"),
                          ([len(data) + 64, len(data) + 64 + end - begin], "past the end"), ([end, begin], "end before"),
                          ([begin - 16, end - 16], "overlaps"), ([begin + 16, end + 16], "belong to no tensor"),
                          ([-1, end], "data_offsets"), ([begin + 0.5, end], "data_offsets"),
                          ([str(begin), end], "data_offsets"), ([begin], "data_offsets"), ({}, "data_offsets"),
                          (None, "data_offsets"), ([begin, end - 1], "bytes"),
                          ([begin, (1 << 64) - 1], "past the end")):
        refuse(folder, f"data_offsets {offsets}", op, changed("k_pages", data_offsets=offsets), text)
    for shape in ([5, 16, 2, -64], [5, 16, 2], [5, 16, 2, 65], [1 << 62, 4], [1 << 40, 1 << 40], "5", [5.0, 16, 2, 64],
                  [None], [[5]], [1 << 63, 2], [0, 1 << 62, 4], [1 << 62, 4, 0], [1 << 62, 0, 4], [0, (1 << 63) - 1, 2],
                  [0, 0, 1 << 32, 1 << 32], None):
        refuse(folder, f"shape {shape}", op, changed("k_pages", shape=shape), "'k_pages'", "shape")
    for dtype in ("F64", "BOOL", "U64", "f32", "F8", "", 5, None):
        refuse(folder, f"dtype {dtype}", op, changed("k_pages", dtype=dtype), "'k_pages'")
    gap = copy.deepcopy(header)
    tail = len(data)
    gap["note.far"] = {"dtype": "U8", "shape": [4], "data_offsets": [tail + 8, tail + 12]}
    refuse(folder, "a gap", op, rf.assemble(json.dumps(gap).encode(), data + bytes(12)), "'note.far'", "belong to no")
    for metadata in ([], "text", {"window": 3}, {"window": None}):
        h = dict(header, __metadata__=metadata)
        refuse(folder, f"metadata {metadata}", op, body(json.dumps(h).encode()), "metadata")
    for entry in (None, 3, []):
        refuse(folder, f"an entry {entry}", op, body(json.dumps(dict(header, q=entry)).encode()), "'q'")
    # Bytes of the header at random: whatever it becomes, it is refused or read, and nothing breaks.
    for seed in range(40):
        rng = random.Random(seed)
        raw = bytearray(whole)
        for _ in range(1 + seed % 3):
            raw[rng.randrange(8, 8 + length)] = rng.randrange(256)
        survive(folder, f"header noise {seed}", op, bytes(raw))


def many_tensors(folder):
    """As many as a sharded model's file has. Time that grows as their square would be a quarter of an hour."""
    global trials
    trials += 1
    count = 100000
    entries = [f'"note.layers.{i // 64}.experts.{i % 64}.weight":{{"dtype":"U8","shape":[1],"data_offsets":[{i},{i + 1}]}}'
               for i in range(count)]
    header = '{"__metadata__":{"op":"decode"},"codes":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},' + ",".join(entries) + "}"
    path = folder / "many.safetensors"
    path.write_bytes(rf.assemble(header.encode(), bytes(count)))
    try:
        code, printed, err = rf.run(PROGRAM, "decode", path, "--executor", EXECUTOR, timeout=120)
    except subprocess.TimeoutExpired:
        code, printed, err = None, "", "not done in 120 s\n"
    if code != 0:
        failures.append("many tensors")
        print(f"FAILED {count} tensors: exit code {code}\n{printed}{err}"[:3000])


def survive(folder, name, op, content):
    global trials
    trials += 1
    path, out = folder / "broken.safetensors", folder / "out.safetensors"
    path.write_bytes(content)
    found, printed, err = rf.run(PROGRAM, op, path, "--executor", EXECUTOR, "--out", out)
    if found not in (0, 2, 3) or "Sanitizer" in err or "runtime error" in err or out.exists() != (found == 0):
        failures.append(name)
        print(f"FAILED {name}: exit code {found}, OUT {out.exists()}\n{printed}{err}"[:3000])
    out.unlink(missing_ok=True)


# Names, dtypes and shapes, of every operation ----------------------------------------------------------------------

OPTIONAL = {"bias", "fresh", "residual", "draft_probs"}
BASES = ["decode_e4m3", "append", "attention_short", "convolution", "recurrence_retired_vk", "recurrence_fresh",
         "recurrence_read_plain", "projection_matched", "acceptance_sampled", "acceptance_rejection",
         "acceptance_rejection_probs", "gating", "draft_walk_sample", "draft_convolution"]


def bases():
    for name in BASES:
        yield case(name)
    yield from rf.glue().values()


def names_and_types(folder):
    for tensors, metadata in bases():
        op = metadata["op"]
        for name, t in tensors.items():
            if not name.startswith("expected."):
                if name not in OPTIONAL and len(t.data) < 100000:
                    rest = {k: v for k, v in tensors.items() if k != name}
                    refuse(folder, f"{op} without {name}", op, (rest, metadata), f"'{name}'", "missing")
                wrong = rf.Tensor("I64", t.shape, bytes(8 * (len(t.data) // rf.BYTES[t.dtype])))
                if t.dtype == "I64":
                    wrong = rf.Tensor("I32", t.shape, t.data[:len(t.data) // 2])
                if len(wrong.data) < 100000:
                    refuse(folder, f"{op} {name} as {wrong.dtype}", op, ({**tensors, name: wrong}, metadata),
                           f"'{name}'", "dtype")
                deeper = rf.Tensor(t.dtype, [1] + t.shape, t.data)
                refuse(folder, f"{op} {name} one dimension more", op, ({**tensors, name: deeper}, metadata),
                       f"'{name}'" if not (op == "sigmoid_gate" and name == "x") else "'", "shape")
            else:
                other = rf.Tensor(t.dtype, [len(t.data) // rf.BYTES[t.dtype], 1, 1, 1, 1], t.data)
                refuse(folder, f"{op} {name} another shape", op, ({**tensors, name: other}, metadata), f"'{name}'",
                       "shape")
        byte = rf.Tensor("U8", [1], b"\0")
        refuse(folder, f"{op} unknown tensor", op, ({**tensors, "bogus": byte}, metadata), "'bogus'")
        refuse(folder, f"{op} unknown output", op, ({**tensors, "expected.bogus": byte}, metadata), "'expected.bogus'")
        refuse(folder, f"{op} unknown metadata", op, (tensors, {**metadata, "bogus": "1"}), "'bogus'")
        bare = {k: v for k, v in tensors.items() if not k.startswith("expected.")}
        refuse(folder, f"{op} nothing to check", op, (bare, metadata), "nothing to check")
        other = "append" if op != "append" else "decode"
        refuse(folder, f"{op} file for {other}", other, (tensors, metadata), "'op'", op)


# What a policy may be ----------------------------------------------------------------------------------------------


def policies(folder):
    good = case("attention_short")
    # A refused policy is its reason, then the keys with their values, never the whole list of policies.
    for text, says in (("bogus=1", "'bogus'"), ("revision=3", "'3'"), ("revision", "'revision' has no value"), ("=", "''"),
                       ("decoder", "'decoder' has no value; decoder= takes "), ("pv_unroll=", "takes a number"),
                       ("head_dim=64", "head_dim follows from the tensors of the file"),
                       ("kv_format=e5m2", "kv_format follows from the tensors of the file"), ("q_format=f16", "q_format is f32"),
                       ("revision=1", "decoder=1"), ("pv_unroll=16", "pv_unroll=16"), ("pv_unroll=x", "'x'"),
                       ("partition_width=4096", "partition_width=4096"), ("out=f64", "'f64'"), ("arithmetic=matrix", "matrix"),
                       ("partition_width=-1", "'-1'"), ("revision=2,,", "''"), ("split_k=2", "'split_k'"),
                       ("pv_unroll=99999999999999999999", "99999999999999999999")):
        refuse(folder, f"policy {text}", "attention", good, says, "pv_unroll=1|4|8|16 (8)", code=2, lines=8,
               arguments=["--policy", text])
        refuse(folder, f"compare {text}", "attention", good, says, code=2, lines=8, arguments=["--compare", text])
        refuse(folder, f"metadata {text}", "attention", (good[0], {**good[1], "policy": text}), says, code=2, lines=8)
    for text in ("key_dim=64", "l2norm=0"):
        refuse(folder, f"policy {text}", "recurrence", case("recurrence_retired_vk"),
               text.split("=")[0] + " follows from the tensors and the metadata of the file", code=2, arguments=["--policy", text])
    refuse(folder, "policy of an operation without knobs", "embedding", rf.glue()["embedding"], "'head_dim'", code=2, lines=5,
           arguments=["--policy", "head_dim=64"])
    refuse(folder, "a key twice", "attention", good, "twice", arguments=["--policy", "revision=2,revision=0"])
    refuse(folder, "another executor", "attention", good, "'gpu'", code=2, executor="gpu", lines=1)
    refuse(folder, "decode e5m2 by revision 1", "decode", case("decode_e5m2"), "decoder=1", code=2,
           arguments=["--policy", "revision=1"])
    refuse(folder, "value_block 3", "recurrence", case("recurrence_retired_vk"), "value_block=3", code=2,
           arguments=["--policy", "value_block=3"])
    refuse(folder, "split_k 33", "projection", case("projection_matched"), "split_k=33", code=2,
           arguments=["--policy", "split_k=33"])
    refuse(folder, "mode write", "recurrence", case("recurrence_retired_vk"), "'write'", code=2,
           arguments=["--policy", "mode=write"])
    refuse(folder, "mode replay of a file without rings", "recurrence", case("recurrence_retired_vk"), "'slot'", "missing",
           arguments=["--policy", "mode=replay"])
    tensors, metadata = case("recurrence_retired_vk")
    refuse(folder, "selectors in mode read", "recurrence", (tensors, metadata), "'selector'", "has no effect under", "mode=read",
           code=2, arguments=["--policy", "mode=read"])
    slot = {"slot": tensors["initial_slot"]}
    refuse(folder, "slot in mode snapshots", "recurrence", ({**tensors, **slot}, metadata), "'slot'", "mode=snapshots", code=2)
    tensors, metadata = case("recurrence_replay")
    refuse(folder, "initial_slot in mode replay", "recurrence", ({**tensors, "initial_slot": tensors["slot"]}, metadata),
           "'initial_slot'", "mode=replay", code=2)
    for name, tensor in (("acceptance_rejection", "draft_candidate_q"), ("acceptance_rejection_probs", "draft_probs")):
        refuse(folder, f"{tensor} under rule coupled", "acceptance", case(name), f"'{tensor}'", "rule=coupled", code=2,
               arguments=["--policy", "rule=coupled"])
    refuse(folder, "temperature in mode argmax", "draft_walk", case("draft_walk_sample"), "mode=argmax", "no effect", code=2,
           arguments=["--policy", "mode=argmax"])
    refuse(folder, "mode read, value_block 3", "recurrence", case("recurrence_read_plain"), "mode=read", code=2,
           arguments=["--policy", "value_block=3"])
    refuse(folder, "another rule", "acceptance", case("acceptance_end"), "'greedy'", code=2,
           arguments=["--policy", "rule=greedy"])
    refuse(folder, "frobnicate", "frobnicate", (good[0], {}), "frobnicate", "built are", code=2)
    for option in ("--rtol", "--atol"):
        for text in ("x", "", "1e", "nan", "inf", "1e999", "1 ", "0x1", "1,5", "+1"):
            refuse(folder, f"{option} {text}", "attention", good, option, arguments=["--check", f"{option}={text}" if text else option, *([] if text else [""])])
    refuse(folder, "--atol -1", "attention", good, "--atol", arguments=["--check", "--atol=-1"])
    for name in ("softmax_scale", "atol.out", "rtol.lse"):
        for text in ("x", "", "1e", "nan", "1.0.0", "1e999", " 1"):
            refuse(folder, f"{name} {text}", "attention", (good[0], {**good[1], name: text}), f"'{name}'")
    for name, texts in (("window", ("-1", "1.5", "", "x", "99999999999")), ("causal", ("2", "-1", "yes", "")),
                        ("atol.out", ("-1",)), ("atol.bogus", ("1",)), ("stride.bogus", ("1",))):
        for text in texts:
            refuse(folder, f"{name} {text}", "attention", (good[0], {**good[1], name: text}), f"'{name}'")


def strides(folder):
    tensors, metadata = case("attention_short")
    q = rf.Tensor("F16", [len(tensors["q"].data) // 2], tensors["q"].data)
    for stride, shape in (("256,64,1", None), (None, "12,4,64"), ("256,64,1", "12,4"), ("256,64,2", "12,4,64"),
                          ("257,64,1", "12,4,64"), ("-256,64,1", "12,4,64"), ("256,64,x", "12,4,64"), ("", ""),
                          ("256,64,1,", "12,4,64"), ("256,64,1", "12,4,-64"), (f"{1 << 62},64,1", "12,4,64"),
                          ("256,64,1", f"{1 << 62},4,64"), (f"{1 << 64},64,1", "12,4,64"),
                          (f"{(1 << 63) - 1},{(1 << 63) - 1},{(1 << 63) - 1}", "12,4,64")):
        extra = {k: v for k, v in (("stride.q", stride), ("shape.q", shape)) if v is not None}
        code = 2 if shape and str(1 << 62) in shape else 3
        refuse(folder, f"stride {stride} shape {shape}", "attention", ({**tensors, "q": q}, {**metadata, **extra}), "q",
               code=code)
    for shape in (f"0,{1 << 62},4", f"{1 << 62},4,0", f"{1 << 62},0,4", f"0,{(1 << 63) - 1},2", f"0,{1 << 31},{1 << 31}"):
        refuse(folder, f"no elements, but shape {shape}", "attention",
               ({**tensors, "q": q}, {**metadata, "stride.q": "256,64,1", "shape.q": shape}), "'shape.q'", "too large")
    refuse(folder, "a shape without elements to stand on", "attention",
           ({**tensors, "q": rf.Tensor("F16", [0], b"")}, {**metadata, "stride.q": "0,0,0", "shape.q": "12,4,64"}), "'stride.q'")
    refuse(folder, "too many elements", "attention",
           ({**tensors, "q": q}, {**metadata, "stride.q": "0,0,1", "shape.q": "1048576,1048576,64"}), "'q'", code=2)
    refuse(folder, "strides of a tensor that is not 1-D", "attention",
           (tensors, {**metadata, "stride.q": "256,64,1", "shape.q": "12,4,64"}), "'q'", "1-D")
    refuse(folder, "pages at odd places", "attention", ({
        **tensors, "k_pages": rf.Tensor("F8_E4M3", [20000], bytes(20000))
    }, {**metadata, "stride.k_pages": "2049,128,64,1", "shape.k_pages": "5,16,2,64"}), "aligned to 16", code=2)


# Memory ------------------------------------------------------------------------------------------------------------


def memory(folder):
    """A small file must not ask for all there is."""
    one = rf.Tensor("F16", [1], b"\0\0")
    strided = lambda name, shape: {f"stride.{name}": ",".join("0" * len(shape)), f"shape.{name}": ",".join(map(str, shape))}
    # Inputs that strides of 0 make large.
    wide = (1 << 14, 1, 1 << 15)
    refuse(folder, "2^29 elements out of 1", "sigmoid_gate",
           ({"x": one, "gate": one}, {**strided("x", wide), **strided("gate", wide)}), "'x'", "--max-bytes 4294967296")
    refuse(folder, "2^28 codes out of 1", "decode",
           ({"codes": rf.Tensor("U8", [1], b"\0")}, strided("codes", (1 << 28,))), "'values'", "--max-bytes")
    # An output that is the product of two inputs.
    refuse(folder, "4 * 10^8 elements out of 40000", "embedding",
           ({"table": rf.Tensor("F16", [1, 20000], bytes(40000)), "tokens": rf.Tensor("I32", [20000], bytes(80000))}, {}),
           "'out'", "--max-bytes")
    tensors, metadata = case("acceptance_sampled")
    rows = {k: t for k, t in tensors.items() if not k.startswith("expected.")}
    rows["logits"] = rf.Tensor(rows["logits"].dtype, [1 << 29, 0], b"")
    refuse(folder, "2^29 rows of no logits", "acceptance", (rows, metadata), "'row_status'", "--max-bytes")
    # Workspace: partial results of a context of which the file holds one page.
    tensors, metadata = case("attention_short")
    requests = len(tensors["context_len"].values())
    pages = 1 << 21
    inputs = {k: t for k, t in tensors.items() if not k.startswith("expected.")}
    refuse(folder, "a context of 2^25 tokens out of one page", "attention",
           ({**inputs, "block_table": rf.Tensor.of("I32", [1], [0]),
             "context_len": rf.Tensor.of("I32", [requests], [pages * 16] * requests)},
            {**metadata, "stride.block_table": "0,0", "shape.block_table": f"{requests},{pages}"}), "workspace", "--max-bytes 80000000",
           arguments=["--max-bytes", "80000000"])
    # What a file's own size needs is counted too, before any of it is read.
    for tensors, metadata in bases():
        size = len(rf.assemble(*rf.layout(tensors, metadata)))
        refuse(folder, f"{metadata['op']} in {size - 1} bytes", metadata["op"], (tensors, metadata), "the file", str(size),
               arguments=["--max-bytes", str(size - 1)])
        refuse(folder, f"{metadata['op']} in {size} bytes", metadata["op"], (tensors, metadata), "beside the", "--max-bytes",
               arguments=["--max-bytes", str(size)])
    global trials
    path = folder / "whole.safetensors"
    rf.write(path, *case("decode_e4m3"))
    enough = path.stat().st_size + 256 * (2 + 4 * 4)  # codes here and in the executor, FP32 values four times
    for limit, code in ((enough, 0), (enough - 1, 3)):
        trials += 1
        found, printed, err = rf.run(PROGRAM, "decode", path, "--executor", EXECUTOR, "--max-bytes", limit)
        if found != code:
            failures.append(f"decode in {limit} bytes")
            print(f"FAILED decode in {limit} bytes: exit code {found}, expected {code}\n{printed}{err}"[:3000])


# What stands in the tensors ----------------------------------------------------------------------------------------


def entry(folder, name, tensor, index, value, *texts, code=3, also={}):
    tensors, metadata = name if isinstance(name, tuple) else case(name)
    tensors = {**tensors, tensor: tensors[tensor].with_entry(index, value), **also}
    refuse(folder, f"{metadata['op']} {tensor}[{index}] = {value}", metadata["op"], (tensors, metadata),
           *(texts or [f"'{tensor}'", str(value) if isinstance(value, int) else ""]), code=code)


BIG = 2**31 - 1


def contents(folder):
    for name in ("append", "attention_short", "attention_batch", "convolution", "recurrence_retired_vk",
                 "recurrence_replay", "recurrence_read_plain", "acceptance_sampled"):
        tensors, metadata = case(name)
        starts = tensors["query_start"].values()
        entry(folder, name, "query_start", 0, 1, "'query_start'", "must be 0")
        entry(folder, name, "query_start", 0, -1)
        entry(folder, name, "query_start", len(starts) - 1, starts[-1] + 1)
        entry(folder, name, "query_start", len(starts) - 1, BIG)
        none = {key: rf.Tensor(t.dtype, [0, *t.shape[1:]], b"") for key, t in tensors.items()
                if key != "query_start" and t.shape[:1] == [len(starts) - 1] and t.dtype in ("I32", "I64")}
        refuse(folder, f"{name} without requests", metadata["op"],
               ({**tensors, **none, "query_start": rf.Tensor.of("I32", [1], [0])}, metadata), "'query_start'", "request")
        if len(starts) > 2:
            entry(folder, name, "query_start", 1, starts[2] + 1, "'query_start'")
            entry(folder, name, "query_start", 1, -5)

    for name in ("append", "attention_short", "attention_batch"):
        tensors, metadata = case(name)
        page_size, table = tensors["k_pages"].shape[1], tensors["block_table"].shape[1]
        for value in (-1, table * page_size + 1, BIG, -2**31):
            entry(folder, name, "context_len", 0, value)
    tensors, metadata = case("append")
    rows = tensors["block_table"].shape[1]
    same = tensors["block_table"].values()
    same[rows:] = same[:rows]
    lengths = [tensors["context_len"].values()[0]] * 2
    refuse(folder, "append to one page twice", "append",
           ({**tensors, "block_table": tensors["block_table"].with_values(same),
             "context_len": tensors["context_len"].with_values(lengths)}, metadata), "'block_table'", "both write")
    for name, op in (("append", "append"), ("attention_short", "attention")):
        tensors, metadata = case(name)
        scales = rf.Tensor.of("F32", [3], [1.0] * 3)
        for s in ("k_scale", "v_scale"):
            refuse(folder, f"{op} {s} of 3 heads", op, ({**tensors, s: scales}, metadata), f"'{s}'", "[3]")
        half = rf.Tensor("F16", tensors["v_pages"].shape, bytes(2 * len(tensors["v_pages"].data)))
        refuse(folder, f"{op} v_pages F16", op, ({**tensors, "v_pages": half}, metadata), "'v_pages'", "F16")

    tensors, metadata = case("attention_short")
    refuse(folder, "40 rows of a request", "attention",
           ({"q": rf.Tensor("F16", [40, 4, 64], bytes(2 * 40 * 256)), **{k: tensors[k] for k in (
               "k_pages", "v_pages", "block_table", "context_len", "k_scale", "v_scale")},
             "query_start": rf.Tensor.of("I32", [3], [0, 40, 40])}, metadata), "32", code=2)
    refuse(folder, "heads that do not divide", "attention",
           ({**tensors, "q": rf.Tensor("F16", [12, 3, 64], bytes(2 * 12 * 3 * 64))}, metadata), "q_heads")
    refuse(folder, "head_dim of q", "attention",
           ({**tensors, "q": rf.Tensor("F16", [12, 4, 32], bytes(2 * 12 * 4 * 32))}, metadata), "'k_pages'")
    small = {**tensors, "q": rf.Tensor("F16", [12, 4, 32], bytes(2 * 12 * 4 * 32)),
             "k_pages": rf.Tensor("F8_E4M3", [5, 16, 2, 32], bytes(5 * 16 * 2 * 32)),
             "v_pages": rf.Tensor("F8_E4M3", [5, 16, 2, 32], bytes(5 * 16 * 2 * 32))}
    refuse(folder, "head_dim 32", "attention", (small, metadata), "head_dim=32", code=2)
    for shape in ([0, 16, 2, 64], [5, 0, 2, 64], [5, 16, 0, 64], [5, 16, 2, 0]):
        none = rf.Tensor("F8_E4M3", shape, b"")
        survive(folder, f"pages {shape}", "attention",
                rf.assemble(*rf.layout({k: v for k, v in {**tensors, "k_pages": none, "v_pages": none}.items()
                                        if not k.startswith("expected.")}, metadata)))

    entry(folder, "convolution", "slot", 0, 4)
    entry(folder, "convolution", "slot", 1, -2)
    entry(folder, "convolution", "slot", 0, BIG)
    entry(folder, "convolution", "kept", 0, 9)
    entry(folder, "convolution", "kept", 1, -1)
    tensors, metadata = case("convolution")
    entry(folder, "convolution", "slot", 0, tensors["slot"].values()[1], "'slot'", "writes too")
    kept = rf.Tensor.of("I32", [2], [1, 0])
    refuse(folder, "fresh with kept rows", "convolution", ({**tensors, "fresh": rf.Tensor.of("I32", [2], [1, 1]),
                                                            "kept": kept}, metadata), "'kept'", "fresh")
    refuse(folder, "fresh 2", "convolution", ({**tensors, "fresh": rf.Tensor.of("I32", [2], [0, 2])}, metadata),
           "'fresh'", "2")
    refuse(folder, "more rows than places", "convolution",
           ({**tensors, "query_start": rf.Tensor.of("I32", [3], [0, 15, 16])}, metadata), "'query_start'", "T = 8")
    refuse(folder, "bias of another dtype", "convolution",
           ({**tensors, "bias": rf.Tensor("F16", [96], bytes(192))}, metadata), "'bias'", "F16")
    refuse(folder, "5 taps", "convolution", ({**tensors, "weight": rf.Tensor("F32", [96, 5], bytes(96 * 20)),
                                              "window_pool": rf.Tensor("F16", [4, 12, 96], bytes(4 * 12 * 192))}, metadata),
           "width", code=2)
    refuse(folder, "a pool of other channels", "convolution",
           ({**tensors, "window_pool": rf.Tensor("F16", [4, 11, 95], bytes(4 * 11 * 95 * 2))}, metadata), "'window_pool'")
    refuse(folder, "x narrower than the channels", "convolution",
           ({**tensors, "x": rf.Tensor("F16", [16, 95], bytes(16 * 95 * 2))}, metadata), "'x'")
    refuse(folder, "a pool of 2 places", "convolution",
           ({**tensors, "window_pool": rf.Tensor("F16", [4, 2, 96], bytes(4 * 2 * 192))}, metadata), "'window_pool'")

    name = "recurrence_retired_vk"
    tensors, metadata = case(name)
    live = [i for i, slot in enumerate(tensors["initial_slot"].values()) if slot >= 0][0]
    places = tensors["snapshot_slot"].shape[1]
    for value in (-2, 7, BIG, -2**31):
        entry(folder, name, "initial_slot", live, value)
        entry(folder, name, "snapshot_slot", live * places, value)
    for value in (-1, places + 1, BIG):
        entry(folder, name, "selector", live, value)
    twice = tensors["snapshot_slot"].values()[live * places + 1]
    entry(folder, name, "snapshot_slot", live * places, twice if twice >= 0 else 0, "'snapshot_slot'", "too", also={
        "snapshot_slot": tensors["snapshot_slot"].with_values([5] * len(tensors["snapshot_slot"].values()))})
    both = {"initial_slot": tensors["initial_slot"].with_values([0, 1]),
            "snapshot_slot": tensors["snapshot_slot"].with_values([1, 2, 3, 4]),
            "selector": tensors["selector"].with_values([0, 0])}
    refuse(folder, "a slot that another request writes", "recurrence", ({**tensors, **both}, metadata),
           "'initial_slot'", "which request 0 writes")
    both["snapshot_slot"] = tensors["snapshot_slot"].with_values([-1, 2, 3, 4])
    both["selector"] = tensors["selector"].with_values([1, 0])
    refuse(folder, "a selector of no snapshot", "recurrence", ({**tensors, **both}, metadata), "'snapshot_slot'", "-1")
    both["fresh"] = rf.Tensor.of("I32", [2], [1, 0])
    refuse(folder, "fresh with a selector", "recurrence", ({**tensors, **both}, metadata), "'selector'", "fresh")
    refuse(folder, "more rows than snapshots", "recurrence",
           ({**tensors, "query_start": rf.Tensor.of("I32", [3], [0, 4, 4])}, metadata), "'query_start'", "T = 2")
    for key, value, texts, code in (("q_offset", "-1", ["'q_offset'"], 3), ("v_offset", "500", ["'v_offset'"], 3),
                                    ("k_offset", "x", ["'k_offset'"], 3), ("value_heads", "0", ["'value_heads'"], 3),
                                    ("value_heads", "3", ["'v_offset'"], 3), ("key_dim", "64", ["'state_pool'"], 3),
                                    ("key_heads", "99999999", ["'key_heads'"], 3), ("l2norm", "2", ["'l2norm'"], 3),
                                    ("scale", "one", ["'scale'"], 3)):
        refuse(folder, f"recurrence {key}={value}", "recurrence", (tensors, {**metadata, key: value}), *texts, code=code)
    refuse(folder, "no q_offset", "recurrence", (tensors, {k: v for k, v in metadata.items() if k != "q_offset"}),
           "'q_offset'", "missing")
    refuse(folder, "mixed and q", "recurrence", ({**tensors, "q": rf.Tensor("F16", [4, 1, 128], bytes(1024))}, metadata),
           "'q'", "mixed")
    for value in (-2, 2, BIG, -2**31):
        entry(folder, "recurrence_read_plain", "initial_slot", 0, value)

    name = "recurrence_replay"  # two requests of 6 rows, rings of 32 places, 3 slots
    tensors, metadata = case(name)
    for value in (-2, 3, BIG, -2**31):
        entry(folder, name, "slot", 1, value)
    for value in (-1, 32, BIG, -2**31):
        entry(folder, name, "ring_start", 1, value)
    for value in (-1, 27, 32, BIG, -2**31):
        entry(folder, name, "ring_count", 1, value)
    for value in (-1, 2, BIG):
        entry(folder, name, "flush", 0, value)
        entry(folder, "recurrence_fresh", "fresh", 1, value)
    entry(folder, "recurrence_fresh", "ring_count", 1, 1, "'ring_count'", "fresh")
    entry(folder, name, "slot", 1, tensors["slot"].values()[0], "'slot'", "writes too")

    def with_places(places, changes={}):
        rings = {key: rf.Tensor("F32", [t.shape[0], places] + t.shape[2:], bytes(len(t.data) // 32 * places))
                 for key, t in tensors.items() if key.startswith("ring_") and t.dtype == "F32"}
        kept = {key: t for key, t in tensors.items() if not key.startswith("expected.ring_")}
        return {**kept, **rings, **changes}, metadata

    refuse(folder, "R 0", "recurrence", with_places(0), "'ring_k'", "shape")
    for places in (1, 8, 15, 24, 48, 128):
        refuse(folder, f"R {places}", "recurrence", with_places(places), "ring_places must be 16, 32 or 64", code=2)
    refuse(folder, "R less than twice the rows", "recurrence",
           with_places(16, {"query_start": rf.Tensor.of("I32", [3], [0, 12, 12])}), "2 * max_rows", code=2)
    refuse(folder, "more rows than a launch takes", "recurrence",
           with_places(32, {"query_start": rf.Tensor.of("I32", [3], [0, 33, 33]),
                            "mixed": rf.Tensor("F16", [33, 536], bytes(33 * 1072)),
                            **{key: rf.Tensor("F32", [33, 2], bytes(264)) for key in ("g", "beta")}}), "max_rows", code=2)
    for key, shape in (("ring_k", [3, 32, 2, 64]), ("ring_k", [2, 32, 1, 128]), ("ring_u", [3, 16, 2, 128]),
                       ("ring_u", [3, 32, 1, 128]), ("ring_g", [3, 32, 1]), ("ring_g", [4, 32, 2])):
        ring = rf.Tensor("F32", shape, bytes(4 * math.prod(shape)))
        refuse(folder, f"{key} {shape}", "recurrence", ({**tensors, key: ring}, metadata), f"'{key}'", "shape")

    tensors, metadata = case("projection_matched")
    for shape in ([128, 255], [128, 257], [128, 128]):
        w = rf.Tensor("U8", shape, bytes(shape[0] * shape[1]))
        refuse(folder, f"w_packed {shape}", "projection", ({**tensors, "w_packed": w}, metadata), "'w_packed'")
    for shape in ([128, 31], [127, 32], [128, 16]):
        w = rf.Tensor("F8_E4M3", shape, bytes(shape[0] * shape[1]))
        refuse(folder, f"w_scale {shape}", "projection", ({**tensors, "w_scale": w}, metadata), "'w_scale'")
    refuse(folder, "w_global of 3", "projection", ({**tensors, "w_global": rf.Tensor.of("F32", [3], [1] * 3)}, metadata),
           "'w_global'")
    for segments, texts in (("100,28,0", ["'segments'"]), ("100,27", ["'segments'", "sum"]), ("100", ["'w_global'"]),
                            ("x,y", ["'segments'"]), ("", ["'segments'"]), (f"{BIG},{BIG}", ["'segments'", "sum"]),
                            (f"{(1 << 63) - 1},{(1 << 63) - 1}", ["'segments'", "sum"]), ("1,2,125", ["'w_global'"])):
        refuse(folder, f"segments {segments}", "projection", ({**tensors, "w_global": rf.Tensor.of("F32", [2], [1, 1])},
                                                               {**metadata, "segments": segments}), *texts)
    odd = {"x": rf.Tensor("F16", [2, 24], bytes(96)), "w_packed": rf.Tensor("U8", [4, 12], bytes(48)),
           "w_scale": rf.Tensor("F8_E4M3", [4, 2], bytes(8)), "w_global": tensors["w_global"]}
    refuse(folder, "K 24", "projection", (odd, metadata), "multiple of 16", code=2)

    name = "acceptance_sampled"
    for value in (float("nan"), float("inf"), -1.0, -float("inf")):
        entry(folder, name, "temperature", 0, value)
        entry(folder, name, "top_p", 1, value)
    entry(folder, name, "top_p", 1, 1.5)
    entry(folder, name, "top_k", 2, -2)
    tensors, metadata = case(name)
    refuse(folder, "more rows than drafts", "acceptance",
           ({**tensors, "query_start": rf.Tensor.of("I32", [5], [0, 16, 17, 18, 19])}, metadata), "'query_start'", "D + 1")

    name = "acceptance_rejection"
    tensors, metadata = case(name)
    probs = case("acceptance_rejection_probs")[0]["draft_probs"]
    refuse(folder, "two sources of drafts", "acceptance", ({**tensors, "draft_probs": probs}, metadata), "'draft_probs'",
           "'draft_candidates'")
    for value in (float("nan"), float("inf"), -0.5):
        entry(folder, name, "draft_candidate_q", 0, value)
        entry(folder, "acceptance_rejection_probs", "draft_probs", 3, value)
    for value in (-2, 40, BIG, -2**31):
        entry(folder, name, "draft_candidates", 1, value)
    for tensor, of in (("draft_candidates", tensors), ("draft_candidate_q", tensors), ("draft_probs", {"draft_probs": probs})):
        t = of[tensor]
        rest = {k: v for k, v in tensors.items() if tensor != "draft_probs" or not k.startswith("draft_c")}
        for shape in ([t.shape[0], t.shape[1], t.shape[2] - 1], [t.shape[0] - 1, *t.shape[1:]],
                      [t.shape[0], t.shape[1] + 1, t.shape[2]], [t.shape[0], t.shape[1] * t.shape[2]]):
            count = 1
            for extent in shape:
                count *= extent
            data = (t.data * 2)[:count * 4]
            refuse(folder, f"{tensor} {shape}", "acceptance", ({**rest, tensor: rf.Tensor(t.dtype, shape, data)}, metadata),
                   "'draft_")

    name = "draft_walk_sample"
    for value in (-1, 40, BIG, -2**31):
        entry(folder, name, "anchor", 1, value)
        entry(folder, "draft_walk", "anchor", 0, value)
    for value in (-2, 40, BIG, -2**31):
        entry(folder, name, "candidates", 3, value)
    for value in (float("nan"), float("inf"), -1.0, -1e-9):
        entry(folder, name, "temperature", 0, value)
    tensors, metadata = case(name)
    for tensor, shape in (("candidates", [5, 7, 7]), ("candidates", [5, 8, 7]), ("right", [40, 36]), ("right", [39, 37]),
                          ("project", [5, 7, 36]), ("project", [5, 6, 37]), ("anchor", [4]), ("temperature", [6]),
                          ("seed", [4]), ("position", [1])):
        t = rf.Tensor(tensors[tensor].dtype, shape, bytes(math.prod(shape) * rf.BYTES[tensors[tensor].dtype]))
        refuse(folder, f"{tensor} {shape}", "draft_walk", ({**tensors, tensor: t}, metadata), f"'{tensor}'", "shape")
    for tensor in ("left", "right"):
        t = rf.Tensor("F16", [40, 37], bytes(40 * 37 * 2))
        refuse(folder, f"{tensor} F16", "draft_walk", ({**tensors, tensor: t}, metadata), f"'{tensor}'", "F16")
    wide = {k: v for k, v in tensors.items() if not k.startswith("expected.")}
    for tensor in ("unary", "candidates"):
        wide[tensor] = rf.Tensor(tensors[tensor].dtype, [5, 7, 65], bytes(5 * 7 * 65 * 4))
    refuse(folder, "65 candidates", "draft_walk", (wide, metadata), "at most 64 candidates", code=2)
    refuse(folder, "another mode", "draft_walk", (tensors, metadata), "'greedy'", code=2, arguments=["--policy", "mode=greedy"])
    refuse(folder, "sample of a file for argmax", "draft_walk", case("draft_walk"), "'temperature'", "missing",
           arguments=["--policy", "mode=sample"])
    tensors, metadata = case("draft_convolution")
    for tensor, shape in (("base", [1, 48]), ("base", [2, 47]), ("base", [3, 48]), ("delta", [2, 8, 2, 2]),
                          ("delta", [2, 8, 1, 3]), ("delta", [2, 7, 2, 3]), ("delta", [1, 8, 2, 3]), ("delta", [2, 8, 6])):
        t = rf.Tensor(tensors[tensor].dtype, shape, bytes(math.prod(shape) * rf.BYTES[tensors[tensor].dtype]))
        refuse(folder, f"{tensor} {shape}", "draft_convolution", ({**tensors, tensor: t}, metadata), f"'{tensor}'", "shape")
    for channels in (15, 24, 49):
        x = rf.Tensor("F16", [2, 8, channels], bytes(2 * 8 * channels * 2))
        refuse(folder, f"{channels} channels", "draft_convolution", ({**tensors, "x": x}, metadata), "multiple of 16", code=2)

    for value in (-1, 5, BIG):
        entry(folder, rf.glue()["qk_norm_rotary"], "positions", 1, value)
    for value in (-1, 7, BIG):
        entry(folder, rf.glue()["embedding"], "tokens", 0, value)
    tensors, metadata = rf.glue()["silu_and_mul"]
    refuse(folder, "odd columns", "silu_and_mul", ({**tensors, "x": rf.Tensor("F16", [3, 19], bytes(114))}, metadata), "'x'")
    tensors, metadata = rf.glue()["qk_norm_rotary"]
    wide = rf.Tensor("F32", [5, 5], bytes(100))
    refuse(folder, "more rotary dims than dims", "qk_norm_rotary", ({**tensors, "cos": wide, "sin": wide}, metadata), "'cos'")
    refuse(folder, "sin of another shape", "qk_norm_rotary", ({**tensors, "sin": wide}, metadata), "'sin'")
    for text in ("-1", "x", "nan"):
        tensors, metadata = rf.glue()["rmsnorm"]
        refuse(folder, f"eps {text}", "rmsnorm", (tensors, {**metadata, "eps": text}), "'eps'")
    tensors, metadata = rf.glue()["rmsnorm"]
    del tensors["residual"]
    refuse(folder, "residual_out of no residual", "rmsnorm", (tensors, metadata), "'expected.residual_out'")

    # No rows, no requests, no entries: nothing to do, or nothing built, but never a crash.
    for tensors, metadata in bases():
        inputs = {k: v for k, v in tensors.items() if not k.startswith("expected.")}
        for name, t in inputs.items():
            for d in range(len(t.shape)):
                shape = [0 if i == d else n for i, n in enumerate(t.shape)]
                survive(folder, f"{metadata['op']} {name} {shape}", metadata["op"],
                        rf.assemble(*rf.layout({**inputs, name: rf.Tensor(t.dtype, shape, b"")}, metadata)))


def data_not_errors(folder):
    """Rows that no request names, and pages outside the pool, are the launch's to handle."""
    for name in ("append", "attention_short", "attention_batch", "convolution", "recurrence_retired_vk",
                 "recurrence_replay", "recurrence_read_plain", "acceptance_sampled"):
        starts = case(name)[0]["query_start"].values()
        read(folder, name, "query_start", len(starts) - 1, starts[-1] - 1)
    for name in ("append", "attention_short", "attention_batch"):
        tensors, _ = case(name)
        pages, page_size = tensors["k_pages"].shape[:2]
        for value in (-1, pages, BIG, -2**31):
            read(folder, name, "block_table", (tensors["context_len"].values()[0] - 1) // page_size, value)


def read(folder, name, tensor, index, value):
    """A changed entry is read and leaves outputs of the same shapes."""
    global trials
    trials += 1
    tensors, metadata = case(name)
    tensors = {**tensors, tensor: tensors[tensor].with_entry(index, value)}
    path, out = folder / "read.safetensors", folder / "out.safetensors"
    rf.write(path, tensors, metadata)
    code, printed, err = rf.run(PROGRAM, metadata["op"], path, "--executor", EXECUTOR, "--out", out)
    expected = {k.split(".", 1)[1]: t.shape for k, t in tensors.items() if k.startswith("expected.")}
    said = "note: " in err if tensor == "block_table" else not err  # a page outside the pool is said, and run
    if code != 0 or not said or any(rf.read(out)[0][k].shape != shape for k, shape in expected.items()):
        failures.append(f"{name} {tensor}[{index}] = {value}")
        print(f"FAILED {name}: {tensor}[{index}] = {value} is data: exit code {code}\n{printed}{err}"[:3000])
    out.unlink(missing_ok=True)


def idle_requests_are_not_judged(folder):
    """A request without rows carries its selectors over: whatever stands there is not looked at."""
    global trials
    for name, changes in (("convolution", {"slot": 99, "kept": -7}), ("recurrence_retired_vk", {"selector": 77}),
                          ("recurrence_replay", {"slot": 99, "ring_start": -3, "ring_count": 999, "flush": 7}),
                          ("acceptance_sampled", {"temperature": float("nan"), "top_k": -9}),
                          ("acceptance_rejection", {"temperature": float("nan"), "draft_candidates": 99})):
        tensors, metadata = case(name)
        op = metadata["op"]
        tensors = {k: v for k, v in tensors.items() if not k.startswith("expected.")}
        starts = tensors["query_start"].values()
        tensors["query_start"] = rf.Tensor.of("I32", [len(starts) + 1], starts + [starts[-1]])
        for key in ("slot", "kept", "initial_slot", "selector", "ring_start", "ring_count", "flush", "temperature", "top_p",
                    "top_k", "seed", "position", "limit"):
            if key in tensors:
                t = tensors[key]
                tensors[key] = rf.Tensor.of(t.dtype, [t.shape[0] + 1], t.values() + [changes.get(key, 0)])
        for key in ("snapshot_slot", "draft"):
            if key in tensors:
                t = tensors[key]
                tensors[key] = rf.Tensor.of("I32", [t.shape[0] + 1, t.shape[1]], t.values() + [-3] * t.shape[1])
        for key, value in (("draft_candidates", 99), ("draft_candidate_q", float("nan"))):
            if key in tensors:
                t = tensors[key]
                each = t.shape[1] * t.shape[2]
                tensors[key] = rf.Tensor.of(t.dtype, [t.shape[0] + 1, *t.shape[1:]], t.values() + [value] * each)
        path = folder / "idle.safetensors"
        rf.write(path, tensors, metadata)
        trials += 1
        code, printed, err = rf.run(PROGRAM, op, path, "--executor", EXECUTOR)
        if code != 0:
            failures.append(f"{op} idle")
            print(f"FAILED {op}: a request without rows: exit code {code}\n{printed}{err}"[:3000])


def command_line(folder):
    global trials
    good = CASES / "decode_e2m1.safetensors"
    for arguments, code in (([], 3), (["decode"], 3), (["decode", folder / "absent"], 3), (["decode", folder], 3),
                            (["decode", good, "--bogus"], 3), (["decode", good, "--out"], 3), (["decode", good, "--out", ""], 3),
                            (["decode", good, "--rtol", "1"], 3), (["--list", "--check"], 3), (["--list", "decode"], 3),
                            (["decode", good, good], 3),
                            (["decode", good, "--out", folder / "no" / "such" / "folder"], 3), (["--help"], 0),
                            (["decode", good, "--executor"], 3), (["--json"], 3), (["decode", good, "--max-bytes"], 3),
                            (["decode", good, "--max-bytes", "0"], 3), (["decode", good, "--max-bytes", "-1"], 3),
                            (["decode", good, "--max-bytes", "1e9"], 3), (["decode", good, "--max-bytes", "1", "--list"], 3)):
        trials += 1
        found, _, err = rf.run(PROGRAM, *arguments)
        if found != code or (code == 3 and "ratify-run: " not in err):
            failures.append(f"command line {arguments}")
            print(f"FAILED command line {arguments}: exit code {found}, expected {code}\n{err}"[:2000])
    for text in ("-5", "0", "1e9", "x", "9223372036854775808", "1" * 300):
        trials += 1
        _, _, err = rf.run(PROGRAM, "decode", good, "--max-bytes", text)
        if f"--max-bytes: '{text}' is no number of bytes" not in err or len(err) > 200 + len(text):
            failures.append(f"--max-bytes {text}")
            print(f"FAILED --max-bytes {text}: {err}"[:2000])
    # An older OUT stays as it was when a run fails.
    old = folder / "older"
    old.write_bytes(b"older")
    rf.run(PROGRAM, "decode", CASES / "append.safetensors", "--out", old)
    if old.read_bytes() != b"older":
        failures.append("older OUT")
        print("FAILED older OUT: a refused run changed it")


with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    container(work)
    many_tensors(work)
    names_and_types(work)
    policies(work)
    strides(work)
    memory(work)
    contents(work)
    data_not_errors(work)
    idle_requests_are_not_judged(work)
    command_line(work)
print(f"{trials} trials, {len(failures)} failed")
sys.exit(1 if failures else 0)
