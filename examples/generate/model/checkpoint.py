# SPDX-License-Identifier: Apache-2.0
"""The demo model's geometry and its file format.

Every linear layer is stored as NVFP4 under the names that compressed-tensors
uses: NAME.weight_packed (two E2M1 codes a byte, the low nibble is the even
column), NAME.weight_scale (one E4M3 scale for 16 columns) and
NAME.weight_global_scale (FP32, a divisor). What a reader must compute from
them, bit for bit, is in `dequantise`:

    w_global = fp32(1 / weight_global_scale)
    s        = fp16(fp32(weight_scale) * w_global)
    w        = fp16(e2m1 * s)

The embedding table and the convolution are FP16, norms, A_log and dt_bias
FP32. The geometry travels as metadata strings, so a reader needs one file.
Reading needs numpy only; quantising needs PyTorch.
"""

import json
import struct

import numpy as np

END_TOKEN = 256

GEOMETRY = {
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "intermediate_size": 768,
    "vocab_size": 264,
    "end_token": END_TOKEN,
    "max_position_embeddings": 4096,
    "rope_theta": 10000000,
    "rotary_dim": 64,
    "rms_norm_eps": 1e-6,
}

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def _e4m3_table():
    values = np.zeros(256, np.float32)
    for code in range(256):
        exponent, mantissa = (code >> 3) & 15, code & 7
        if code & 127 == 127:
            value = float("nan")
        elif exponent == 0:
            value = mantissa * 2.0**-9
        else:
            value = (8 + mantissa) * 2.0 ** (exponent - 10)
        values[code] = -value if code & 128 else value
    return values


E4M3 = _e4m3_table()


# ---------------------------------------------------------------- safetensors

_NUMPY = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
    "F8_E4M3": np.dtype("u1"),  # numpy has no such type: the codes are kept as bytes
}


