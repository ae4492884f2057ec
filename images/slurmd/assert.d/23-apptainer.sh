#!/bin/bash
# Prevents: jobs that bring their own container and find no runtime, or one without its helpers.
for command in apptainer mksquashfs squashfuse fuse-overlayfs newuidmap; do
  command -v "$command" >/dev/null || fail "$command: not on PATH; see the apt-get line"
done
said=$(apptainer --version 2>&1) || fail "apptainer --version: $said; see the apt-get line"
echo "$said"
