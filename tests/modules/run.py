#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiled modules in one process: run.py INCLUDE COMPILER CMAKE

Two shared libraries of these headers, one of headers with another version, one of headers of this version with other
contents, one that names no revision; all loaded by one program, which accepts the first two. Nothing but what was asked for
is exported."""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

include, compiler, cmake = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3]
here = pathlib.Path(__file__).parent
SHARED = ["-shared", "-fPIC", "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
REVISION_ALONE = "#include <ratify/revision.hpp>\nRATIFY_EXPORT_REVISION\n"
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)

    def build(output, *arguments, text=None):
        subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", *arguments, "-o", folder / output, "-lboost_context", "-pthread", "-ldl"],
                       check=True, input=text, text=True)

    def build_changed(output, header, change):
        """A module of headers of which one was changed, as its author leaves them."""
        tree = folder / output.replace(".so", "")
        shutil.copytree(include, tree)
        path = tree / "ratify" / header
        before = path.read_text()
        path.write_text(change(before))
        assert path.read_text() != before, f"{header} was not changed"
        subprocess.run([cmake, f"-DHEADERS={tree / 'ratify'}", "-P", here.parent.parent / "cmake/header_digest.cmake"], check=True)
        build(output, f"-I{tree}", *SHARED, "-x", "c++", "-", text=REVISION_ALONE)

    build("first.so", f"-I{include}", "-DWITH_REVISION", *SHARED, here / "module.cpp")
    build("second.so", f"-I{include}", "-DWITH_REVISION", *SHARED, here / "module.cpp")
    build_changed("version.so", "version.hpp", lambda text: re.sub(r"(VERSION_PATCH) (\d+)", lambda m: f"{m[1]} {int(m[2]) + 1}", text))
    build_changed("contents.so", "numeric.hpp", lambda text: text + "// Another sum.\n")
    build("none.so", *SHARED, "-x", "c++", "-", text="")
    build("loader", f"-I{include}", here / "loader.cpp")
    files = [folder / f for f in ("first.so", "version.so", "contents.so", "none.so", "second.so")]
    printed = subprocess.run([folder / "loader", *files], check=True, capture_output=True, text=True).stdout
    symbols = subprocess.run(["nm", "-DC", "--defined-only", folder / "first.so"], check=True, capture_output=True, text=True).stdout
print(printed, end="")
expected = ["silu(1) * 2 = 1.462117", "ratify: the module was compiled for another revision of ratify",
            "ratify: the module was compiled for another revision of ratify", "ratify: the module exports no ratify_module_revision", "silu(1) * 2 = 1.462117"]
if printed.splitlines() != expected:
    sys.exit(f"expected {expected}")
# Symbols of the library itself; what std:: instantiates over its types is weak and the compiler's own.
leaked = [line for line in symbols.splitlines() if re.match(r"[0-9a-f]+ \w (?:[\w: ]+ )?ratify::", line)]
if leaked:
    sys.exit("exported without being asked:\n" + "\n".join(leaked))
