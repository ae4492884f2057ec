#!/bin/bash
# Prevents: a libfabric without the EFA provider: NCCL then runs over TCP through the same plugin.
# Lists what is compiled in; `fi_info -p efa` needs a device, and there is none during a build.
providers=$("$ASSERT_ROOT/opt/amazon/efa/bin/fi_info" -l) || fail "fi_info -l: cannot run; see assertion 08"
grep -q '^efa:' <<<"$providers" || fail "fi_info -l: no efa among $(xargs <<<"$providers"); /opt/amazon/efa is not the EFA installer's"
echo "efa is compiled in"
