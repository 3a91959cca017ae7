#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a program with a planted fault, or its correct variant, and judges what it reports.

expect.py clean PROGRAM ARGS...                 passes if it exits 0 and no checker reports anything
expect.py fault TEXT SOURCE TAG PROGRAM ARGS... passes if its exit status is not 0 and its output matches the regular expression
                                                TEXT and names every line of SOURCE that ends with `planted: ... TAG ...`
expect.py missing WHAT                          is skipped, because WHAT is not installed (fails if RATIFY_NO_SKIP is set)
"""
import os
import pathlib
import re
import subprocess
import sys


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    return done.returncode, done.stdout.decode(errors="replace")


def fault_of(mode, arguments):
    """-> (what is wrong or None, the program's output)"""
    if mode == "clean":
        status, output = run(arguments)
        if status != 0:
            return f"exit status {status}", output
        if re.search(r"WARNING: ThreadSanitizer|ERROR: \w+Sanitizer|runtime error:", output):
            return "a report about correct code", output
        return None, output
    text, source, tag, *command = arguments
    lines = [n for n, line in enumerate(pathlib.Path(source).read_text().splitlines(), 1)
             if tag in line.partition("// planted:")[2].split()]
    status, output = run(command)
    if status == 0:
        return "exit status 0: the fault was not noticed", output
    if not re.search(text, output):
        return f"no report that matches {text}", output
    name = pathlib.Path(source).name
    for n in lines:
        if not re.search(rf"{re.escape(name)}:{n}\b", output):
            return f"the report does not name {name}:{n}", output
    return None, output


def main():
    mode, *arguments = sys.argv[1:]
    if mode == "missing":
        print(f"skipped: {arguments[0]} is not here")
        return 1 if os.environ.get("RATIFY_NO_SKIP") else 77
    fault, output = fault_of(mode, arguments)
    if fault is None:
        print("as expected")
        return 0
    print(output)
    print(f"{' '.join(arguments)}: {fault}")
    return 1


sys.exit(main())
