#!/bin/bash
# Pins requirements.in with hashes: bash images/slurmd/lock.sh, with uv on PATH (or UV=<path>).
# In two passes, so that a version which the AWS container's own packages could not live with is never pinned.
set -euo pipefail
cd "$(dirname "$0")"
target=(--quiet --python-version 3.12 --python-platform x86_64-manylinux_2_28 --no-header --no-annotate)
bounds=$(mktemp)
trap 'rm -f "$bounds"' EXIT

"${UV:-uv}" pip compile "${target[@]}" requirements.in dlc.in >"$bounds"

# torch brings these, and the container has them; numpy is what its other modules were compiled against.
theirs=(torch triton numpy setuptools sympy mpmath networkx)
while read -r name; do theirs+=("$name"); done < <(grep -o '^nvidia-[a-z0-9-]*' "$bounds")
"${UV:-uv}" pip compile "${target[@]}" --generate-hashes --no-emit-index-url --no-emit-find-links --constraint "$bounds" \
  "${theirs[@]/#/--no-emit-package=}" --output-file requirements.txt requirements.in
