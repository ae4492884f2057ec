#!/bin/bash
# Prevents: NCCL, EFA or GPU settings of one instance family that silently apply to all others too.
names=$(env | sed -nE 's/^((NCCL|FI|OFI|RDMAV)_[^=]*|LD_PRELOAD|PYTHONPATH|PYTHONHOME|NVIDIA_VISIBLE_DEVICES)=.*/\1/p')
if [ -n "$names" ]; then fail "environment: $(xargs <<<"$names"); the job scripts set what their instance family needs; remove the ENV"; fi
conf=$ASSERT_ROOT/etc/nccl.conf
if grep -sE '^[^#]*=' "$conf"; then fail "$conf: sets the above for every job, before any script can; do not copy it"; fi
echo "none"
