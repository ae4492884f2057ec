#!/bin/bash
# Prevents: jobs that run the distribution's Python, which has no torch, and a supervisord that runs the container's.
path=$ASSERT_ROOT/usr/local/sbin:$ASSERT_ROOT/usr/local/bin:$ASSERT_ROOT/usr/sbin:$ASSERT_ROOT/usr/bin # of a login, so of a job
theirs=$(PATH=$path command -v python3) || fail "python3: not on a login's PATH; link it in /usr/local/bin"
if [ "$theirs" != "$ASSERT_ROOT/usr/local/bin/python3" ]; then fail "python3: jobs would run $theirs; link the container's in /usr/local/bin"; fi
program=$(readlink -f "$theirs")
if [ "$program" != "$ASSERT_ROOT/usr/local/bin/python3.12" ]; then fail "python3: leads to $program, not to the container's python3.12; correct the link"; fi
system=$ASSERT_ROOT/usr/bin/python3
read -r interpreter <"$(command -v supervisord)"
case $interpreter in
  "#!$system"*) ;;
  *) fail "supervisord: starts with '$interpreter', wanted #!$system; the container's Python has no supervisor, the pod would not start" ;;
esac
"$system" -c 'import supervisor' || fail "$system: cannot import supervisor; the pod would not start; leave the base's Python alone"
echo "jobs have $program, supervisord has $system"
