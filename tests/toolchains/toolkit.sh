#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fetches what is needed of CUDA 12.8 from PyPI into a folder: NVRTC, runtime and CCCL headers, ptxas.
# toolkit.sh FOLDER
set -euo pipefail
folder=$1
[ -f "$folder/complete" ] && exit 0
mkdir -p "$folder/wheels"
python3 -m pip download -q --no-deps --only-binary=:all: --disable-pip-version-check -d "$folder/wheels" \
  nvidia-cuda-nvrtc-cu12==12.8.93 nvidia-cuda-runtime-cu12==12.8.90 nvidia-cuda-cccl-cu12==12.8.90 nvidia-cuda-nvcc-cu12==12.8.93
for wheel in "$folder"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$folder"; done
rm -r "$folder/wheels"
chmod +x "$folder"/nvidia/cuda_nvcc/bin/*
touch "$folder/complete"
