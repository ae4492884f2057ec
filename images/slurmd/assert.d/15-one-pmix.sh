#!/bin/bash
# Prevents: as many one-rank jobs as ranks, exit code 0: Slurm's plugin and MPI must load one and the same libpmix.
plugin=$(find "$ASSERT_ROOT/usr/lib" -path '*/slurm*/mpi_pmix_v*.so' -print -quit)
if [ -z "$plugin" ]; then fail "mpi_pmix: Slurm has no such plugin, srun --mpi=pmix is refused; take a base that was built with PMIx"; fi

# The plugin opens its library by name, at run time: the name and folders that are written in it, not what it is linked to.
# The awks read to the end: who writes to one that has gone is killed, and that ends this script without a word.
name=$(grep -aoE 'libpmix\.so(\.[0-9]+)*' "$plugin" | sort -u | head -n 1)
opened=
while read -r folder; do
  if [ -e "$ASSERT_ROOT$folder/${name:?is not in the plugin}" ]; then opened=$ASSERT_ROOT$folder/$name; fi
done < <(grep -aoE '/[[:graph:]]*/pmix[0-9]*/lib(64)?' "$plugin" | sort -u)
if [ -z "$opened" ]; then opened=$(ldconfig -p | awk -v name="$name" '$1 == name && !n++ {print $NF}'); fi
if [ -z "$opened" ]; then fail "$plugin: opens $name, which is nowhere; srun --mpi=list names pmix all the same; install libpmix-dev"; fi

# Open MPI 5 links to libpmix, Open MPI 4 does so in a component.
libmpi=$(ldconfig -p | awk '$1 == "libmpi.so.40" && !n++ {print $NF}')
mapfile -t objects < <(echo "${libmpi:?libmpi.so.40 is not installed}"; find "$ASSERT_ROOT/usr/lib" -name 'mca_pmix_ext*.so')
used=$(for object in "${objects[@]}"; do ldd "$object"; done | awk '$1 == "libpmix.so.2" && !n++ {print $3}')
if [ -z "$used" ]; then fail "$libmpi: uses no libpmix.so.2, so its ranks cannot meet under Slurm; install the distribution's Open MPI"; fi
if ! cmp -s "$(readlink -f "$opened")" "$(readlink -f "$used")"; then
  fail "libpmix: Slurm's plugin opens $opened, MPI loads $used; two versions do not talk; keep one of them"
fi

wanted=${plugin##*_v} wanted=${wanted%.so}
version=$(python3 -c '
import ctypes, re, sys
get = ctypes.CDLL(sys.argv[1]).PMIx_Get_version
get.restype = ctypes.c_char_p
print(re.search(r"\d+(\.\d+)+", get().decode())[0])' "$opened")
if [ "${version%%.*}" != "$wanted" ]; then fail "$opened: is PMIx $version, ${plugin##*/} refuses all but $wanted; take the distribution that the base was built on"; fi
echo "PMIx $version, $opened"
