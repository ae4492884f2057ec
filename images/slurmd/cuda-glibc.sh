#!/bin/bash
# glibc 2.42 and later declare rsqrt as noexcept, CUDA before 13.2 declares it without: nvcc then compiles nothing at all.
# CUDA's own specifier for such functions (sinpi, since glibc 2.41) is set on this one too, where the C library has it.
set -euo pipefail
root=${ASSERT_ROOT:-}

if ! grep -qs '(rsqrt,' "$root"/usr/include/*/bits/mathcalls.h "$root"/usr/include/bits/mathcalls.h; then
  echo "this C library has no rsqrt: CUDA's headers stay as they are"
  exit 0
fi
find "$root/usr/local" -xdev -path '*/crt/math_functions.h' -type f -print -exec \
  sed -E -i 's/\b(rsqrtf?\((double|float) [ax]\))(\)?;)$/\1 __THROW\3/' {} +
