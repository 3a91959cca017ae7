#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links an object of the C++ compiler and two of nvcc, for different architectures, in both orders and runs each program:
run.py SOURCE_DIR COMPILER NVCC [--architectures]. Without nvcc it is skipped (exit 77), or fails where RATIFY_NO_SKIP is set.

--architectures: objects of one policy for sm_80 (code and PTX), sm_90 (likewise) and sm_121 (code alone) in every order; each
launches its own kernel."""
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

source, compiler, nvcc = sys.argv[1:4]
if (nvcc := shutil.which(nvcc)) is None:
    print("skipped: nvcc is not here")
    sys.exit(1 if os.environ.get("RATIFY_NO_SKIP") else 77)
tests = pathlib.Path(source, "tests")
flags = ["-std=c++17", "-O2", f"-I{source}/include", f"-I{tests}"]

with tempfile.TemporaryDirectory() as folder:
    def build(command, name, output):
        path = str(pathlib.Path(folder, output))
        subprocess.run([*command, *flags, "-c", str(tests / "linkage" / name), "-o", path], check=True)
        return path

    def link(main, *objects):
        program = str(pathlib.Path(folder, "linked"))
        subprocess.run([nvcc, "-arch=sm_90", main, *objects, "-o", program, "-lboost_context", "-lpthread"], check=True)
        print("order:", *(pathlib.Path(o).stem for o in objects), flush=True)
        subprocess.run([program], check=True)

    if "--architectures" in sys.argv:
        main = build([compiler], "architectures.cpp", "main.o")
        objects = [build([nvcc, "-x", "cu", f"-gencode=arch=compute_{sm},code={code}", f"-DRATIFY_PART=of_{name}"],
                         "launched.cpp", f"{name}.o")
                   for sm, code, name in ((80, "[sm_80,compute_80]", "sm_80"), (90, "[sm_90,compute_90]", "sm_90"),
                                          (121, "sm_121", "sm_121_alone"))]
        for order in itertools.permutations(objects):
            link(main, *order)
        sys.exit(0)

    main = build([compiler], "main.cpp", "main.o")
    objects = [
        build([compiler, "-DRATIFY_PART=host_object"], "part.cpp", "host.o"),
        build([nvcc, "-x", "cu", "-arch=sm_80", "-DRATIFY_PART=first_card_object"], "part.cpp", "first.o"),
        build([nvcc, "-x", "cu", "-arch=sm_90", "-DRATIFY_PART=second_card_object"], "part.cpp", "second.o"),
    ]
    for order in (objects, objects[::-1]):
        link(main, *order)
