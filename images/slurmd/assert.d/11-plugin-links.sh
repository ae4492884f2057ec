#!/bin/bash
# Prevents: a plugin that cannot load, or that loads the distribution's libfabric in place of EFA's.
plugin=$(find "$ASSERT_ROOT/opt/amazon" -name 'libnccl-net*.so' -print -quit)
links=$(ldd "${plugin:?no plugin, see assertion 10}" 2>&1)
if missing=$(grep 'not found' <<<"$links"); then fail "$plugin:${missing}; install the package that brings it"; fi
libfabric=$(awk '$1 == "libfabric.so.1" {print $3}' <<<"$links")
case $libfabric in
  "$ASSERT_ROOT"/opt/amazon/efa/*) echo "$libfabric" ;;
  *) fail "$plugin: loads libfabric from '${libfabric:-nowhere}', which knows nothing of this EFA release; /opt/amazon/efa must come first in ld.so.conf.d" ;;
esac
