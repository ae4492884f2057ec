#!/bin/bash
# Prevents: keys in the image: who can pull it would have them, and all pods would share one host key.
found=$(find "$ASSERT_ROOT/root/.ssh" "$ASSERT_ROOT/etc/munge" "$ASSERT_ROOT/etc/slurm" "$ASSERT_ROOT"/home/*/.ssh "$ASSERT_ROOT/root/.aws" \
  "$ASSERT_ROOT/root/.docker" \( -name 'id_*' -o -name authorized_keys -o -name '*.key' -o -name credentials -o -name config.json \) 2>/dev/null || true)
found+=$(find "$ASSERT_ROOT/etc/ssh" -name 'ssh_host_*_key' 2>/dev/null || true)
found+=$(grep -rlE --exclude-dir=ssl -e '-----BEGIN ([A-Z]+ )*PRIVATE KEY-----' "$ASSERT_ROOT/etc" "$ASSERT_ROOT/root" 2>/dev/null || true)
if [ -n "$found" ]; then fail "keys in the image: $(xargs <<<"$found"); keys are mounted when a pod starts; remove the COPY that brings them"; fi
echo "none"
