#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The headers after the macros that other libraries define: macros.py SOURCE_DIR COMPILER...

Every macro of the list is given an expansion that compiles nowhere, then every public header is included. The standard and
Boost headers come before, so that a fault is ours. What a compiler does not read (the branches for a card) is read as text:
none of the names may stand in any header."""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from layers import without_comments_and_strings  # noqa: E402

source, *compilers = sys.argv[1:]
include = pathlib.Path(source, "include")

# Macros without parameters.
NAMES = """
A B C D E F G H I J K L M N O P Q R S T U V W X Y Z
slots signals emit foreach forever
small hyper near far NEAR FAR interface IN OUT OPTIONAL ERROR NO_ERROR DELETE VOID CONST TRUE FALSE THIS IGNORE INFINITE
STRICT pascal cdecl PASCAL CDECL CALLBACK WINAPI DIFFERENCE DOMAIN OVERFLOW UNDERFLOW TRANSPARENT OPAQUE ABSOLUTE RELATIVE
GetObject GetMessage SendMessage CreateWindow LoadImage DrawText Yield
None Bool Status Success Always True False Above Below Complex Convex Nonconvex Unsorted CursorShape DestroyAll KeyPress
KeyRelease FocusIn FocusOut Expose GrayScale StaticGray TrueColor LSBFirst MSBFirst CurrentTime Button1 NotUseful WhenMapped
complex imaginary
B0 B50 B300 B9600 ECHO HIGH LOW INPUT OUTPUT DEFAULT PI
YES NO nil
unix linux sun
""".split()
# Macros with parameters and their number: a name that no parenthesis follows is not such a macro.
CALLS = {"min": 2, "max": 2, "select": 3, "major": 1, "minor": 1, "makedev": 2, "check": 1, "verify": 1, "require": 2,
         "check_noerr": 1, "require_noerr": 2, "bit": 1, "word": 1, "constrain": 3, "CHECK": 1, "LOG": 1, "VLOG": 1, "ASSERT": 1, "DCHECK": 1,
         "ENSURE": 1, "TEST": 2, "FAIL": 0, "RGB": 3, "TEXT": 1, "_": 1, "OF": 1}


def headers(public):
    return [p for p in sorted((include / "ratify").rglob("*"))
            if p.suffix in (".hpp", ".cuh") and not (public and "detail" in p.relative_to(include).parts)]


def others():
    """The headers of others that ours include on the host."""
    found = {name for p in headers(False) for name in re.findall(r"#\s*include\s*<([\w./]+)>", p.read_text())}
    return sorted(n for n in found if not re.match(r"ratify|cuda|cub/|cooperative", n))


def hits():
    pattern = re.compile(rf"(?<![\w#])(?:(?:{'|'.join(NAMES)})(?!\w)|(?:{'|'.join(CALLS)})(?=\s*\())")
    for path in headers(False):
        for number, line in enumerate(without_comments_and_strings(path.read_text()).split("\n"), 1):
            if re.match(r"\s*#\s*(include|pragma)", line):
                continue
            for name in sorted({match.group(0) for match in pattern.finditer(line)}):
                yield f"{path.relative_to(source)}:{number}: {name}", line.strip()


lines = [f"#if __has_include(<{h}>)\n#include <{h}>\n#endif" for h in others()]
for name in NAMES:
    lines.append(f"#undef {name}\n#define {name} (a macro named {name})")
for name, count in CALLS.items():
    lines.append(f"#undef {name}\n#define {name}({', '.join('abcdef'[:count])}) (a macro named {name})")
lines += [f"#include <{p.relative_to(include)}>" for p in headers(True)]
lines.append("int main() {}")

failures = 0
for hit, line in hits():
    failures += 1
    print(f"{hit}    in: {line}")
for compiler in compilers:
    done = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", f"-I{include}", "-x", "c++", "-"], input="\n".join(lines),
                          capture_output=True, text=True)
    if done.returncode:
        failures += 1
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        print(f"{compiler}: {len(errors)} errors", *errors[:20], sep="\n")
print(f"{len(NAMES) + len(CALLS)} macros, {len(headers(True))} headers: {failures} faults")
sys.exit(1 if failures else 0)
