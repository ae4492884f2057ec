"""The product's own rendered scripts and its runner on a real Slurm. What needs a GPU or EFA is judged as missing
here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from judges.nccl import judge_nccl
from judges.pmix import judge_run
from tests.slurm.lab import Lab

pytestmark = pytest.mark.slurm


def test_the_runner_passes_nodes_sanity_and_storage_and_saves_what_it_found(lab: Lab, tmp_path: Path) -> None:
    code, results, said = lab.check(tmp_path, "nodes", "node", "sanity", "storage")
    assert code == 0, said
    assert [result["verdict"]["status"] for result in results.values()] == ["passed"] * 4
    (job,) = results["sanity"]["jobs"]
    assert job["nodes"] == "slinky-[0-1]"
    assert job["state"] == "COMPLETED"
    log = Path(job["log"]).read_text()
    ending = [line for line in log.splitlines() if "all_reduce" in line]
    assert ending == ["[default0]:all_reduce OK: value 8.0 == world_size 8.0"]
    assert "gres:gpu:nvidia_l4:4" in lab.run(f"scontrol -d show job {job['job_id']}")
    assert list(lab.shared.glob("validation/2*-chosen.json"))


def test_a_job_that_finds_no_gpu_fails_the_isolation_check_and_the_run(lab: Lab, tmp_path: Path) -> None:
    code, results, said = lab.check(tmp_path, "nodes", "isolation")
    assert code == 1, said
    assert results["isolation"]["verdict"]["cause"] == "gpus-missing"
    logs = [Path(job["log"]).read_text() for job in results["isolation"]["jobs"]]
    assert [log.count("isolation asked") for log in logs] == [1, 1]
    assert "CUDA_VISIBLE_DEVICES=0" in logs[0]  # Slurm gave one GPU to the one ...
    assert "CUDA_VISIBLE_DEVICES=(not set)" in logs[1]  # ... and none to the other


def test_the_benchmark_runs_in_one_world_through_pmix_and_an_unknown_bandwidth_is_no_pass(
    lab: Lab, tmp_path: Path
) -> None:
    code, results, said = lab.check(tmp_path, "nccl-allreduce")
    verdict = results["nccl-allreduce"]["verdict"]
    # 4 GB/s at 1 GiB is above the floor of 2x g6.12xlarge; without EFA nothing is said of the transport.
    assert (code, verdict["status"]) == (0, "passed"), said
    assert "8 ranks on 2 nodes" in verdict["reason"]


def test_the_pairs_of_nodes_run_alone_and_are_told_apart(lab: Lab, tmp_path: Path) -> None:
    code, results, said = lab.check(tmp_path, "pairwise")
    assert code == 0, said
    assert "all 1 pairs right" in results["pairwise"]["verdict"]["reason"]


def test_ranks_that_mpi_did_not_wire_are_not_taken_for_one_world(lab: Lab) -> None:
    """Eight programs that know nothing of each other: a world of one per rank, exit code 0, and nothing wrong in any
    table.
    """
    alone = "env -i PATH=/usr/bin SLURMD_NODENAME=$SLURMD_NODENAME SLURM_LOCALID=0"
    program = f"{lab.shared}/nccl-tests/*/build/all_reduce_perf -b 1M -e 4M"
    log = lab.run(f"srun --mpi=none -N2 -n8 sh -c '{alone} {program}'", timeout=120)
    verdict = judge_nccl(log, nodeset=lab.nodeset, collective="all_reduce")
    assert (verdict.status, verdict.cause) == ("failed", "mpi-singletons"), log[-2000:]


def test_ranks_that_mpi_cannot_wire_are_told_apart_from_those_that_it_did_not(lab: Lab) -> None:
    """Debian's MPI sees Slurm, finds no PMI, and ends."""
    program = f"{lab.shared}/nccl-tests/*/build/all_reduce_perf -b 1M -e 4M"
    log = lab.run(f"srun --mpi=none -N2 -n8 {program}", timeout=120)
    verdict = judge_nccl(log, nodeset=lab.nodeset, collective="all_reduce")
    assert (verdict.status, verdict.cause) == ("failed", "pmix-missing"), log[-2000:]


def test_pmix_is_proven_by_a_run(lab: Lab) -> None:
    task = "echo pmix rank ${PMIX_RANK:-none} of $SLURM_NTASKS namespace ${PMIX_NAMESPACE:-none}"
    assert judge_run(lab.run(f"srun --mpi=pmix -N2 -n4 sh -c '{task}'"), ranks=4).status == "passed"
    assert judge_run(lab.run(f"srun --mpi=none -N2 -n4 sh -c '{task}'"), ranks=4).status == "failed"
