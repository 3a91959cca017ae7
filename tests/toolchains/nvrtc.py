#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every kernel of the policy list with NVRTC and checks the result.

nvrtc.py RATIFY_RUN INCLUDE TOOLKIT [--architectures sm_70,...] [--spread] [--to-ptx] [--fast-math] [--ptx FOLDER]

RATIFY_RUN prints the list (--list --json). TOOLKIT is a folder with nvidia/cuda_nvrtc, nvidia/cuda_runtime and
nvidia/cuda_cccl, as the PyPI wheels unpack. --spread deals each operation's policies out to the architectures, at least one
to each, so that each policy is compiled once or more; what an architecture leaves out is printed. --to-ptx stops before the
assembler, a third of the time; the PTX is read: a kernel without a store is an empty body that would run where a feature is
missing (L3), which is never right. --fast-math compiles with -use_fast_math and refuses PTX that holds an .ftz or an
.approx. --ptx keeps the PTX, one file per architecture and header, with the lowered names of its kernels. Architectures are
compiled at once, one per core."""
import argparse
import collections
import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import time


class Nvrtc:
    def __init__(self, library):
        self.library = ctypes.CDLL(str(library))
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: {self.library.nvrtcGetErrorString(code).decode()}")

    def compile(self, source, names, options):
        """-> (PTX or cubin bytes, log, {name: lowered name}); raises RuntimeError with the log."""
        program = ctypes.c_void_p()
        self.call("nvrtcCreateProgram", ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None)
        try:
            for name in names:
                self.call("nvrtcAddNameExpression", program, name.encode())
            texts = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
            code = self.library.nvrtcCompileProgram(program, len(options), texts)
            log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").decode(errors="replace")
            if code != 0:
                raise RuntimeError(log)
            kind = "PTX" if any("compute_" in o for o in options) else "CUBIN"
            code = self.text(program, f"nvrtcGet{kind}Size", f"nvrtcGet{kind}")
            lowered = {}
            for name in names:
                pointer = ctypes.c_char_p()
                self.call("nvrtcGetLoweredName", program, name.encode(), ctypes.byref(pointer))
                lowered[name] = pointer.value.decode()
            return code, log, lowered
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))

    def text(self, program, size, get):
        n = ctypes.c_size_t()
        self.call(size, program, ctypes.byref(n))
        buffer = ctypes.create_string_buffer(n.value)
        self.call(get, program, buffer)
        return buffer.raw[:n.value].rstrip(b"\0") if size != "nvrtcGetCUBINSize" else buffer.raw


def empty_kernels(ptx, names):
    """Of the kernels named, those whose body is not there, or neither stores nor calls nor ends the kernel where an
    instruction is missing."""
    bodies = dict(re.findall(r"\.entry\s+(\w+)\s*\(.*?\n(\{.*?\n\})", ptx, re.S))
    return [n for n in names if not re.search(r"^\s*(@!?%p\d+ )?(st|red|atom|call|trap)\b", bodies.get(n, ""), re.M)]


def dealt(policies, position, hands):
    """The policies of one architecture, the position-th of so many: of each operation every hands-th, at least one."""
    by_operation = collections.defaultdict(list)
    for policy in policies:
        by_operation[policy["operation"]].append(policy)
    return [p for own in by_operation.values() for p in own[position % min(hands, len(own))::hands]]


def compile_for(architecture, policies, left_out, a):
    """-> (lines that say what is wrong, a line that counts)."""
    nvrtc = Nvrtc(a.toolkit / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    options = ["-std=c++17", f"-I{a.include}", f"-I{a.toolkit}/nvidia/cuda_cccl/include",
               f"-I{a.toolkit}/nvidia/cuda_runtime/include"] + (["-use_fast_math"] if a.fast_math else [])
    target = architecture.replace("sm_", "compute_") if a.to_ptx or a.fast_math or a.ptx else architecture
    by_header = collections.defaultdict(list)
    for policy in policies:
        by_header[policy["header"]] += policy["kernels"]
    begin, kernels, size, wrong = time.time(), 0, 0, []
    for header, names in by_header.items():
        try:
            code, log, lowered = nvrtc.compile(f"#include <{header}>\n", names, [*options, f"-arch={target}"])
        except RuntimeError as error:
            wrong.append(f"{architecture}: {header}: {error}")
            continue
        kernels += len(names)
        size += len(code)
        wrong += [f"{architecture}: {header}: {line}" for line in log.splitlines()
                  if "warning" in line and "deprecated" not in line][:1]
        if target != architecture:
            wrong += [f"L3 {architecture}: {header}: {name} has an empty body"
                      for name in empty_kernels(code.decode(), lowered.values())]
        if a.fast_math:
            bad = sorted({word for word in code.decode().split() if ".ftz" in word or ".approx" in word})
            if bad:
                wrong.append(f"{architecture}: {header}: -use_fast_math reached {', '.join(bad)}")
        if a.ptx:
            stem = header.replace("/", "_").replace(".cuh", "")
            a.ptx.mkdir(parents=True, exist_ok=True)
            (a.ptx / f"{architecture}_{stem}.ptx").write_bytes(code)
            (a.ptx / f"{architecture}_{stem}.json").write_text(json.dumps(lowered, indent=1))
    counted = (f"L3 {architecture}{' -use_fast_math' if a.fast_math else ''}: {kernels} kernels of {len(policies)} policies"
               f"{f', {left_out} left to other architectures' if left_out else ''}, "
               f"{size / 1e6:.1f} MB, {time.time() - begin:.0f} s")
    return wrong, counted


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ratify_run")
    parser.add_argument("include")
    parser.add_argument("toolkit", type=pathlib.Path)
    parser.add_argument("--architectures", default="sm_70,sm_75,sm_80,sm_86,sm_89,sm_90,sm_90a,sm_100,sm_120")
    parser.add_argument("--spread", action="store_true")
    parser.add_argument("--to-ptx", action="store_true")
    parser.add_argument("--fast-math", action="store_true")
    parser.add_argument("--ptx", type=pathlib.Path)
    a = parser.parse_args()

    built = json.loads(subprocess.run([a.ratify_run, "--list", "--json"], check=True, capture_output=True, text=True).stdout)
    architectures = a.architectures.split(",")
    failures = 0
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count()) as pool:
        runs = []
        for i, architecture in enumerate(architectures):
            own = dealt(built, i, len(architectures)) if a.spread else built
            runs.append(pool.submit(compile_for, architecture, own, len(built) - len(own), a))
        for run in runs:
            wrong, counted = run.result()
            failures += len(wrong)
            print(*wrong, counted, sep="\n", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
