#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the layers of include/ratify and the rules that text can show: layers.py [ROOT] [--portable] [--self-test] [--write]

--portable: only what keeps the headers compiling elsewhere (L5). --write: the table of docs/design.md."""
import pathlib
import re
import sys
import tempfile

# A header may include headers of lower layers; within the layers marked so, of its own layer too. Every header is named
# here or belongs to an operation by its name; an operation's headers include their own operation's and device/* alone.
LAYERS = [  # name, what it holds, whether its headers may include one another, headers that belong to no operation
    ("ground", "versions, compilers, names of knobs", True,
     ["version.hpp", "config.hpp", "knobs.hpp", "detail/meta.hpp", "detail/choices.hpp",
      "detail/header_digest.hpp"]),
    ("words", "statuses, storage formats, views, policies out of knob lists, the block interface", True,
     ["status.hpp", "numeric.hpp", "dispatch.hpp", "views.hpp", "detail/policy.hpp", "detail/extents.hpp",
      "detail/math.cuh", "detail/machine/*"]),
    ("executors", "what runs kernels, and what kernels share", True,
     ["executor.hpp", "detail/contents.hpp", "cuda.cuh", "host.hpp", "revision.hpp", "nvfp4.hpp", "detail/decode.cuh", "detail/philox.cuh",
      "detail/elementwise.cuh", "detail/machine/launch.cuh", "detail/machine/host_block.hpp"]),
    ("policies", "the knobs of each operation", False, []),
    ("parameters", "what a caller fills in for one launch", False, []),
    ("tuning", "measured constants of each operation", False, []),
    ("traits", "launch rules and derived sizes of each operation", False, []),
    ("device", "block-level functions, which kernels of a user may call", True,
     ["device/rows.cuh", "device/pages.cuh", "device/softmax.cuh", "device/selection.cuh", "device/masses.cuh",
      "device/sampling.cuh", "device/rejection.cuh", "device/long_rows.cuh"]),
    ("contents", "checks of what device tensors hold, for debugging", False, []),
    ("kernels", "the kernels of each operation", True, []),
    ("operations", "can_launch, workspace_bytes, launch", False, []),
    ("umbrella", "everything at once; policies in words", False, ["ratify.cuh", "describe.hpp"]),
]
OPERATION = [  # pattern, layer
    (r"(\w+)_policy\.hpp", "policies"),
    (r"(\w+)_params\.hpp", "parameters"),
    (r"detail/(\w+)_tuning\.hpp", "tuning"),
    (r"detail/(\w+)_traits\.cuh", "traits"),
    (r"detail/(\w+)_contents\.hpp", "contents"),
    (r"device/(\w+)\.cuh", "device"),
    (r"detail/(\w+)_kernels\.cuh", "kernels"),
    (r"(\w+)\.cuh", "operations"),
]
NUMBER = {name: number for number, (name, *_) in enumerate(LAYERS)}
MOST_LINES, MOST_FUNCTION_LINES = 500, 80

# L5: what may stand only in the headers named (a name that ends with / is a folder), or the headers stop compiling
# elsewhere or get in a consumer's way.
PORTABLE = [
    (r"\b__cplusplus\b", set(), "__cplusplus (MSVC keeps it at 199711)"),
    (r"(?<![\w.])(and|or|not|xor|bitand|bitor|compl|and_eq|or_eq|xor_eq|not_eq)\b(?!\w)", set(),
     "an alternative token (and, or, not)"),
    (r"\b_*u?int128(_t)?\b", set(), "__int128"),
    (r"\b(__builtin_|__sync_(?!threads|warp)|__atomic_)\w+", {"detail/"}, "a GCC builtin"),
    (r"#\s*(define|undef)\s+(?!RATIFY_)\w+", set(), "a macro without the prefix RATIFY_"),
]

# What may stand only in the headers named.
ONLY_IN = [
    (r"\basm\b|\b__asm__\b", {"detail/machine/"}, "asm"),
    (r"\b__CUDA_ARCH__\b", {"detail/machine/", "config.hpp"}, "__CUDA_ARCH__"),
    (r"\b__global__\b", {"detail/machine/launch.cuh"}, "__global__"),
    (r"#\s*include\s*<boost/", {"detail/machine/fiber_pool.hpp"}, "Boost"),
    (r"#\s*include\s*<cub/", {"detail/machine/collectives.cuh"}, "CUB"),
    (r"#\s*include\s*<cuda_runtime", {"cuda.cuh"}, "the CUDA runtime"),
    (r"#\s*include\s*<(iostream|ostream|istream|sstream|cstdio|stdio\.h)>", {"detail/contents.hpp"}, "stream or stdio headers"),
    (r"\b(getenv|secure_getenv)\b", set(), "getenv"),
    (r"^using namespace\b", set(), "using namespace at namespace scope"),
    (r'#\s*include\s*"', set(), 'an include in quotes (write <ratify/...>)'),
    (r"\b(malloc|calloc|realloc|aligned_alloc)\s*\(|\bnew\b|std::(vector|string|function|map)\b",
     {"host.hpp", "describe.hpp", "*contents.hpp", "detail/machine/fiber_pool.hpp", "detail/machine/block_scopes.hpp",
      "detail/machine/host_copies.hpp", "detail/machine/host_block.hpp"}, "allocation"),
    (r"\bthrow\b|\btry\b", {"detail/machine/fiber_pool.hpp"}, "exceptions"),
    (r"(?<![\w:])(?:std::)?(expf?|exp2f?|logf?|log2f?|log1pf?|powf?|tanhf?|sqrtf?|rsqrtf?|fmaf?|fmaxf?|fminf?|fabsf?)\(",
     {"detail/machine/ptx.cuh"}, "libm (use detail/machine/ptx.cuh and detail/math.cuh)"),
    (r"\b(__fmaf_rn|__fmul_rn|__fadd_rn|__expf|__logf|__shfl\w*|__ballot\w*|__syncthreads|__syncwarp)\b",
     {"detail/machine/ptx.cuh", "detail/machine/block.cuh"}, "a CUDA intrinsic (use detail/machine/ptx.cuh or the block)"),
]


def without_comments_and_strings(text):
    """Comments and the contents of literals removed, line breaks kept."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)

    def blank(match):
        s = match.group(0)
        if s.startswith("/"):
            return "\n" * s.count("\n")
        if s[0] == "'" and re.search(r"[0-9a-fA-F]$", text[max(0, match.start() - 1):match.start()]):
            return s  # a digit separator
        return s[0] * 2

    out, at = [], 0
    for match in token.finditer(text):
        line_start = text.rfind("\n", 0, match.start()) + 1
        out.append(text[at:match.start()])
        include = re.match(r"\s*#\s*include", text[line_start:match.start()])
        out.append(match.group(0) if include else blank(match))
        at = match.end()
    out.append(text[at:])
    return "".join(out)


