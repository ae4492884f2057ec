#!/bin/bash
# Prevents: a CUDA folder that is only a dangling link, or of another version than torch's.
said=$("$ASSERT_ROOT/usr/local/cuda/bin/nvcc" --version 2>&1) || fail "nvcc: $said; COPY the versioned folder, then make the link"
grep -q 'release 13\.0,' <<<"$said" || fail "nvcc: $(grep -m1 release <<<"$said"), wanted 13.0 as torch has; see the COPY lines"
echo "CUDA 13.0"
