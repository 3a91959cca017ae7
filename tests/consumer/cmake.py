#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Projects of strangers that find ratify with CMake or pkg-config: cmake.py SOURCE_DIR CMAKE COMPILER [--cuda NVCC]

What is installed and by whom, what component `host` says without Boost.Context, that version and digest are those of the
headers.
--cuda: projects whose only language is CUDA instead; skipped without nvcc (exit 77), or failed where RATIFY_NO_SKIP is
set."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

source, cmake, compiler = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3]
failures = 0


def expect(good, what, log=""):
    global failures
    if not good:
        failures += 1
        print(f"FAILED: {what}\n{log}", flush=True)


def run(*command, environment=None):
    """-> (exit code, what it printed)"""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **(environment or {})})
    return done.returncode, done.stdout


def must(*command, environment=None):
    code, log = run(*command, environment=environment)
    if code:
        sys.exit(f"{' '.join(map(str, command))}\n{log}")
    return log


class Project:
    """A consumer's project in a folder of its own."""
    def __init__(self, folder, name, text, language="NONE", files=None):
        self.root, self.build = folder / name, folder / name / "build"
        self.root.mkdir()
        (self.root / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.25)\nproject({name} LANGUAGES {language})\n{text}\n")
        for file, contents in (files or {}).items():
            (self.root / file).write_text(contents)

    def configure(self, *options):
        return run(cmake, "-S", self.root, "-B", self.build, *options)


def install(folder, of=source, name="installed"):
    prefix = folder / name
    must(cmake, "-S", of, "-B", folder / (name + "_build"), "-DRATIFY_TESTS=OFF", "-DRATIFY_EXAMPLES=OFF", "-DRATIFY_BENCH=OFF",
         "-DCMAKE_INSTALL_INCLUDEDIR=include/of/headers", f"-DCMAKE_CXX_COMPILER={compiler}")
    must(cmake, "--install", folder / (name + "_build"), "--prefix", prefix)
    return prefix


