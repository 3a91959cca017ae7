#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wrong policy must not compile, and must say why: compile_fail.py INCLUDE_DIR COMPILER [FLAGS ...]

Every wrong use of every knob of every operation is generated from the knob lists themselves (a program prints them): an
argument that is no knob, a knob of another operation, one given twice, a value of another type, an enumerator that does
not exist, a value or a format that is not accepted. compile_fail/*.txt adds rules over several knobs, a line each:
TYPE -> TEXT. All cases are compiled as one file; each must give one failed static_assert with exactly its text, and
nothing else may fail. The same file without the wrong lines must compile without a message."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

include, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
here = pathlib.Path(__file__).resolve().parent


def operations():
    """-> {operation: header} of every RATIFY_DEFINE_POLICY."""
    found = {}
    for path in sorted((include / "ratify").glob("*_policy.hpp")):
        for name, header in re.findall(r'RATIFY_DEFINE_POLICY\(\s*(\w+),\s*\w+,\s*"([^"]+)"', path.read_text()):
            found[name] = header
    return found


def knob_lists(found, folder):
    """-> {operation: [knob]}, printed by a program that reads the lists through the public description."""
    lines = ["#include <ratify/ratify.cuh>", "#include <ratify/describe.hpp>", "#include <cstdio>",
             "template <class Policy> void print(char const* operation) {",
             "  for (ratify::knob_setting const& k : ratify::knob_settings<Policy>())",
             '    std::printf("%s\\t%s\\t%s\\t%s\\t%d%d\\n", operation, k.name.c_str(), k.source.c_str(), k.accepted.c_str(),',
             "                k.is_format, k.is_number);", "}", "int main() {"]
    lines += [f'  print<ratify::{name}_policy<>>("{name}");' for name in found] + ["}"]
    source, program = folder / "knobs.cpp", folder / "knobs"
    source.write_text("\n".join(lines))
    subprocess.run(["g++", "-std=c++17", f"-I{include}", source, "-o", program], check=True)
    lists = {name: [] for name in found}
    for line in subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines():
        operation, name, source, accepted, kind = line.split("\t")
        kind = {"10": "format", "01": "number"}.get(kind, "flag" if source in ("true", "false") else "choice")
        lists[operation].append({"name": name, "source": source, "accepted": accepted, "kind": kind})
    return lists


def cases_of(operation, knobs, every):
    """-> [(template arguments, expected text)]"""
    names = " ".join(k["name"] for k in knobs)
    prefix = f"ratify::{operation}: "
    foreign = next(k for k in every if k["name"] not in names.split())
    cases = [("int", f"{prefix}a template argument is not a knob; the knobs are {names}"),
             (f"ratify::{foreign['name']}<{foreign['source']}>", f"{prefix}{foreign['name']} is not one of its knobs: {names}")]
    for k in knobs:
        given = f"ratify::{k['name']}<{{}}>"
        right, accepted = given.format(k["source"]), k["accepted"]
        must = f"{prefix}{k['name']} must be "
        cases.append((f"{right}, {right}", f"{prefix}{k['name']} is given more than once"))
        if k["kind"] == "format":
            cases.append((given.format("double"), must + accepted))
        elif k["kind"] == "number":
            cases += [(given.format("16u"), f"{must}an int: {accepted}"), (given.format("true"), f"{must}an int: {accepted}"),
                      (given.format("-1"), must + accepted)]
        elif k["kind"] == "flag":
            cases.append((given.format("1"), f"{must}a bool: true or false"))
        else:
            enumeration = k["source"].rsplit("::", 1)[0]
            cases += [(given.format("0"), f"{must}a {enumeration}: {accepted}"),
                      (given.format(f"static_cast<{enumeration}>(99)"), must + accepted)]
    return cases


def compile_cases(types, folder, name):
    source = folder / f"{name}.cpp"
    source.write_text("#include <ratify/ratify.cuh>\n" +
                      "\n".join(f"using case_{i} = {t}::params;" for i, t in enumerate(types)) + "\n")
    if "nvcc" in pathlib.Path(compiler).name:
        command = [compiler, "-std=c++17", "-x", "cu", "-cuda", "-Xcudafe", "--error_limit=5000", "-o", os.devnull]
    elif "clang" in pathlib.Path(compiler).name:
        command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-ferror-limit=0"]
    else:
        command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra"]
    done = subprocess.run([*command, *flags, f"-I{include}", source], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lists = knob_lists(operations(), folder)
        every = [k for knobs in lists.values() for k in knobs]
        cases = [(f"ratify::{operation}<{arguments}>", text) for operation, knobs in lists.items()
                 for arguments, text in cases_of(operation, knobs, every)]
        for path in sorted((here / "compile_fail").glob("*.txt")):
            cases += [tuple(part.strip() for part in line.split("->", 1)) for line in path.read_text().splitlines()
                      if line and not line.startswith("#")]
        failures = []
        good = [f"ratify::{operation}<>" for operation in lists] + \
               [f"ratify::{operation}<ratify::{k['name']}<{k['source']}>>" for operation, knobs in lists.items() for k in knobs]
        code, output = compile_cases(good, folder, "right")
        if code != 0 or output.strip():
            failures.append("right policies do not compile in silence:\n" + output)
        code, output = compile_cases([t for t, _ in cases], folder, "wrong")
        errors = [line for line in output.splitlines() if re.search(r"\berror\b:", line)]
        unexpected = list(errors)
        for wrong, text in cases:
            found = next((e for e in unexpected if re.search(r"static.assert\w*", e) and re.search(re.escape(text) + r'"?\s*$', e)), None)
            if found is None:
                failures.append(f"{wrong}: no error says: {text}")
            else:
                unexpected.remove(found)
        failures += [f"unexpected: {e}" for e in unexpected]
        print(*failures[:40], f"{len(cases)} wrong and {len(good)} right policies with {compiler}: {len(failures)} failures", sep="\n")
        return 1 if failures or code == 0 else 0


sys.exit(main())
