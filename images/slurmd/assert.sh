#!/bin/bash
# Runs the assertions of assert.d, all or those whose numbers are given, and names every one that failed.
# An assertion says in its second line what it prevents, and calls `fail` with what is wrong, why it matters, what to do.
# ASSERT_ROOT: a made-up root file system instead of this one; commands are then its own, by PATH.
set -euo pipefail
export ASSERT_ROOT=${ASSERT_ROOT:-}
fail() {
  echo "$*" >&2
  exit 1
}
export -f fail

ran=0 failed=()
for file in "$(dirname "$0")"/assert.d/*.sh; do
  name=${file##*/} name=${name%.sh}
  if [ $# -gt 0 ] && [[ " $* " != *" ${name%%-*} "* ]]; then continue; fi
  ran=$((ran + 1))
  if said=$(bash -euo pipefail "$file" 2>&1); then
    echo "ok $name: $said"
  else
    failed+=("$name")
    printf 'FAILED %s: %s\n  %s\n' "$name" "$said" "$(sed -n '2s/^# //p' "$file")"
  fi
done
if [ "$ran" = 0 ]; then fail "no assertion has the number $*"; fi
if [ ${#failed[@]} -gt 0 ]; then fail "${#failed[@]} of $ran assertions failed: ${failed[*]}"; fi
echo "$ran assertions hold"
