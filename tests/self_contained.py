#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""L2: each header alone, included twice, compiles without a warning, and as C++14 says in its first line what it needs.

self_contained.py INCLUDE_DIR COMPILER [TOOLKIT]

COMPILER g++, clang++ or nvcc, or with a TOOLKIT `nvrtc`, the library in TOOLKIT/nvidia (the PyPI wheels, unpacked), which
has only the toolkit's headers: each header alone as C++17. All headers together, for which one compilation is enough: g++
and clang++ as C++20, nvcc as C++20 after the toolkit's half headers with conversions and operators switched off, and with
a TOOLKIT clang++ as the compiler for a card, out of that CUDA folder. Prints what failed and how many headers compiled."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

include, compiler, *toolkit = sys.argv[1:]
root = pathlib.Path(include)
headers = sorted(str(p.relative_to(root)) for p in (root / "ratify").rglob("*") if p.suffix in (".hpp", ".cuh"))

# The host executor and what it is made of, and policies as texts: CPU code that NVRTC never sees.
HOST_ALONE = {"ratify/host.hpp", "ratify/describe.hpp", "ratify/detail/machine/host_block.hpp", "ratify/detail/machine/fiber_pool.hpp",
              "ratify/detail/machine/block_scopes.hpp", "ratify/detail/machine/host_copies.hpp",
              "ratify/detail/machine/host_lanes.hpp", "ratify/detail/machine/matrix_model.hpp",
              "ratify/detail/machine/sanitizer.hpp", "ratify/detail/machine/floating_environment.hpp"}
NO_HALF = [f"-D__CUDA_NO_{what}__" for what in (
    "HALF_CONVERSIONS", "HALF_OPERATORS", "HALF2_OPERATORS", "BFLOAT16_CONVERSIONS", "BFLOAT16_OPERATORS",
    "BFLOAT162_OPERATORS", "FP8_CONVERSIONS", "FP8_CONVERSION_OPERATORS")]
HALF_HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda_fp8.h>\n"


ALONE, TOGETHER = "alone", "together"


def modes():
    """-> (what it is, ALONE or TOGETHER, function from a source text to (exit code, log)) of each way to compile."""
    def program(suffix, command, prefix=""):
        def compile(text):
            with tempfile.TemporaryDirectory() as folder:
                source = pathlib.Path(folder, "alone" + suffix)
                source.write_text(prefix + text)
                done = subprocess.run([*command, f"-I{include}", str(source)], capture_output=True, text=True)
                return done.returncode, done.stdout + done.stderr
        return compile

    name = pathlib.Path(compiler).name
    if name == "nvrtc":
        sys.path.insert(0, str(pathlib.Path(__file__).parent / "toolchains"))
        from nvrtc import Nvrtc
        nvidia = pathlib.Path(toolkit[0], "nvidia")
        nvrtc = Nvrtc(nvidia / "cuda_nvrtc/lib/libnvrtc.so.12")
        options = ["-std=c++17", "-arch=compute_90", f"-I{include}", f"-I{nvidia}/cuda_cccl/include",
                   f"-I{nvidia}/cuda_runtime/include"]

        def compile(text):
            try:
                log = nvrtc.compile(text, [], options)[1]
            except RuntimeError as error:
                return 1, str(error)
            return "warning" in log, log
        return [("NVRTC", ALONE, compile)]
    if name.startswith("nvcc"):
        base = [compiler, "-Werror", "all-warnings", "-cuda", "-o", os.devnull]
        return [("nvcc C++17", ALONE, program(".cu", [*base, "-std=c++17"])),
                ("nvcc C++20, no half conversions", TOGETHER, program(".cu", [*base, "-std=c++20", *NO_HALF], HALF_HEADERS))]
    base = [compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    if toolkit:
        base += ["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_90", f"--cuda-path={toolkit[0]}", "-nocudalib",
                 "-Wno-unknown-cuda-version", "-std=c++17"]
        return [(f"{name} as CUDA compiler", TOGETHER, program(".cu", base))]
    return [(f"{name} C++17", ALONE, program(".cpp", [*base, "-std=c++17"])),
            (f"{name} C++20", TOGETHER, program(".cpp", [*base, "-std=c++20"]))]


def refusals_of_older_standards():
    """-> how many headers an older standard does not refuse in the first line of a short log."""
    command = [compiler, "-fsyntax-only", f"-I{include}", "-x", "c++", "-"]
    failures = 0
    mine = [h for h in headers if h not in ("ratify/version.hpp", "ratify/detail/header_digest.hpp")]  # macros alone
    for standard in ("c++11", "c++14"):
        for header in mine:
            log = subprocess.run([*command, f"-std={standard}"], input=f"#include <{header}>\n",
                                 capture_output=True, text=True).stderr
            errors = [line for line in log.splitlines() if "error:" in line]
            if len(errors) != 2 or "ratify needs C++17: compile with -std=c++17 or newer" not in errors[0]:
                print(f"L2 {standard}: {header} says:\n{log}")
                failures += 1
    print(f"L2 C++11 and C++14: {len(mine)} headers, {failures} without the line that says what is needed", flush=True)
    return failures


def each_or_all(mine, how):
    """-> {name: source text}"""
    include = {h: f"#include <{h}>\n" for h in mine}
    return {h: 2 * text for h, text in include.items()} if how == ALONE else {"all headers": "".join(include.values())}


failures = 0
if not toolkit and not pathlib.Path(compiler).name.startswith("nvcc"):
    failures += refusals_of_older_standards()
for what, how, compile in modes():
    mine = [h for h in headers if not (what == "NVRTC" and h in HOST_ALONE)]
    sources = each_or_all(mine, how)
    with concurrent.futures.ThreadPoolExecutor(1 if what == "NVRTC" else os.cpu_count()) as pool:
        done = list(zip(sources, pool.map(compile, sources.values())))
    wrong = [(name, log) for name, (code, log) in done if code]
    for name, log in wrong:
        print(f"L2 {what}: {name} does not compile {how}:\n{log}")
    print(f"L2 {what}: {len(sources) - len(wrong)} of {len(sources)} compile"
          f"{f', {len(mine)} headers' if how == TOGETHER else ' alone'}", flush=True)
    failures += len(wrong) or not mine
sys.exit(1 if failures else 0)