def version():
    text = (source / "include/ratify/version.hpp").read_text()
    return ".".join(re.search(rf"RATIFY_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def subprojects(folder):
    """A parent installs what it has, and no header of ours unless it asks for that."""
    text = f"add_subdirectory({source} ratify)\ninstall(FILES CMakeLists.txt DESTINATION .)"
    for name, options, ours in (("parent", [], False), ("asking_parent", ["-DRATIFY_INSTALL=ON"], True)):
        project = Project(folder, name, text, "CXX" if ours else "NONE")
        code, log = project.configure(*options)
        expect(code == 0, f"{name} does not configure", log)
        prefix = folder / (name + "_installed")
        must(cmake, "--install", project.build, "--prefix", prefix)
        files = [str(p.relative_to(prefix)) for p in prefix.rglob("*") if p.is_file()]
        expect("CMakeLists.txt" in files, f"{name} does not install its own file", files)
        expect(any("ratify" in f for f in files) == ours, f"{name} installs {len(files)} files", files)


def digests(folder, prefix):
    """Whoever builds from patched headers gets another digest, whether or not the patch wrote it."""
    def held(headers, *options):
        return run(cmake, f"-DHEADERS={headers / 'ratify'}", *options, "-P", source / "cmake/header_digest.cmake")
    expect(held(prefix / "include/of/headers", "-DCHECK=ON")[0] == 0, "the installed headers hold another digest")
    tree = folder / "patched"
    for part in ("cmake", "include"):
        shutil.copytree(source / part, tree / part)
    for part in ("CMakeLists.txt", "LICENSE"):
        shutil.copy(source / part, tree)
    with open(tree / "include/ratify/numeric.hpp", "a") as header:
        header.write("// A patch.\n")
    expect(held(tree / "include", "-DCHECK=ON")[0] != 0, "a patch is not seen")
    program = "#include <ratify/revision.hpp>\n#include <cstdio>\nint main() { std::puts(RATIFY_REVISION); }\n"
    said = {}
    for name, of in (("as_released", source), ("patched_child", tree)):
        text = (f"add_subdirectory({of} ratify)\nadd_executable(program program.cpp)\n"
                "target_link_libraries(program PRIVATE ratify::ratify)")
        project = Project(folder, name, text, "CXX", {"program.cpp": program})
        code, log = project.configure(f"-DCMAKE_CXX_COMPILER={compiler}")
        expect(code == 0, f"{name} does not configure", log)
        must(cmake, "--build", project.build)
        said[name] = must(project.build / "program")
    expect(said["as_released"].startswith(f"ratify {version()} "), f"the revision is {said['as_released']}")
    expect(said["as_released"] != said["patched_child"], f"released and patched headers both are {said['as_released']}")
    patched = install(folder, tree, "patched_installed")
    code, log = held(patched / "include/of/headers", "-DCHECK=ON")
    expect(code == 0, "the digest of installed patched headers", log)
    text = (patched / "include/of/headers/ratify/detail/header_digest.hpp").read_text()
    expect(said["patched_child"].split()[-1] in text, "built and installed from one patched tree differ", text)


def components(folder, prefix):
    """What find_package says with and without Boost.Context, whatever state Boost is in."""
    text = """find_package(ratify ${WITH})
message(STATUS "found=${ratify_FOUND} host=${ratify_host_FOUND} version=${ratify_VERSION}")
message(STATUS "said=${ratify_NOT_FOUND_MESSAGE}")
foreach(target IN ITEMS ratify::ratify ratify::host)
  if(TARGET ${target})
    message(STATUS "has ${target}")
  endif()
endforeach()"""
    # A Boost that calls itself found and has no target.
    bare = folder / "bare_boost"
    bare.mkdir()
    (bare / "BoostConfig.cmake").write_text("set(Boost_FOUND 1)\nset(Boost_context_FOUND 1)\n")
    (bare / "BoostConfigVersion.cmake").write_text("set(PACKAGE_VERSION 1.80)\nset(PACKAGE_VERSION_COMPATIBLE 1)\n")
    # One that says that it was built without the component, as Boost's own package does.
    without = folder / "boost_without_context"
    without.mkdir()
    (without / "BoostConfig.cmake").write_text(
        "set(Boost_FOUND 0)\nset(Boost_context_FOUND 0)\nset(Boost_NOT_FOUND_MESSAGE \"no variant of context\")\n")
    shutil.copy(bare / "BoostConfigVersion.cmake", without)
    boosts = {"no Boost": "-DCMAKE_DISABLE_FIND_PACKAGE_Boost=ON", "a Boost without targets": f"-DBoost_DIR={bare}",
              "a Boost built without context": f"-DBoost_DIR={without}"}
    project = Project(folder, "finder", text)

    def find(what, boost, asked, *lines, host=False):
        shutil.rmtree(project.build, ignore_errors=True)
        code, log = project.configure(f"-DCMAKE_PREFIX_PATH={prefix}", *([boost] if boost else []), f"-DWITH={asked}")
        expect(code == 0, f"{what}: find_package(ratify {asked}) is an error", log)
        for line in lines:
            expect(line in " ".join(log.split()), f"{what}: find_package(ratify {asked}) does not say '{line}'", log)
        expect(("has ratify::host" in log) == host, f"{what}: ratify::host", log)
        return log

    for what, boost in boosts.items():
        find(what, boost, "", "found=1", f"version={version()}", "has ratify::ratify")
        log = find(what, boost, "COMPONENTS;host", "found=0 host=FALSE", "said=ratify's component 'host': Boost.Context")
        expect("Boost::context" in log or "DIR" not in boost, f"{what}: the Boost that was found is not named", log)
        find(what, boost, "OPTIONAL_COMPONENTS;host", "found=1 host=FALSE")
    find("no Boost", boosts["no Boost"], "COMPONENTS;gpu;host", "found=0", "ratify has no component 'gpu'", "Boost.Context")
    find("no Boost", boosts["no Boost"], "REQUIRED", "found=1")
    shutil.rmtree(project.build)
    code, log = project.configure(f"-DCMAKE_PREFIX_PATH={prefix}", boosts["no Boost"], "-DWITH=REQUIRED;COMPONENTS;host")
    expect(code != 0 and "Boost.Context" in log, "REQUIRED COMPONENTS host without Boost is no error", log)
    # A Boost that the parent project has brought with it.
    project = Project(folder, "bringer", "add_library(Boost::context INTERFACE IMPORTED)\n" + text)
    find("a Boost of the parent", boosts["no Boost"], "COMPONENTS;host", "found=1 host=TRUE", host=True)


def pkg_config(folder, prefix):
    if shutil.which("pkg-config") is None:
        print("not checked: pkg-config is not here")
        expect(not os.environ.get("RATIFY_NO_SKIP"), "pkg-config is not here and nothing may be skipped")
        return
    environment = {"PKG_CONFIG_PATH": str(prefix / "share/pkgconfig")}
    said = must("pkg-config", "--modversion", "ratify", environment=environment).strip()
    expect(said == version(), f"pkg-config says version {said}")
    flags = must("pkg-config", "--cflags", "ratify", environment=environment).split()
    must(compiler, "-std=c++17", *flags, source / "tests/package/headers_alone.cpp", "-o", folder / "headers_alone")
    must(folder / "headers_alone")


def cuda_alone(folder, prefix, nvcc):
    """One language: no C++ compiler is asked for, by the headers or by the host executor."""
    text = """{}
add_executable(program program.cu)
target_link_libraries(program PRIVATE ratify::host)
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
message(STATUS "languages: ${{languages}}")"""
    program = """#include <ratify/host.hpp>
#include <ratify/numeric.hpp>
__global__ void widen(ratify::f16 const* x, float* y) { y[threadIdx.x] = ratify::to_float(x[threadIdx.x]); }
int main() {
  widen<<<1, 32>>>(nullptr, nullptr);
  return ratify::host_executor(1).threads() - 1;
}
"""
    for how, get in (("find_package", "find_package(ratify REQUIRED COMPONENTS host)"),
                     ("add_subdirectory", f"add_subdirectory({source} ratify)")):
        project = Project(folder, how, text.format(get), "CUDA", {"program.cu": program})
        code, log = project.configure(f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CUDA_COMPILER={nvcc}",
                                      "-DCMAKE_CUDA_ARCHITECTURES=90")
        expect(code == 0, f"CUDA alone, {how}: does not configure", log)
        if code:
            continue
        expect("CXX" not in log.split("languages: ")[1], f"CUDA alone, {how}: another language was enabled", log)
        code, log = run(cmake, "--build", project.build)
        expect(code == 0, f"CUDA alone, {how}: does not build", log)
        expect(code or run(project.build / "program")[0] == 0, f"CUDA alone, {how}: the program fails")


with tempfile.TemporaryDirectory() as name:
    work = pathlib.Path(name)
    if "--cuda" in sys.argv:
        compiler_of_cuda = shutil.which(sys.argv[sys.argv.index("--cuda") + 1])
        if compiler_of_cuda is None:
            print("skipped: nvcc is not here")
            sys.exit(1 if os.environ.get("RATIFY_NO_SKIP") else 77)
        cuda_alone(work, install(work), compiler_of_cuda)
    else:
        installed = install(work)
        subprojects(work)
        digests(work, installed)
        components(work, installed)
        pkg_config(work, installed)
print("projects of strangers:", f"{failures} failures" if failures else "no failure")
sys.exit(1 if failures else 0)
