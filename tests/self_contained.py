#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each header alone, included twice, compiles without a warning: self_contained.py INCLUDE_DIR COMPILER [FLAGS ...]

COMPILER is g++, clang++ or nvcc. Prints what failed and how many headers compiled."""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

include, compiler, *flags = sys.argv[1:]
nvcc = "nvcc" in pathlib.Path(compiler).name
root = pathlib.Path(include)
headers = sorted(str(p.relative_to(root)) for p in (root / "ratify").rglob("*") if p.suffix in (".hpp", ".cuh"))


def compile_alone(header):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "alone.cu" if nvcc else "alone.cpp")
        source.write_text(f"#include <{header}>\n#include <{header}>\nint main() {{}}\n")
        base = (["-std=c++17", "-Werror", "all-warnings", "-cuda", "-o", os.devnull] if nvcc else
                ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        command = [compiler, *base, *flags, f"-I{include}", str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        return header, done.returncode, done.stdout + done.stderr


with concurrent.futures.ThreadPoolExecutor(2) as pool:
    failed = [(header, text) for header, code, text in pool.map(compile_alone, headers) if code != 0]
for header, text in failed:
    print(f"{header} does not compile alone:\n{text}")
print(f"{len(headers) - len(failed)} of {len(headers)} headers compile alone with {compiler}")
sys.exit(1 if failed or not headers else 0)
