#!/bin/bash
# Prevents: two libraries of one name in the wrong order, above all Amazon's MPI in place of the distribution's.
cache=$(ldconfig -p)
first() { awk -v name="$1" '$1 == name {print $NF; exit}' <<<"$cache"; }
for name in libfabric.so.1 libnccl.so.2 libmpi.so.40 libpmix.so.2; do
  if [ -z "$(first $name)" ]; then fail "$name: not in the loader's cache; see the apt-get line and locate.sh"; fi
done
case $(first libfabric.so.1) in
  "$ASSERT_ROOT"/opt/amazon/efa/*) ;;
  *) fail "libfabric.so.1: $(first libfabric.so.1) comes first; EFA's must; its file in ld.so.conf.d must sort before the distribution's" ;;
esac
if grep -q "=> $ASSERT_ROOT/opt/amazon/openmpi" <<<"$cache"; then
  fail "/opt/amazon/openmpi: in the loader's cache; its PMIx is not Slurm's, ranks would not find each other; do not copy it"
fi
echo "libmpi is $(first libmpi.so.40)"
