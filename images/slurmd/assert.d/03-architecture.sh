#!/bin/bash
# Prevents: an image built for another processor, as on an arm laptop: 'exec format error' on every node.
machine=$(uname -m)
if [ "$machine" != x86_64 ]; then fail "uname -m: got $machine; GPU nodes are x86_64; build with --platform linux/amd64"; fi
for command in slurmd python3; do
  file=$(readlink -f "$(command -v "$command")")
  header=$(od -An -tx1 -N20 "$file" | tr -d ' \n')
  if [ "${header:0:8}${header:36:4}" != 7f454c463e00 ]; then
    fail "$file: not a program for x86_64 (ELF header $header); both bases must be of platform linux/amd64"
  fi
done
echo "x86_64"
