#!/bin/bash
# Prevents: an nvcc that refuses this distribution's C library or compiler, so that nothing can be built on the cluster.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/kernel.cu" <<'CUDA'
#include <cmath>
__global__ void kernel(float *x) { x[threadIdx.x] = rsqrtf(x[threadIdx.x]); }
int main() { kernel<<<1, 1>>>(nullptr); }
CUDA
said=$("$ASSERT_ROOT/usr/local/cuda/bin/nvcc" -arch=sm_89 -c "$work/kernel.cu" -o "$work/kernel.o" 2>&1) ||
  fail "nvcc: $(grep -m1 -E 'error|fatal' <<<"$said" || tail -n 1 <<<"$said"); see cuda-glibc.sh for the C library, and the g++ that this CUDA allows"
echo "compiles for sm_89"
