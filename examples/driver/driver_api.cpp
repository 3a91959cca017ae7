// SPDX-License-Identifier: Apache-2.0
/// The functions of the CUDA driver that the example calls. They are looked up at the first call instead of by the
/// linker, so that the program starts where no driver is installed, and can say so.
#include <cuda.h>

#include <dlfcn.h>

namespace {

void* find(char const* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace

// cuda.h renames functions by macros (cuMemAlloc is cuMemAlloc_v2): the driver is asked for what a call would link to.
#define EXAMPLE_TEXT_OF(x) #x
#define EXAMPLE_TEXT(x) EXAMPLE_TEXT_OF(x)
#define EXAMPLE_FORWARD(function, parameters, arguments)                                            \
  CUresult CUDAAPI function parameters {                                                            \
    static auto const driver = reinterpret_cast<decltype(&function)>(find(EXAMPLE_TEXT(function))); \
    return driver != nullptr ? driver arguments : CUDA_ERROR_STUB_LIBRARY;                          \
  }

EXAMPLE_FORWARD(cuInit, (unsigned flags), (flags))
EXAMPLE_FORWARD(cuGetErrorString, (CUresult error, char const** text), (error, text))
EXAMPLE_FORWARD(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal))
EXAMPLE_FORWARD(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device),
                (value, attribute, device))
EXAMPLE_FORWARD(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device), (context, device))
EXAMPLE_FORWARD(cuDevicePrimaryCtxRelease, (CUdevice device), (device))
EXAMPLE_FORWARD(cuCtxSetCurrent, (CUcontext context), (context))
EXAMPLE_FORWARD(cuCtxGetDevice, (CUdevice * device), (device))
EXAMPLE_FORWARD(cuModuleLoadData, (CUmodule * module, void const* image), (module, image))
EXAMPLE_FORWARD(cuModuleGetFunction, (CUfunction * function, CUmodule module, char const* name),
                (function, module, name))
EXAMPLE_FORWARD(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
                (function, attribute, value))
EXAMPLE_FORWARD(cuOccupancyMaxActiveBlocksPerMultiprocessor,
                (int* blocks, CUfunction function, int threads, size_t shared_bytes),
                (blocks, function, threads, shared_bytes))
EXAMPLE_FORWARD(cuLaunchKernel,
                (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                 unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                 void** extra),
                (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra))
EXAMPLE_FORWARD(cuMemAlloc, (CUdeviceptr * pointer, size_t bytes), (pointer, bytes))
EXAMPLE_FORWARD(cuMemFree, (CUdeviceptr pointer), (pointer))
EXAMPLE_FORWARD(cuMemcpyHtoD, (CUdeviceptr to, void const* from, size_t bytes), (to, from, bytes))
EXAMPLE_FORWARD(cuMemcpyDtoH, (void* to, CUdeviceptr from, size_t bytes), (to, from, bytes))
