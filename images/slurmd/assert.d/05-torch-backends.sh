#!/bin/bash
# Prevents: a torch from PyPI's CPU builds, which trains on one process and fails at the first collective.
missing=$(python3 -c '
import torch.distributed as d
print(*[n for n, there in (("nccl", d.is_nccl_available()), ("gloo", d.is_gloo_available())) if not there])')
if [ -n "$missing" ]; then fail "torch.distributed: no $missing; another torch was installed over the container's; see requirements.txt"; fi
echo "nccl and gloo"
