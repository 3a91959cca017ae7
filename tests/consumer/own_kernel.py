#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A kernel of a user's own, local to its file, compiled by nvcc without a warning: own_kernel.py SOURCE_DIR NVCC

As relocatable device code, two objects with a kernel of the same name in one program, and as a whole program. Skipped
without nvcc (exit 77), or failed where RATIFY_NO_SKIP is set."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

source, nvcc = sys.argv[1:]
if (nvcc := shutil.which(nvcc)) is None:
    print("skipped: nvcc is not here")
    sys.exit(1 if os.environ.get("RATIFY_NO_SKIP") else 77)
MAIN = "bool first();\nbool second();\nint main() { bool const a = first(), b = second(); return a && b ? 0 : 1; }\n"
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "main.cpp").write_text(MAIN)
    for mode, parts in (("-rdc=true", ("first", "second")), ("-rdc=false", ("first",))):
        common = [nvcc, "-std=c++17", "-arch=sm_90", mode, "-Werror", "all-warnings", "-Xcompiler=-Wall,-Wextra,-Werror"]
        for value, part in enumerate(parts, 1):
            subprocess.run([*common, f"-I{source}/include", f"-DRATIFY_PART={part}", f"-DRATIFY_VALUE={value}", "-c",
                            f"{source}/tests/consumer/own_kernel.cu", "-o", folder / f"{part}.o"], check=True)
        if len(parts) == 2:
            subprocess.run([*common, folder / "main.cpp", folder / "first.o", folder / "second.o", "-o", folder / "program",
                            "-lboost_context", "-lpthread"], check=True)
            subprocess.run([folder / "program"], check=True)
        print(f"{mode}: compiled without a warning", flush=True)