def place(name, operations=()):
    """(number of the layer, operation or None) of a header, or None. A header of a part of an operation is named
    OPERATION_PART."""
    for exact in (True, False):  # a name over a pattern
        for number, (_, _, _, headers) in enumerate(LAYERS):
            if any(name == h if exact else h.endswith("*") and name.startswith(h[:-1]) for h in headers):
                return number, None
    for pattern, layer in OPERATION:
        if match := re.fullmatch(pattern, name):
            word = match.group(1)
            whole = max((o for o in operations if word == o or word.startswith(o + "_")), key=len, default=word)
            return NUMBER[layer], whole
    return None


def long_functions(code):
    """-> (offset, lines) of each function longer than allowed. The code is formatted: a body ends at its line's
    indentation."""
    lines = code.split("\n")
    not_a_function = re.compile(r"\s*(namespace|struct|class|union|enum|extern|inline namespace|#)")
    for i, line in enumerate(lines):
        if not line.rstrip().endswith("{") or not_a_function.match(line):
            continue
        head = i
        while head > 0 and lines[head - 1].strip() and not re.search(r"[;{}:>]\s*$", lines[head - 1]):
            head -= 1
        if "(" not in "".join(lines[head:i + 1]) or not_a_function.match(lines[head]):
            continue
        indent = len(lines[head]) - len(lines[head].lstrip())
        for j in range(i + 1, len(lines)):
            if lines[j].startswith(" " * indent + "}"):
                if j - i - 1 > MOST_FUNCTION_LINES:
                    yield sum(len(l) + 1 for l in lines[:i]), j - i - 1
                break


