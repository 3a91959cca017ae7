#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiled modules in one process: run.py INCLUDE COMPILER

Two shared libraries of these headers, one of headers with another version, one that names no revision; all loaded by one
program, which accepts the first two. Nothing but what was asked for is exported."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

include, compiler = pathlib.Path(sys.argv[1]), sys.argv[2]
here = pathlib.Path(__file__).parent
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    other = folder / "include"
    shutil.copytree(include, other)
    version = other / "ratify/version.hpp"
    version.write_text(re.sub(r"(VERSION_PATCH) (\d+)", lambda m: f"{m[1]} {int(m[2]) + 1}", version.read_text()))

    def build(output, *arguments):
        subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", *arguments, "-o", folder / output, "-lboost_context", "-pthread", "-ldl"],
                       check=True)

    shared = ["-shared", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden", here / "module.cpp"]
    build("first.so", f"-I{include}", "-DWITH_REVISION", *shared)
    build("second.so", f"-I{include}", "-DWITH_REVISION", *shared)
    build("other.so", f"-I{other}", "-DWITH_REVISION", *shared)
    build("none.so", f"-I{include}", *shared)
    build("loader", f"-I{include}", here / "loader.cpp")
    files = [folder / f for f in ("first.so", "other.so", "none.so", "second.so")]
    printed = subprocess.run([folder / "loader", *files], check=True, capture_output=True, text=True).stdout
    symbols = subprocess.run(["nm", "-DC", "--defined-only", folder / "first.so"], check=True, capture_output=True, text=True).stdout
print(printed, end="")
expected = ["silu(1) * 2 = 1.462117", "ratify: the module was compiled for another revision of ratify",
            "ratify: the module exports no ratify_module_revision", "silu(1) * 2 = 1.462117"]
if printed.splitlines() != expected:
    sys.exit(f"expected {expected}")
# Symbols of the library itself; what std:: instantiates over its types is weak and the compiler's own.
leaked = [line for line in symbols.splitlines() if re.match(r"[0-9a-f]+ \w (?:[\w: ]+ )?ratify::", line)]
if leaked:
    sys.exit("exported without being asked:\n" + "\n".join(leaked))
