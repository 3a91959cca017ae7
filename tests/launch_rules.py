#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every launch rule has a test that expects its text: launch_rules.py INCLUDE_DIR TESTS_DIR

The texts come from the rule lists themselves (a program prints them); a test expects one by writing it out, as the
helpers of tests/support/refusal.hpp take it."""
import pathlib
import re
import subprocess
import sys
import tempfile

include, tests = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])

headers, lists = [], []
for path in sorted((include / "ratify" / "detail").glob("*_traits.cuh")):
    found = re.findall(r"#define (RATIFY_\w+_(?:SHAPE|TENSOR)_RULES)\(INVALID, UNSUPPORTED\)", path.read_text())
    if found:
        headers.append(path.relative_to(include))
        lists += found
operations = {m for path in (include / "ratify").glob("*_policy.hpp")
              for m in re.findall(r"RATIFY_DEFINE_POLICY\(\s*(\w+),", path.read_text())}
without = {op for op in operations if f"RATIFY_{op.upper()}_SHAPE_RULES" not in lists}

with tempfile.TemporaryDirectory() as folder:
    source, program = pathlib.Path(folder, "rules.cpp"), pathlib.Path(folder, "rules")
    source.write_text("".join(f"#include <{h}>\n" for h in headers) +
                      "#include <cstdio>\n#define TEXT(name, condition, text) text,\nchar const* const texts[] = {\n" +
                      "".join(f"  {name}(TEXT, TEXT)\n" for name in lists) +
                      "};\nint main() {\n  for (char const* text : texts) std::puts(text);\n}\n")
    subprocess.run(["g++", "-std=c++17", f"-I{include}", source, "-o", program], check=True)
    texts = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()

expected = ""
for path in sorted(tests.rglob("*.[ch]pp")):
    expected += re.sub(r'"\s*\n?\s*"', "", path.read_text())  # adjacent literals are one
missing = [text for text in texts if f'"{text}"' not in expected]
for text in missing:
    print(f"no test expects: {text}")
for op in sorted(without):
    print(f"{op} has no list of launch rules")
print(f"{len(texts) - len(missing)} of {len(texts)} launch rules of {len(operations) - len(without)} operations have a test")
sys.exit(1 if missing or without or not texts else 0)