def misplaced(name, code, rules):
    """-> (what, offset) of each match of a rule in a header where it has no place."""
    for pattern, places, what in rules:
        if name in places or any(p.endswith("/") and name.startswith(p) or p.startswith("*") and name.endswith(p[1:]) for p in places):
            continue
        for match in re.finditer(pattern, code, re.M):
            yield f"{what} has no place here", match.start()


def check_portable(root):
    faults, count = [], 0
    include = root / "include" / "ratify"
    for path in sorted(include.rglob("*")):
        if path.suffix not in (".hpp", ".cuh"):
            continue
        count += 1
        code = without_comments_and_strings(path.read_text())
        name = str(path.relative_to(include))
        faults += [f"L5 include/ratify/{name}:{code.count(chr(10), 0, at) + 1}: {what}"
                   for what, at in misplaced(name, code, PORTABLE)]
    return faults, count


def check_detail_stays_inside(root):
    """What users read and copy neither includes nor names the library's `detail`; its tests may."""
    faults = []
    named = re.compile(r"\bratify::detail\b|<ratify/detail/|\busing namespace ratify::detail\b")
    for folder in ("examples", "bench", "docs"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root)
            if path.suffix not in (".hpp", ".cuh", ".cpp", ".cu", ".md"):
                continue
            for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
                if named.search(line):
                    faults.append(f"{name}:{number}: names the library's detail")
    readme = root / "README.md"
    if readme.is_file() and named.search(readme.read_text()):
        faults.append("README.md: names the library's detail")
    return faults


TABLE = re.compile(r"(<!-- layers -->\n).*?(<!-- /layers -->)", re.S)


def table():
    """The layers as the rows of docs/design.md."""
    rows = ["| layer | holds | headers |", "|---|---|---|"]
    for name, holds, _, headers in LAYERS:
        patterns = [p.replace(r"(\w+)", "NAME").replace("\\.", ".") for p, layer in OPERATION if layer == name]
        rows.append(f"| {name} | {holds} | {', '.join(f'`{h}`' for h in patterns + headers)} |")
    return "\n".join(rows) + "\n"


def check_table(root):
    path = root / "docs" / "design.md"
    if not path.is_file():
        return []
    text = path.read_text()
    if (match := TABLE.search(text)) and match.group(0) == match.group(1) + table() + match.group(2):
        return []
    return ["docs/design.md: the table of layers is not this script's: run tests/layers.py --write"]


