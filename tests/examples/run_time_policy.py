#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of a policy chosen at run time, without a card: run_time_policy.py PROGRAM INCLUDE COMPILER

Its usage and its one line where no driver is installed; and, with a driver that launches nothing in the driver's place, that
the cache of compiled kernels tells headers of other contents apart."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

program, include, compiler = sys.argv[1:]
# A card of sm_90 that runs no kernel: results stay what they were, so the program ends with "bits differ".
DRIVER = """
#include <cstddef>
extern "C" {
int cuInit(unsigned) { return 0; }
int cuGetErrorString(int, char const** text) { return *text = "an error", 0; }
int cuDeviceGet(int* device, int) { return *device = 0, 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
  return *value = attribute == 75 ? 9 : attribute == 76 ? 0 : 132, 0;  // compute capability 9.0
}
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = context, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void*) { return 0; }
int cuCtxGetDevice(int* device) { return *device = 0, 0; }
int cuModuleLoadData(void** module, void const*) { return *module = module, 0; }
int cuModuleGetFunction(void** function, void*, char const*) { return *function = function, 0; }
int cuFuncSetAttribute(void*, int, int) { return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) { return *blocks = 2, 0; }
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) { return 0; }
int cuGetExportTable(void const**, void const*) { return 1; }  // NVRTC asks for one; there is none
int cuMemAlloc_v2(unsigned long long* p, size_t) { return *p = 4096, 0; }
int cuMemFree_v2(unsigned long long) { return 0; }
int cuMemcpyHtoD_v2(unsigned long long, void const*, size_t) { return 0; }
int cuMemcpyDtoH_v2(void*, unsigned long long, size_t) { return 0; }
}
"""
failures = 0


def run(*arguments, libraries=None):
    environment = dict(os.environ)
    if libraries:
        environment["LD_LIBRARY_PATH"] = f"{libraries}:{environment.get('LD_LIBRARY_PATH', '')}"
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout, done.stderr


def expect(good, what, got):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}: {got}")


for option in ("--help", "-h"):
    got = run(option)
    expect(got[0] == 0 and got[1].startswith("run_time_policy PARTITION_WIDTH") and not got[2], option, got)
for arguments, reason in (((), "three or four arguments"), ((64, 8), "three or four arguments"), ((65, 8, "x"), "PARTITION_WIDTH is 64"),
                          ((64, "8x", "x"), "PV_UNROLL is 1"), ((64, 3, "x"), "PV_UNROLL is 1")):
    got = run(*arguments)
    expect(got[0] == 3 and reason in got[2].splitlines()[0] and "CACHE_FOLDER" in got[2] and not got[1], arguments, got)

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    try:
        import ctypes
        ctypes.CDLL("libcuda.so.1")
        print("a driver is installed: what the program says without one is not checked")
    except OSError:
        got = run(64, 8, folder / "cache")
        expect(got[0] == 2 and len(got[2].splitlines()) == 1 and "no CUDA driver is installed" in got[2], "without a driver", got)

    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c++", "-", "-o", folder / "libcuda.so.1"], input=DRIVER, text=True, check=True)
    headers = folder / "include"
    shutil.copytree(include, headers)

    def compiles(what, *arguments):
        got = run(64, 8, folder / "cache", *arguments, libraries=folder)
        expect(got[0] == 1 and ("compiled for sm_90" in got[1]) != ("from the cache" in got[1]), what, got)
        return "compiled for sm_90" in got[1]

    expect(compiles("the first run"), "the first run does not compile", "")
    expect(not compiles("the second run"), "the second run compiles again", "")
    expect(not compiles("a copy of the headers", headers), "a copy of the headers is compiled again", "")
    with open(headers / "ratify/numeric.hpp", "a") as header:
        header.write("// Of the same version, with other contents.\n")
    expect(compiles("changed headers", headers), "changed headers come from the cache", "")
print("run_time_policy without a card:", f"{failures} failures" if failures else "no failure")
sys.exit(1 if failures else 0)
