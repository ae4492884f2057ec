"""Text -> verdict: pure functions that judge what Slurm, NCCL and the jobs print. Standard library only."""
