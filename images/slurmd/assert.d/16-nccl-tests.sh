#!/bin/bash
# Prevents: a benchmark that does not compile, or runs with another MPI, after 20 minutes on the cluster.
build=$ASSERT_ROOT/tmp/nccl-tests/build
count=$(find "$build" -name '*_perf' -type f -size +0 -perm -u+x | wc -l)
if [ "$count" != 11 ]; then fail "nccl-tests: $count programs in $build, wanted 11; see the output of make"; fi
program=$build/all_reduce_perf
links=$(ldd "$program" 2>&1)
# The driver's library is the host's, mounted when a container starts.
if missing=$(grep 'not found' <<<"$links" | grep -v 'libcuda.so.1'); then fail "$program:${missing}; see the COPY and apt-get lines"; fi
libmpi=$(awk '$1 == "libmpi.so.40" {print $3}' <<<"$links")
case ${libmpi:-none} in
  "$ASSERT_ROOT"/opt/amazon/*) fail "$program: linked to $libmpi, whose PMIx is not Slurm's; no /opt/amazon/openmpi in the image" ;;
  none) fail "$program: not linked to libmpi.so.40; every rank would be alone; make it with MPI=1" ;;
esac
echo "11 programs, libmpi is $libmpi"
