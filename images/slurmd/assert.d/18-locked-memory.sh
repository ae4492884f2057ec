#!/bin/bash
# Prevents: EFA that cannot register memory ('Cannot allocate memory'), because a limit of the image is below the pod's.
limits=$(find "$ASSERT_ROOT/etc/security" -path '*/limits*' -name '*.conf' -exec \
  awk '!/^[[:space:]]*#/ && $3 == "memlock" && $4 != "unlimited" && $4 != "-1"' {} +)
if [ -n "$limits" ]; then fail "limits.conf: '$limits'; PAM lowers what the pod is given; leave memlock out or unlimited"; fi
echo "no limit in the image"
