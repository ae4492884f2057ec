#!/bin/bash
# Prevents: a slurmd of another series than the controller's, which never registers.
version=$(slurmd -V)
case $version in
  "slurm ${SLURM_SERIES:?is a build argument}".*) echo "$version" ;;
  *) fail "slurmd -V: got '$version'; the chart's controller is $SLURM_SERIES and refuses other series; take the Slinky base of $SLURM_SERIES" ;;
esac
