#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The public headers, included by -I into a project that wants no warning: warnings.py SOURCE_DIR COMPILER...

As C++17, C++20 and C++23: all headers, and a launch of every operation on the host executor, so that templates are
instantiated. Once without exceptions and RTTI, which the host executor alone needs."""
import pathlib
import re
import subprocess
import sys

source, *compilers = sys.argv[1:]
include = pathlib.Path(source, "include")
FLAGS = """-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wold-style-cast -Wundef -Wfloat-equal
-Wdouble-promotion -Wcast-align -Wcast-qual -Wnon-virtual-dtor -Woverloaded-virtual -Wnull-dereference -Wextra-semi
-Wredundant-decls -Wmissing-declarations -Wformat=2 -Wunused -Wzero-as-null-pointer-constant""".split()
OF_COMPILER = {"gcc": ["-Wduplicated-cond", "-Wlogical-op"],
               "clang": ["-Wreserved-identifier", "-Wshorten-64-to-32", "-Wimplicit-fallthrough", "-Wunreachable-code"]}


def public_headers():
    return [str(p.relative_to(include)) for p in sorted((include / "ratify").rglob("*"))
            if p.suffix in (".hpp", ".cuh") and "detail" not in p.parts]


def launches():
    """The source that launches every operation, with the host executor in the card's place."""
    text = pathlib.Path(source, "tests/toolchains/every_operation.cu").read_text()
    changed = text.replace("ratify::cuda_executor", "ratify::host_executor")
    assert changed != text
    # A declaration before the function, or -Wmissing-declarations speaks of the test.
    return "#include <ratify/host.hpp>\nint launch_everything(ratify::host_executor& on);\n" + changed


headers = public_headers()
alone = "".join(f"#include <{h}>\n" for h in headers)
failures = 0
for compiler in compilers:
    macros = subprocess.run([compiler, "-dM", "-E", "-x", "c++", "/dev/null"], check=True, capture_output=True, text=True).stdout
    flags = FLAGS + OF_COMPILER["clang" if "__clang__" in macros else "gcc"]
    builds = [(f"C++{standard[3:]}", [f"-std={standard}", *flags], alone + launches()) for standard in ("c++17", "c++20", "c++2b")]
    builds.append(("no exceptions, no RTTI", ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-Wall"],
                   alone.replace("#include <ratify/host.hpp>\n", "")))
    for what, options, text in builds:
        done = subprocess.run([compiler, "-fsyntax-only", *options, f"-I{include}", "-x", "c++", "-"], input=text,
                              capture_output=True, text=True)
        lines = [line for line in done.stderr.splitlines() if re.search(r"\b(warning|error):", line)]
        print(f"{compiler} {what}: {len(lines)} warnings", flush=True)
        if lines or done.returncode:
            failures += 1
            print(*sorted(set(lines)), sep="\n")
print(f"{len(headers)} headers")
sys.exit(1 if failures or not headers else 0)
