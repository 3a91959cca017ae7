#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wrong policy must not compile, and must say why: compile_fail.py INCLUDE_DIR COMPILER [FLAGS ...]

COMPILER is g++, clang++ or nvcc, or `nvrtc`, after which the one flag is the folder of the toolkit (toolchains/toolkit.sh).

Every wrong use of every knob of every operation is generated from the knob lists themselves (a program prints them): an
argument that is no knob, that is a qualified, referenced or derived one, a knob of another operation, one given twice, a value
of another type, an enumerator that does not exist, a value or a format that is not accepted. compile_fail/*.txt adds rules over
several knobs, a line each: TYPE -> TEXT. All cases of a file are compiled at once; each must give one failed static_assert with
exactly its text, and nothing else may fail, whichever way the policy is named (WAYS, with which the cases take turns). The same
file without the wrong lines, in which is_supported_NAME tells right from wrong, must compile without a message."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

include, compiler, flags = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
here = pathlib.Path(__file__).resolve().parent
kind = pathlib.Path(compiler).name

# How a program can come to a policy: OP is the operation, ARGS are the knobs, I is the number of the case.
WAYS = ["using case_I = ratify::OP<ARGS>::params;", "inline ratify::OP_policy<ARGS> case_I{};",
        "constexpr auto case_I = sizeof(ratify::OP_policy<ARGS>);", "inline auto case_I = ratify::describe<ratify::OP_policy<ARGS>>();",
        "constexpr auto case_I = sizeof(ratify::policy<ratify::OP_knobs, ARGS>);"]
WAYS_OF_NVRTC = ["using case_I = ratify::OP_policy<ARGS>;"]
ERRORS_OF_NVRTC = 90  # It stops at 100.


def operations():
    """-> {operation: header} of every RATIFY_DEFINE_POLICY."""
    found = {}
    for path in sorted((include / "ratify").glob("*_policy.hpp")):
        text = path.read_text()
        own = re.findall(r'RATIFY_DEFINE_POLICY(?:_WITH_RULES)?\(\s*(\w+),[\s\w,]*"([^"]+)"', text)
        assert len(own) == text.count("RATIFY_DEFINE_POLICY"), f"{path}: a list is not found"
        found.update(own)
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
    no_knob = f"{prefix}a template argument is not a knob, or is const, volatile, a reference or derived from one; the knobs are {names}"
    cases = [("int", no_knob),
             (f"ratify::{foreign['name']}<{foreign['source']}>", f"{prefix}{foreign['name']} is not one of its knobs: {names}")]
    for k in knobs:
        given = f"ratify::{k['name']}<{{}}>"
        right, accepted = given.format(k["source"]), k["accepted"]
        must = f"{prefix}{k['name']} must be "
        cases += [(wrong, no_knob) for wrong in (f"{right} const", f"{right} volatile", f"{right} const&", f"derived<{right}>")]
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


def compile_with_nvrtc(text):
    sys.path.insert(0, str(here / "toolchains"))
    from nvrtc import Nvrtc
    nvidia = pathlib.Path(flags[0], "nvidia")
    options = ["-std=c++17", "-arch=compute_90", f"-I{include}", f"-I{nvidia}/cuda_cccl/include", f"-I{nvidia}/cuda_runtime/include"]
    try:
        return 0, Nvrtc(nvidia / "cuda_nvrtc/lib/libnvrtc.so.12").compile(text, [], options)[1]
    except RuntimeError as error:
        return 1, str(error)


def compile_lines(lines, folder):
    """-> (exit code, messages)"""
    headers = ["ratify.cuh"] if kind == "nvrtc" else ["ratify.cuh", "describe.hpp"]
    text = "\n".join([f"#include <ratify/{h}>" for h in headers] + ["template <class Knob> struct derived : Knob {};", *lines, ""])
    if kind == "nvrtc":
        return compile_with_nvrtc(text)
    source = folder / "cases.cpp"
    source.write_text(text)
    if "nvcc" in kind:
        command = [compiler, "-std=c++17", "-x", "cu", "-cuda", "-Xcudafe", "--error_limit=5000", "-o", os.devnull]
    else:
        command = [compiler, "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra"]
        command += ["-ferror-limit=0"] if "clang" in kind else []
    done = subprocess.run([*command, *flags, f"-I{include}", source], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def spelt(way, operation, arguments, number):
    return re.sub("OP|ARGS|I", lambda m: {"OP": operation, "ARGS": arguments, "I": str(number)}[m[0]], way)


def check_wrong(cases, ways, folder):
    """-> what is wrong if the cases take turns with the ways"""
    code, output = compile_lines([spelt(ways[i % len(ways)], *case[:2], i) for i, case in enumerate(cases)], folder)
    unexpected = [line for line in output.splitlines() if re.search(r"\berror\b:", line)]
    failures = []
    for operation, arguments, text in cases:
        found = next((e for e in unexpected if re.search(r"static.assert\w*", e) and re.search(re.escape(text) + r'"?\s*$', e)), None)
        if found is None:
            failures.append(f"{ways}: {operation}<{arguments}>: no error says: {text}")
        else:
            unexpected.remove(found)
    return failures + [f"{ways}: unexpected: {e}" for e in unexpected] + ([] if code else [f"{ways}: compiles"])


def check_right(cases, right, folder):
    lines = [f"static_assert(!ratify::is_supported_{operation}<{arguments}>);" for operation, arguments, _ in cases]
    for i, (operation, arguments) in enumerate(right):
        lines += [f"static_assert(ratify::is_supported_{operation}<{arguments}>);"]
        lines += [spelt(WAYS_OF_NVRTC[0] if kind == "nvrtc" else WAYS[0], operation, arguments, i)]
    code, output = compile_lines(lines, folder)
    return ["right policies do not compile in silence:\n" + output] if code != 0 or output.strip() else []


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lists = knob_lists(operations(), folder)
        every = [k for knobs in lists.values() for k in knobs]
        cases = [(operation, *case) for operation, knobs in lists.items() for case in cases_of(operation, knobs, every)]
        for path in sorted((here / "compile_fail").glob("*.txt")):
            cases += re.findall(r"^ratify::(\w+)<(.*)> -> (.*)$", path.read_text(), re.M)
        right = [(operation, "") for operation in lists] + \
                [(operation, f"ratify::{k['name']}<{k['source']}>") for operation, knobs in lists.items() for k in knobs]
        failures = check_right(cases, right, folder)
        if kind == "nvrtc":
            for i in range(0, len(cases), ERRORS_OF_NVRTC):
                failures += check_wrong(cases[i:i + ERRORS_OF_NVRTC], WAYS_OF_NVRTC, folder)
        else:
            for ways in [WAYS] if "nvcc" in kind else [WAYS[:1], WAYS[1:]]:
                failures += check_wrong(cases, ways, folder)
        print(*failures[:40], f"{len(cases)} wrong and {len(right)} right policies with {compiler}: {len(failures)} failures", sep="\n")
        return 1 if failures else 0


sys.exit(main())
