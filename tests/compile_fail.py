#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Misuse must not compile, and must say why: compile_fail.py FILE INCLUDE_DIR COMPILER [FLAGS ...]
                                              compile_fail.py --coverage FOLDER INCLUDE_DIR

A file holds cases: `#if RATIFY_CASE == 0`, then `#elif RATIFY_CASE == 1`, 2, ... each with `// EXPECT: text` on the next
line. Case 0 compiles; every other is compiled alone, and its first error must be a failed static_assert with that text.
Coverage: every text of a RATIFY_..._RULES list (compile-time rules) has a case."""
import os
import pathlib
import re
import subprocess
import sys

CASE = re.compile(r"^#(?:if|elif) RATIFY_CASE == (\d+)(?:\s*// EXPECT: (.*))?$", re.M)


def cases_of(path):
    found = CASE.findall(path.read_text())
    if [int(number) for number, _ in found] != list(range(len(found))) or len(found) < 2 or found[0][1]:
        sys.exit(f"{path}: cases must be 0 (which compiles), 1, 2, ... each with // EXPECT: text")
    if not all(text for _, text in found[1:]):
        sys.exit(f"{path}: a case without // EXPECT: text")
    return [text.strip() for _, text in found]


def check(path, include, compiler, flags):
    nvcc = "nvcc" in pathlib.Path(compiler).name
    base = ["-std=c++17", "-x", "cu", "-cuda", "-o", os.devnull] if nvcc else ["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra"]
    failures = 0
    expected = cases_of(path)
    for number, text in enumerate(expected):
        command = [compiler, *base, *flags, f"-I{include}", f"-DRATIFY_CASE={number}", str(path)]
        done = subprocess.run(command, capture_output=True, text=True)
        output = done.stdout + done.stderr
        if number == 0:
            good = done.returncode == 0 and not output.strip()
        else:
            first = next((line for line in output.splitlines() if re.search(r"\berror\b", line)), "no error")
            good = done.returncode != 0 and "static assertion failed" in first and text in first
        if not good:
            failures += 1
            print(f"{path}, case {number}, expected {text or 'to compile'}; got\n{output}")
    print(f"{path.name}: {len(expected) - failures} of {len(expected)} cases as expected with {compiler}")
    return failures


def coverage(folder, include):
    expected = [text for path in sorted(folder.glob("*.cpp")) for text in cases_of(path)[1:]]
    failures = rules = 0
    for header in sorted(include.rglob("*.cuh")):
        text = header.read_text().replace("\\\n", "\n")
        for match in re.finditer(r"#define RATIFY_(\w+)_RULES\(RULE\)(.*?)(?=\n#|\nRATIFY_|\n\n)", text, re.S):
            if match.group(1).endswith("_LAUNCH"):
                continue
            for literals in re.findall(r'"(?:[^"\\]|\\.)*"(?:\s*"(?:[^"\\]|\\.)*")*', match.group(2)):
                rule = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals))
                rules += 1
                if not any(rule.startswith(e) and len(e) >= min(len(rule), 40) for e in expected):
                    failures += 1
                    print(f"{header}: no case in {folder} expects: {rule}")
    print(f"{rules - failures} of {rules} compile-time rules have a case")
    return failures if rules else 1


if sys.argv[1] == "--coverage":
    sys.exit(1 if coverage(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])) else 0)
sys.exit(1 if check(pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]) else 0)
