#!/bin/bash
# Prevents: results that do not tell which image they were measured with.
file=$ASSERT_ROOT/etc/slurmd-image
if [ ! -s "$file" ]; then fail "$file: missing or empty; describe.py writes it"; fi
if [ "$(wc -l <"$file")" != 1 ]; then fail "$file: more than one line; a job prints it as one"; fi
slurm=$(slurmd -V)
case $(cat "$file") in
  "${slurm#slurm }-torch2.9-cu130-mpi "*) cat "$file" ;;
  *) fail "$file: '$(cat "$file")' does not begin with ${slurm#slurm }-torch2.9-cu130-mpi, what this image is; run describe.py last" ;;
esac