def read_safetensors(path):
    """Returns ({name: (dtype string, array)}, metadata)."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], _NUMPY[entry["dtype"]]).reshape(entry["shape"])
        tensors[name] = (entry["dtype"], array)
    return tensors, metadata


def write_safetensors(path, tensors, metadata):
    """`tensors` is {name: (dtype string, array)}; the order is kept, except
    that wider types come first, which keeps every tensor aligned."""
    width = {"F32": 4, "I32": 4, "F16": 2, "U8": 1, "F8_E4M3": 1}
    names = sorted(tensors, key=lambda name: -width[tensors[name][0]])
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name in names:
        dtype, array = tensors[name]
        blob = np.ascontiguousarray(array, _NUMPY[dtype]).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


# ---------------------------------------------------------------- reading

def dequantise(packed, scale, global_scale):
    """The effective FP16 weights [N, K], from the three stored arrays."""
    codes = np.empty((packed.shape[0], packed.shape[1] * 2), np.uint8)
    codes[:, 0::2] = packed & 15
    codes[:, 1::2] = packed >> 4
    w_global = np.float32(1) / np.float32(global_scale.reshape(())[()])
    s = (E4M3[scale] * w_global).astype(np.float16)
    return (E2M1[codes] * np.repeat(s, 16, axis=1).astype(np.float32)).astype(np.float16)


def effective_weights(path):
    """Returns ({transformers name: float32 array}, metadata)."""
    tensors, metadata = read_safetensors(path)
    weights = {}
    for name, (_, array) in tensors.items():
        if name.endswith(".weight_packed"):
            base = name[: -len("_packed")]
            weights[base] = dequantise(
                array, tensors[base + "_scale"][1], tensors[base + "_global_scale"][1]
            ).astype(np.float32)
        elif not name.endswith(("_scale", "_global_scale")):
            weights[name] = array.astype(np.float32)
    return weights, metadata


# ---------------------------------------------------------------- transformers

def build_model(geometry=GEOMETRY):
    """A Qwen3_5ForCausalLM of this geometry with its initial weights."""
    from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

    g = geometry
    config = Qwen3_5TextConfig(
        vocab_size=g["vocab_size"],
        hidden_size=g["hidden_size"],
        intermediate_size=g["intermediate_size"],
        num_hidden_layers=g["num_hidden_layers"],
        num_attention_heads=g["num_attention_heads"],
        num_key_value_heads=g["num_key_value_heads"],
        head_dim=g["head_dim"],
        linear_num_key_heads=g["linear_num_key_heads"],
        linear_num_value_heads=g["linear_num_value_heads"],
        linear_key_head_dim=g["linear_key_head_dim"],
        linear_value_head_dim=g["linear_value_head_dim"],
        linear_conv_kernel_dim=g["linear_conv_kernel_dim"],
        full_attention_interval=g["full_attention_interval"],
        max_position_embeddings=g["max_position_embeddings"],
        rms_norm_eps=g["rms_norm_eps"],
        tie_word_embeddings=False,
        eos_token_id=g["end_token"],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": float(g["rope_theta"]),
            "partial_rotary_factor": g["rotary_dim"] / g["head_dim"],
            "mrope_section": [11, 11, 10],
        },
    )
    return Qwen3_5ForCausalLM(config)


def load_model(path):
    """The stored model in transformers, FP32, on its effective weights."""
    import torch

    weights, metadata = effective_weights(path)
    geometry = {key: type(value)(float(metadata[key])) for key, value in GEOMETRY.items()}
    model = build_model(geometry).float().eval()
    model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in weights.items()})
    return model


def linear_names(model):
    """The parameters that are stored as NVFP4: the weight of every nn.Linear."""
    import torch

    return [name + ".weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]


# ---------------------------------------------------------------- quantising

def quantise(w, w_global):
    """Nearest NVFP4 of w [..., K]; w_global broadcasts over the groups.
    Returns codes (uint8, as w), scale codes (uint8, one a group) and the
    effective weights.

    The scale that maps the largest element to 6 is rarely the best: E4M3
    rounds it, and E2M1 has a wide gap between 4 and 6. So the neighbouring
    scale codes are tried as well, up to the one that maps it to about 4, and
    the least squared error wins. Codes whose FP16 scale would make 0.5 a
    subnormal are left out: what they could add is under 2^-15.
    """
    import torch

    table = torch.from_numpy(E4M3[:127].copy()).to(w.device)
    levels = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device=w.device)
    edges = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], device=w.device)
    groups = w.float().unflatten(-1, (-1, 16))
    peak = groups.abs().amax(-1)
    base = torch.bucketize(peak / 6 / w_global, table)
    lowest = torch.bucketize(2.0**-13 / w_global, table)
    best = None
    for offset in range(-3, 5):
        code = (base + offset).clamp(max=126).maximum(lowest)
        s = (table[code] * w_global).half().float().unsqueeze(-1)
        index = torch.bucketize(groups.abs() / s, edges)
        value = (levels[index] * s).half().float().copysign(groups)
        error = (value - groups).square().sum(-1)
        if best is None:
            best = (error, code, index, value)
        else:
            take = error < best[0]
            best = (
                torch.where(take, error, best[0]),
                torch.where(take, code, best[1]),
                torch.where(take.unsqueeze(-1), index, best[2]),
                torch.where(take.unsqueeze(-1), value, best[3]),
            )
    _, code, index, value = best
    sign = torch.signbit(groups) & (index > 0)
    value = torch.where(index > 0, value, torch.zeros_like(value))
    codes = (index + 8 * sign).to(torch.uint8).flatten(-2)
    return codes, code.to(torch.uint8), value.flatten(-2)


def global_scale_of(peak):
    """The divisor that maps a tensor's largest magnitude to 6 * 448."""
    return (448.0 * 6.0) / peak.float().clamp(min=1e-12)


def save_quantised(path, state, linears, geometry=GEOMETRY, notes=None):
    """Quantises `linears` of a transformers state dict and writes the file."""
    import torch

    tensors = {}
    for name, value in state.items():
        value = value.detach().float().cpu()
        if name in linears:
            divisor = global_scale_of(value.abs().amax())
            codes, scales, _ = quantise(value, 1.0 / divisor)
            codes = codes.numpy()
            tensors[name + "_packed"] = ("U8", codes[:, 0::2] | (codes[:, 1::2] << 4))
            tensors[name + "_scale"] = ("F8_E4M3", scales.numpy())
            tensors[name + "_global_scale"] = ("F32", divisor.reshape(1).numpy())
        elif name.endswith(("embed_tokens.weight", "conv1d.weight")):
            tensors[name] = ("F16", value.to(torch.float16).numpy())
        else:
            tensors[name] = ("F32", value.numpy())
    metadata = {key: str(value) for key, value in geometry.items()}
    metadata.update(notes or {})
    write_safetensors(path, tensors, metadata)
