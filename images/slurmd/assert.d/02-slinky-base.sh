#!/bin/bash
# Prevents: a pod without Slinky's entrypoint, which sets the node's CPU and memory limits and starts slurmd and sshd.
entrypoint=$ASSERT_ROOT/usr/local/bin/entrypoint.sh
if [ ! -x "$entrypoint" ]; then fail "$entrypoint: missing or not executable; it is the base's, and no COPY may cover it"; fi
grep -q 'exec supervisord' "$entrypoint" || fail "$entrypoint: is not Slinky's, it starts no supervisord; a COPY covers it"
for command in scontrol sshd supervisord; do
  command -v "$command" >/dev/null || fail "$command: not on PATH $PATH; it comes with the base"
done
grep -q '^slurm:[^:]*:401:401:' "$ASSERT_ROOT/etc/passwd" || fail "user slurm: not uid and gid 401, as which the controller writes; keep the base's"
echo "entrypoint, daemons and user slurm are the base's"
