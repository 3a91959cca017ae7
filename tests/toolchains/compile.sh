#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compiles one source that launches every operation with every CUDA compiler: compile.sh TOOLKIT, where TOOLKIT is the folder
# with CUDA 12.8 that toolkit.sh makes. nvcc: all its architectures in one fat object, both standards, relocatable code, fast
# math (the PTX must hold no .ftz and no .approx), half conversions switched off, and another host compiler. clang-19: sm_70 and
# sm_90, and each header alone.
set -euo pipefail
toolkit=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../..")
source=$here/every_operation.cu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

step() {
  local begin=$SECONDS
  echo "- ${*:2}" | sed "s|$work|.|g; s|$root/||g"
  "$@" 2>&1 | tee "$work/log"
  if grep -q 'warning' "$work/log" && ! grep -q 'deprecated' "$work/log"; then echo "warnings"; exit 1; fi
  echo "  $((SECONDS - begin)) s"
}

nvcc_flags=(-I "$root/include" -c "$source" -o "$work/out.o")
fat=()
for a in 75 80 86 89 90 100 120; do fat+=(-gencode "arch=compute_$a,code=sm_$a"); done
echo "L3: one fat object"
step nvcc -std=c++17 "${fat[@]}" -t 2 "${nvcc_flags[@]}"
echo "  L3 fat object: $(stat -c %s "$work/out.o") bytes"
step nvcc -std=c++20 -arch=sm_90 -rdc=true -D__CUDA_NO_HALF_CONVERSIONS__ -D__CUDA_NO_HALF_OPERATORS__ \
  -D__CUDA_NO_HALF2_OPERATORS__ -D__CUDA_NO_BFLOAT16_CONVERSIONS__ -D__CUDA_NO_BFLOAT16_OPERATORS__ "${nvcc_flags[@]}"
step nvcc -std=c++17 -arch=sm_90 -use_fast_math -ptx -I "$root/include" "$source" -o "$work/fast.ptx"
if grep -nE '\.ftz|\.approx' "$work/fast.ptx" | head -3 | grep .; then echo "fast math reached the PTX"; exit 1; fi
step nvcc -std=c++17 -arch=sm_90 -ccbin clang++-14 "${nvcc_flags[@]}"

# The layout of a toolkit as clang expects it, made of the wheels.
cuda=$work/cuda
mkdir -p "$cuda/bin" "$cuda/nvvm" "$cuda/include"
for part in cuda_runtime cuda_nvcc cuda_cccl; do cp -rs "$toolkit/nvidia/$part/include/." "$cuda/include/" 2>/dev/null || true; done
cp -rs "$toolkit/nvidia/cuda_nvcc/nvvm/." "$cuda/nvvm/"
ln -s "$toolkit/nvidia/cuda_nvcc/bin/ptxas" "$cuda/bin/ptxas"
for a in sm_70 sm_90; do
  step clang++-19 -std=c++17 -x cuda --cuda-device-only --cuda-gpu-arch=$a --cuda-path="$cuda" -nocudalib \
    -Wno-unknown-cuda-version -I "$root/include" -c "$source" -o "$work/clang_$a.o"
  kernels=$(strings -a "$work/clang_$a.o" | grep -c '^\.nv\.info\._Z.*entry' || true)
  echo "  $kernels kernels"
  [ "$kernels" -ge 22 ] || { echo "expected at least 22, one per operation"; exit 1; }
done
python3 "$here/../self_contained.py" "$root/include" clang++-19 "$cuda"
echo "all compilers done"
