#!/bin/bash
# Prevents: silent TCP because NCCL finds no plugin under the name it asks for, with this environment or with none.
load='
import ctypes
plugin = ctypes.CDLL("libnccl-net.so")
if not any(hasattr(plugin, f"ncclNet{kind}_v{n}") for kind in ("Plugin", "") for n in range(4, 30)):
    raise SystemExit("libnccl-net.so has no ncclNetPlugin symbol: NCCL would refuse it")'
said=$(python3 -c "$load" 2>&1) || fail "libnccl-net.so: ${said##*$'\n'}; with this environment, LD_LIBRARY_PATH '${LD_LIBRARY_PATH:-}'; run locate.sh"
said=$(env -i PATH="$PATH" python3 -c "$load" 2>&1) || fail "libnccl-net.so: ${said##*$'\n'}; with no environment, as a job; run locate.sh, ldconfig"
echo "libnccl-net.so loads, in a job's environment too"
