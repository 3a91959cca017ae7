# SPDX-License-Identifier: Apache-2.0
"""Safetensors files with nothing but Python's own library, and ratify-run on them."""
import json
import math
import pathlib
import random
import struct
import subprocess

CODES = {"F32": "f", "F16": "e", "U8": "B", "I32": "i", "I64": "q"}
BYTES = {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "U8": 1, "I32": 4, "I64": 8, "F64": 8, "BOOL": 1}


class Tensor:
    def __init__(self, dtype, shape, data):
        self.dtype, self.shape, self.data = dtype, list(shape), bytes(data)

    @classmethod
    def of(cls, dtype, shape, values):
        values = list(values)
        assert len(values) == math.prod(shape)
        return cls(dtype, shape, struct.pack(f"<{len(values)}{CODES[dtype]}", *values))

    def values(self):
        return list(struct.unpack(f"<{len(self.data) // BYTES[self.dtype]}{CODES[self.dtype]}", self.data))

    def with_values(self, values):
        return Tensor.of(self.dtype, self.shape, values)

    def with_entry(self, index, value):
        values = self.values()
        values[index] = value
        return self.with_values(values)


def read(path):
    raw = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], entry["shape"], raw[8 + length + begin:8 + length + end])
    return tensors, metadata


def layout(tensors, metadata):
    """The header as an object, and the data."""
    header, data = ({"__metadata__": dict(metadata)} if metadata else {}), b""
    for name, t in tensors.items():
        header[name] = {"dtype": t.dtype, "shape": t.shape, "data_offsets": [len(data), len(data) + len(t.data)]}
        data += t.data
    return header, data


def assemble(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(path, tensors, metadata):
    pathlib.Path(path).write_bytes(assemble(*layout(tensors, metadata)))


def run(program, *arguments, timeout=300):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def bits_differing(printed):
    """Per output, what a check or comparison printed."""
    found = {}
    for line in printed.splitlines():
        if ", bits differing " in line:
            found[line.split()[1].rstrip(":")] = int(line.split(", bits differing ")[1].split(",")[0])
    return found


# Small files for the operations between the large ones, with what they should give in FP64.


def silu(x):
    return x / (1 + math.exp(-x))


def glue():
    """operation -> (tensors, metadata)"""
    rng = random.Random(7)
    half = lambda n, scale=1.0: [struct.unpack("<e", struct.pack("<e", rng.gauss(0, scale)))[0] for _ in range(n)]
    single = lambda n: [struct.unpack("<f", struct.pack("<f", rng.gauss(0, 1)))[0] for _ in range(n)]
    close = lambda *names: {f"{kind}.{n}": "1e-5" for n in names for kind in ("atol", "rtol")}
    files = {}

    rows, n = 3, 10
    x, residual, weight = half(rows * n), single(rows * n), half(n, 0.1)
    total = [a + b for a, b in zip(x, residual)]
    root = lambda v, eps: 1 / math.sqrt(sum(a * a for a in v) / len(v) + eps)
    out = [total[i] * root(total[i // n * n:i // n * n + n], 1e-5) * (1 + weight[i % n]) for i in range(rows * n)]
    files["rmsnorm"] = ({
        "x": Tensor.of("F16", [rows, n], x), "residual": Tensor.of("F32", [rows, n], residual),
        "weight": Tensor.of("F16", [n], weight), "expected.out": Tensor.of("F32", [rows, n], out),
        "expected.residual_out": Tensor.of("F32", [rows, n], total)
    }, {"op": "rmsnorm", "eps": "1e-5", **close("out", "residual_out")})

    heads, v = 2, 6
    x, z, weight = half(rows * heads * v), half(rows * heads * v), single(v)
    out = [x[i] * root(x[i // v * v:i // v * v + v], 1e-6) * weight[i % v] * silu(z[i]) for i in range(len(x))]
    files["gated_rmsnorm"] = ({
        "x": Tensor.of("F16", [rows, heads, v], x), "z": Tensor.of("F16", [rows, heads, v], z),
        "weight": Tensor.of("F32", [v], weight), "expected.out": Tensor.of("F32", [rows, heads, v], out)
    }, {"op": "gated_rmsnorm", **close("out")})

    d, half_rotary, positions = 8, 2, [4, 0, 2]
    qk, weight = half(rows * heads * d), half(d, 0.1)
    angles = [[p * 0.7**i for i in range(half_rotary)] for p in range(5)]
    cos, sin = [math.cos(a) for row in angles for a in row], [math.sin(a) for row in angles for a in row]
    out = []
    for head in range(rows * heads):
        row = qk[head * d:head * d + d]
        row = [a * root(row, 1e-6) * (1 + w) for a, w in zip(row, weight)]
        turned = list(row)
        for i in range(half_rotary):
            c, s = cos[positions[head // heads] * half_rotary + i], sin[positions[head // heads] * half_rotary + i]
            turned[i], turned[i + half_rotary] = row[i] * c - row[i + half_rotary] * s, row[i + half_rotary] * c + row[i] * s
        out += turned
    files["qk_norm_rotary"] = ({
        "qk": Tensor.of("F16", [rows, heads, d], qk), "weight": Tensor.of("F16", [d], weight),
        "cos": Tensor.of("F32", [5, half_rotary], cos), "sin": Tensor.of("F32", [5, half_rotary], sin),
        "positions": Tensor.of("I32", [rows], positions), "expected.out": Tensor.of("F32", [rows, heads, d], out)
    }, {"op": "qk_norm_rotary", **close("out")})

    x = half(rows * 2 * n)
    out = [silu(x[r * 2 * n + i]) * x[r * 2 * n + n + i] for r in range(rows) for i in range(n)]
    files["silu_and_mul"] = ({
        "x": Tensor.of("F16", [rows, 2 * n], x), "expected.out": Tensor.of("F32", [rows, n], out)
    }, {"op": "silu_and_mul", **close("out")})

    x, gate = single(rows * heads * v), half(rows * heads * v)
    out = [a / (1 + math.exp(-b)) for a, b in zip(x, gate)]
    files["sigmoid_gate"] = ({
        "x": Tensor.of("F32", [rows, heads, v], x), "gate": Tensor.of("F16", [rows, heads, v], gate),
        "expected.out": Tensor.of("F32", [rows, heads, v], out)
    }, {"op": "sigmoid_gate", **close("out")})

    table, tokens = half(7 * n), [6, 0, 3, 3]
    files["embedding"] = ({
        "table": Tensor.of("F16", [7, n], table), "tokens": Tensor.of("I32", [4], tokens),
        "expected.out": Tensor.of("F32", [4, n], [table[t * n + i] for t in tokens for i in range(n)])
    }, {"op": "embedding"})
    return files
