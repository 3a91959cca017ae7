#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every C++ block of Markdown files, each as a translation unit: snippets.py INCLUDE COMPILER FILE ..."""
import pathlib
import re
import subprocess
import sys

include, compiler, *documents = sys.argv[1:]
count = 0
for document in documents:
    for block in re.findall(r"```cpp\n(.*?)```", pathlib.Path(document).read_text(), re.S):
        subprocess.run([compiler, "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-fsyntax-only", "-xc++", "-"],
                       input=block, text=True, check=True)
        count += 1
print(f"{count} blocks compiled")
sys.exit(0 if count else f"no C++ block in {documents}")
