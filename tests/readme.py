#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs the C++ program of a Markdown file: readme.py FILE INCLUDE_DIR COMPILER EXPECTED_OUTPUT"""
import pathlib
import re
import subprocess
import sys
import tempfile

document, include, compiler, expected = sys.argv[1:5]
programs = re.findall(r"```cpp\n(.*?)```", pathlib.Path(document).read_text(), re.S)
if len(programs) != 1:
    sys.exit(f"{document} holds {len(programs)} C++ blocks, expected one program")
with tempfile.TemporaryDirectory() as folder:
    source, program = pathlib.Path(folder, "readme.cpp"), pathlib.Path(folder, "readme")
    source.write_text(programs[0])
    subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", f"-I{include}", source, "-o", program, "-lboost_context", "-pthread"], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout.strip()
print(printed)
if printed != expected:
    sys.exit(f"expected: {expected}")
