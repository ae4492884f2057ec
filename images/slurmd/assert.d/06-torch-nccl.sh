#!/bin/bash
# Prevents: a torch that loads another NCCL than its own, such as one that LD_LIBRARY_PATH puts before it.
loaded=$(python3 -c '
import ctypes, torch
path, = {line.split()[-1] for line in open("/proc/self/maps") if "/libnccl.so" in line} or {"none"}
version = ctypes.c_int()
if path != "none":
    ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version))
print(path, version.value)')
case $loaded in
  *"/site-packages/nvidia/nccl/lib/"*) echo "$loaded" ;;
  *) fail "torch's NCCL: loaded ${loaded% *}, not the one in its own packages; LD_LIBRARY_PATH is '${LD_LIBRARY_PATH:-}', leave it unset" ;;
esac
