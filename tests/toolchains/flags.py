#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds bits.cpp with many compilers and flags; every build must print the same digests.

flags.py SOURCE INCLUDE COMPILER [COMPILER ...]      -ffast-math itself must be refused, with the reason."""
import pathlib
import subprocess
import sys
import tempfile

source, include, *compilers = sys.argv[1:]
flags = ["-std=c++17 -O1", "-std=c++20 -O2", "-std=c++17 -O3 -march=native", "-std=c++17 -O2 -mfma -ffp-contract=fast",
         "-std=c++17 -O2 -funsafe-math-optimizations", "-std=c++17 -O0"]
digests = {}
failed = False
with tempfile.TemporaryDirectory() as folder:
    program = pathlib.Path(folder, "bits")
    for compiler in compilers:
        for f in flags:
            # clang marks each operation with the liberties of -funsafe-math-optimizations: outside the promise.
            if "unsafe" in f and "clang" in compiler or f.endswith("-O0") and compiler != compilers[0]:
                continue
            subprocess.run([compiler, *f.split(), f"-I{include}", source, "-o", program, "-lboost_context", "-pthread"], check=True)
            printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
            digests.setdefault(printed, []).append(f"{pathlib.Path(compiler).name} {f}")
        refused = subprocess.run([compiler, "-std=c++17", "-ffast-math", f"-I{include}", "-fsyntax-only", source], capture_output=True, text=True)
        if refused.returncode == 0 or "ratify: ordered results need IEEE arithmetic" not in refused.stderr:
            print(f"{compiler} -ffast-math is not refused")
            failed = True
for printed, builds in digests.items():
    print(f"{len(builds)} builds: {'; '.join(builds)}\n{printed}")
sys.exit(1 if failed or len(digests) != 1 else 0)
