#!/bin/bash
# Prevents: a driver library in the image that hides the host's: 'driver/library version mismatch' or no GPU at all.
found=$(find "$ASSERT_ROOT/" -xdev -name 'libcuda.so.1' -not -path '*/compat/*')
if [ -n "$found" ]; then fail "$(xargs <<<"$found"): the driver's library comes from the host; remove it"; fi
if ldconfig -p | grep -F 'libcuda.so'; then fail "ld.so.cache: names a libcuda.so, as above, so the host's would not be used; no compat or stubs folder in ld.so.conf.d"; fi
echo "libcuda.so.1 is left to the host"