def check(root):
    faults = []
    include = root / "include" / "ratify"
    headers = {str(p.relative_to(include)): p for p in sorted(include.rglob("*")) if p.suffix in (".hpp", ".cuh")}
    operations = {m.group(1) for n in headers if (m := re.fullmatch(OPERATION[0][0], n))}
    faults += check_detail_stays_inside(root) + check_table(root)
    edges = {}
    for name, path in headers.items():
        text = path.read_text()
        code = without_comments_and_strings(text)

        def line_of(offset):
            return code.count("\n", 0, offset) + 1

        def fault(what, offset=None):
            faults.append(f"include/ratify/{name}{':' + str(line_of(offset)) if offset is not None else ''}: {what}")

        here = place(name, operations)
        if here is None:
            fault("stands in no layer: name it after its operation or add it to tests/layers.py")
            continue
        layer, operation = here
        if operation is not None and operation not in operations:
            fault(f"belongs to an operation without {operation}_policy.hpp: add it to tests/layers.py or name it otherwise")
        edges[name] = []
        for match in re.finditer(r"#\s*include\s*<ratify/([^>]+)>", code):
            other = match.group(1)
            edges[name].append(other)
            if other not in headers:
                fault(f"includes <ratify/{other}>, which is not there", match.start())
                continue
            if (there := place(other, operations)) is None:
                continue
            allowed = there[0] < layer or (there[0] == layer and LAYERS[layer][2])
            if operation is not None and there[1] not in (None, operation) and there[0] != NUMBER["device"]:
                allowed = False
            if not allowed:
                fault(f"({LAYERS[layer][0]}) includes {other} ({LAYERS[there[0]][0]})", match.start())
        for what, at in misplaced(name, code, ONLY_IN):
            fault(what, at)
        if (count := text.count("\n")) > MOST_LINES:
            fault(f"has {count} lines; at most {MOST_LINES}")
        for at, count in long_functions(code):
            fault(f"a function of {count} lines; at most {MOST_FUNCTION_LINES}", at)
        if "#pragma once" not in code:
            fault("has no #pragma once")
        if not re.search(r"^///", text, re.M) and name != "version.hpp":
            fault("has no /// line that says what it is")

    # No cycles: layers allow neighbours below the policies to include one another.
    def visit(name, trail):
        if name in trail:
            faults.append("include/ratify: a cycle of includes: " + " -> ".join(trail[trail.index(name):] + [name]))
            return
        if name in done:
            return
        for other in edges.get(name, []):
            visit(other, trail + [name])
        done.add(name)

    done = set()
    for name in edges:
        visit(name, [])

    # All files that are ours.
    for folder in ("include", "tests", "examples", "bench", "cmake", ".ci"):
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            source = path.suffix in (".hpp", ".cuh", ".cpp", ".cu", ".py", ".cmake", ".sh") or path.name == "CMakeLists.txt"
            if not source:
                continue
            name = path.relative_to(root)
            data = path.read_bytes()
            lines = data.split(b"\n")
            if not any(b"SPDX-License-Identifier: Apache-2.0" in line for line in lines[:2]):
                faults.append(f"{name}:1: no SPDX-License-Identifier: Apache-2.0")
            for number, line in enumerate(lines, 1):
                if any(c > 126 or (c < 32 and c != 9) for c in line):
                    faults.append(f"{name}:{number}: a character outside printable ASCII")
                    break
            if path.suffix == ".hpp" and b"#pragma once" not in data:
                faults.append(f"{name}: has no #pragma once")
    return faults


