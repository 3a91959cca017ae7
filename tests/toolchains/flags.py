#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds bits.cpp and operations.cpp with many compilers and flags; every build must print the digests of bits.txt or
operations.txt, which hold from release to release.

flags.py BITS INCLUDE COMPILER [COMPILER ...]      Flags that break a promise must be refused, with the reason."""
import pathlib
import subprocess
import sys
import tempfile

bits, include, *compilers = sys.argv[1:]
operations = str(pathlib.Path(bits).with_name("operations.cpp"))
BITS = ["-std=c++17 -O1", "-std=c++20 -O2", "-std=c++17 -O3 -march=native", "-std=c++17 -O2 -mfma -ffp-contract=fast",
        "-std=c++17 -O2 -funsafe-math-optimizations", "-std=c++17 -O0"]
# What single operations are built with beside those: each liberty alone, and where a compiler unrolls.
OPERATIONS = BITS + ["-std=c++17 -O3 -funsafe-math-optimizations", "-std=c++17 -O3 -freciprocal-math",
                     "-std=c++17 -O2 -fno-signed-zeros -fno-trapping-math", "-std=c++17 -O2 -frounding-math"]
REFUSED = [("-ffast-math", "ratify: ordered results need IEEE arithmetic; compile without -ffast-math"),
           ("-Ofast", "ratify: ordered results need IEEE arithmetic; compile without -ffast-math"),
           ("-ffinite-math-only", "ratify: NaN and infinity are data here; compile without -ffinite-math-only"),
           ("-O2 -ffinite-math-only -fno-signed-zeros", "compile without -ffinite-math-only")]


def splits_fma(compiler):
    """clang before 19 (14 does, those between are not tested) takes an FMA apart under -fassociative-math."""
    macros = subprocess.run([compiler, "-dM", "-E", "-x", "c++", "/dev/null"], check=True, capture_output=True, text=True).stdout
    version = [int(line.split()[2]) for line in macros.splitlines() if line.startswith("#define __clang_major__ ")]
    return bool(version) and version[0] < 19


failed = False
with tempfile.TemporaryDirectory() as folder:
    program = pathlib.Path(folder, "program")
    for source, flags in ((operations, OPERATIONS), (bits, BITS)):
        digests = {}
        for compiler in compilers:
            for f in flags:
                if "unsafe" in f and splits_fma(compiler) or source == bits and f.endswith("-O0") and compiler != compilers[0]:
                    continue
                subprocess.run([compiler, *f.split(), f"-I{include}", source, "-o", program, "-lboost_context", "-pthread"], check=True)
                printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
                digests.setdefault(printed, []).append(f"{pathlib.Path(compiler).name} {f}")
        for printed, builds in digests.items():
            print(f"{len(builds)} builds: {'; '.join(builds)}\n{printed}", flush=True)
        failed |= len(digests) != 1
        # Who moves bits on purpose says so and writes the file anew.
        if (old := pathlib.Path(source).with_suffix(".txt").read_text()) not in digests:
            print(f"the digests are not those of earlier releases:\n{old}")
            failed = True
    for compiler in compilers:
        for f, reason in REFUSED:
            done = subprocess.run([compiler, "-std=c++17", *f.split(), f"-I{include}", "-fsyntax-only", operations],
                                  capture_output=True, text=True)
            errors = [line for line in done.stderr.splitlines() if "error:" in line]
            if done.returncode == 0 or len(errors) != 1 or reason not in errors[0]:
                print(f"{compiler} {f} is not refused by one line that says '{reason}':\n{done.stderr}")
                failed = True
sys.exit(1 if failed else 0)
