#!/bin/bash
# Finds where this build's bases keep libfabric, NCCL's OFI plugin, NCCL and the CUDA runtime, and tells the loader.
# Found and never assumed: the plugin's folder and its file's name both changed with the EFA installer, and a path that
# names nothing is no error to anybody; NCCL then takes TCP without a word.
set -euo pipefail
root=${ASSERT_ROOT:-}

# The one folder with a file of that name; Python's packages are left out, they find their own copies by themselves.
folder_of() {
  local what=$1 name=$2 found
  shift 2
  mapfile -t found < <(find "${@/#/$root}" -xdev \( -name site-packages -o -name stubs \) -prune -o -name "$name" -printf '%h\n' |
    sort -u)
  if [ ${#found[@]} != 1 ]; then
    echo "$what: $name is in ${#found[@]} folders below $* (${found[*]:-none}); the loader needs exactly one;" \
      "see what the DLC image holds and correct the COPY lines" >&2
    return 1
  fi
  echo "${found[0]}"
}

libfabric=$(folder_of libfabric libfabric.so.1 /opt/amazon)
plugin=$(folder_of "OFI plugin" 'libnccl-net*.so' /opt/amazon)
nccl=$(folder_of NCCL libnccl.so.2 /opt /usr/local)
cudart=$(folder_of "CUDA runtime" 'libcudart.so.[0-9]*' /opt /usr/local)

# The name that NCCL asks for; installers since 1.44 are only sure to bring libnccl-net-ofi.so.
if [ ! -e "$plugin/libnccl-net.so" ]; then ln -s libnccl-net-ofi.so "$plugin/libnccl-net.so"; fi

# 00: before the distribution's folders, whose libfabric knows nothing of this EFA release.
printf '%s\n' "$libfabric" "$plugin" "$nccl" "$cudart" | awk '!seen[$0]++' | tee "$root/etc/ld.so.conf.d/00-efa.conf"
ldconfig
