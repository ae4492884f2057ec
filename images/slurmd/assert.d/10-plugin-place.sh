#!/bin/bash
# Prevents: a loader configuration that names an old folder of the plugin; no error anywhere, only TCP.
conf=$ASSERT_ROOT/etc/ld.so.conf.d/00-efa.conf
mapfile -t folders < <(find "$ASSERT_ROOT/opt/amazon" -name 'libnccl-net*.so' -printf '%h\n' | sort -u)
if [ ${#folders[@]} != 1 ]; then fail "plugin: in ${#folders[@]} folders of /opt/amazon (${folders[*]:-none}), wanted one; see the DLC image's EFA version"; fi
grep -qxF "${folders[0]}" "$conf" || fail "$conf: does not name ${folders[0]}, where the plugin is; run locate.sh after the COPY lines"
echo "${folders[0]}"