def self_test():
    """Each rule finds its fault in a small tree, and the tree without it passes."""
    good = {
        "config.hpp": "#pragma once\n///\n",
        "status.hpp": "#pragma once\n/// asm, getenv(\"X\") in a comment\n#include <ratify/config.hpp>\n",
        "a_policy.hpp": "#pragma once\n///\n#include <ratify/status.hpp>\n",
        "b_policy.hpp": "#pragma once\n///\n",
        "a_params.hpp": "#pragma once\n///\n#include <ratify/a_policy.hpp>\n",
        "detail/a_traits.cuh": "#pragma once\n///\n#include <ratify/a_policy.hpp>\n",
        "device/a.cuh": "#pragma once\n///\n#include <ratify/detail/a_traits.cuh>\nchar const* s = \"asm or not\"; int n = 1'000'000;\n",
        "device/b.cuh": "#pragma once\n///\n#include <ratify/device/a.cuh>\n",
        "a.cuh": "#pragma once\n///\n#include <ratify/device/a.cuh>\n",
    }
    bad = {
        "status.hpp": ["#include <ratify/a_policy.hpp>", "asm(\"\");", "#if __CUDA_ARCH__ > 1\n#endif", "__global__ void f();",
                       "#include <boost/context/fiber.hpp>", "#include <iostream>", "auto x = getenv(\"A\");",
                       "using namespace std;", "#include \"config.hpp\"", "int* p = new int;",
                       "float y = std::exp(x);", "float y = fmaxf(a, b);", "#include <ratify/missing.hpp>", "void f() { __syncthreads(); }", "// caf\u00e9"],
        "device/a.cuh": ["#include <ratify/a.cuh>", "#include <ratify/b_policy.hpp>"],
        "config.hpp": ["#include <ratify/status.hpp>"],
        "detail/stray.hpp": ["#pragma once\n///"],
        "a_policy.hpp": ["#include <ratify/a_params.hpp>", "// a line\n" * 500, "int f(int a) {\n" + "  ++a;\n" * 81 + "}"],
        "c.cuh": ["#pragma once\n///"],
    }
    portable = {
        "status.hpp": ["#if __cplusplus >= 201703L\n#endif", "bool c = a and b;", "bool c = a or b;", "bool c = not a;",
                       "int c = a bitand b;", "__int128 w;", "unsigned __int128 w;", "__uint128_t w;",
                       "int n = __builtin_popcount(3);", "__sync_synchronize();", "__atomic_load_n(p, 0);",
                       "#define NAME 1", "#  define name(x) x", "#define RATIF_X", "#undef min"],
        "detail/a_traits.cuh": ["bool c = a and b;", "__int128 w;", "#define NAME 1"],
    }
    fine = {"detail/a_traits.cuh": "int n = __builtin_popcount(3);",
            "status.hpp": "/* and or not __int128 __cplusplus */ #define RATIFY_X \"not __builtin_x\"\nint band, nor_this, x = s.not_a;"}
    failures = 0

    def run(files, check=check):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in files.items():
                path = root / "include" / "ratify" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("// SPDX-License-Identifier: Apache-2.0\n" + text + "\n", encoding="utf-8")
            return check(root)

    def only_portable(root):
        return check_portable(root)[0]

    for name, additions in portable.items():
        for addition in additions:
            if len(run({**good, name: good[name] + addition}, only_portable)) < 1:
                failures += 1
                print(f"self-test: L5 not found in {name}: {addition}")
    for name, addition in fine.items():
        if faults := run({**good, name: good[name] + addition}, only_portable):
            failures += 1
            print(f"self-test: L5 found where it is not: {faults}")
    if faults := run(good):
        failures += 1
        print("self-test: the good tree has faults:", *faults, sep="\n  ")
    for name, additions in bad.items():
        for addition in additions:
            if not run({**good, name: good.get(name, "") + addition}):
                failures += 1
                print(f"self-test: not found in {name}: {addition}")
    for name in good:
        if not run({**good, name: good[name].replace("#pragma once", "")}):
            failures += 1
            print(f"self-test: a missing #pragma once not found in {name}")
    return failures


if __name__ == "__main__":
    if "--write" in sys.argv:
        design = pathlib.Path(__file__).resolve().parent.parent / "docs" / "design.md"
        design.write_text(TABLE.sub(lambda m: m.group(1) + table() + m.group(2), design.read_text()))
        sys.exit(0)
    if "--self-test" in sys.argv:
        sys.exit(1 if self_test() else 0)
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    tree = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).resolve().parent.parent
    if "--portable" in sys.argv:
        found, count = check_portable(tree)
        print(*found, f"L5: {count} headers, {len(found)} faults", sep="\n")
        sys.exit(1 if found or count == 0 else 0)
    found = check(tree)
    print(*found, sep="\n") if found else print("layers and rules: no fault")
    sys.exit(1 if found else 0)
