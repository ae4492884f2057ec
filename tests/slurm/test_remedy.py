"""Nodes that fail are drained, and ours come back, on a real Slurm; what others drained stays drained."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from jobs.checks import Nodeset
from jobs.render import render
from jobs.results import CheckResult
from jobs.runner import Cluster, Runner
from jobs.shells import Answer
from tests.slurm.lab import STAND_INS, Lab

pytestmark = pytest.mark.slurm


class LabShell:
    """A shell with the lab's clients and some programs before them on its path."""

    def __init__(self, lab: Lab, *, first_on_path: Path) -> None:
        self._environment = {**lab.environment, "PATH": f"{first_on_path}:{lab.environment['PATH']}"}

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=self._environment,
            input=stdin,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        return Answer(code=done.returncode, out=done.stdout.decode(), err=done.stderr.decode())


@pytest.fixture
def gpu_lost(lab: Lab, tmp_path: Path) -> Path:
    """A file in which a node is named that shows three GPUs only."""
    folder, lost = tmp_path / "bin", tmp_path / "lost"
    folder.mkdir()
    tmp_path.chmod(0o755)
    program = folder / "nvidia-smi"
    program.write_text(
        f'#!/bin/sh\n{STAND_INS}/nvidia-smi "$@" | '
        f'if [ "$(cat {lost})" = "$SLURMD_NODENAME" ]; then head -n 3; else cat; fi\n'
    )
    program.chmod(0o755)
    lost.write_text("")
    return lost


def _health(lab: Lab, gpu_lost: Path, *names: str) -> dict[str, CheckResult]:
    nodeset = lab.nodeset
    scripts = {f"{nodeset.name}.{name}": text for name, text in render(lab.contract, nodeset).items()}
    fields = {name: getattr(nodeset, name) for name in Nodeset.__dataclass_fields__ if name != "only"}
    runner = Runner(
        LabShell(lab, first_on_path=gpu_lost.parent / "bin"),
        Cluster(name="lab", shared_path=str(lab.shared), accounting=True, nodesets=(Nodeset(**fields),)),
        scripts,
        suite="health",
        names=names,
        revision="remedy",
        timeout_seconds=240,
        drain=True,
    )
    results = {result.check: result for result in runner.run().results}
    assert json.loads(Path(runner.save()).read_text())["suite"] == "health"
    return results


def _node(lab: Lab, name: str) -> str:
    found = re.findall(r"State=(\S+)|Reason=(.*?)(?: \[|$)", lab.run(f"scontrol -o show node {name}"))
    return " ".join(part for pair in found for part in pair if part)


def test_a_node_that_lost_a_gpu_is_drained_stays_out_while_it_fails_and_comes_back_when_it_is_well(
    lab: Lab, gpu_lost: Path
) -> None:
    gpu_lost.write_text("slinky-1")
    found = _health(lab, gpu_lost, "nodes", "node")
    assert found["node"].verdict.cause == "gpu-count"
    assert found["drain"].verdict.status == "passed", found["drain"].verdict
    reason = "health:node: slinky-1 shows 3 of 4 GPUs"
    assert _node(lab, "slinky-1") == f"IDLE+DRAIN {reason}"
    assert _node(lab, "slinky-0") == "IDLE"

    again = _health(lab, gpu_lost, "node")  # the other node is checked alone, and passes
    assert again["node"].verdict.status == "passed", again["node"].verdict
    assert again["recheck-slinky-1"].verdict.status == "failed"
    assert _node(lab, "slinky-1") == f"IDLE+DRAIN {reason}"

    gpu_lost.write_text("")
    well = _health(lab, gpu_lost, "node")
    assert well["recheck-slinky-1"].verdict.status == "passed", well["recheck-slinky-1"].verdict
    assert well["recheck-slinky-1"].jobs[0].nodes == "slinky-1"
    assert _node(lab, "slinky-1") == "IDLE"
    assert "No reservations" in lab.run("scontrol show reservation")


def test_a_node_that_was_drained_for_another_reason_is_neither_tried_nor_resumed(lab: Lab, gpu_lost: Path) -> None:
    lab.run("scontrol update nodename=slinky-1 state=drain reason='kernel upgrade'")
    found = _health(lab, gpu_lost, "node")
    assert set(found) == {"node"}
    assert _node(lab, "slinky-1") == "IDLE+DRAIN kernel upgrade"


def test_health_checks_leave_a_node_that_works_for_someone_alone(lab: Lab, gpu_lost: Path) -> None:
    job = lab.submit("--nodelist=slinky-0 --exclusive --wrap='sleep 120'")
    lab.until("slinky-0", "alloc")
    found = _health(lab, gpu_lost, "node")
    assert found["node-busy"].verdict.status == "skipped"
    assert found["node"].jobs[0].nodes == "slinky-1"
    assert "RUNNING" in lab.run(f"squeue -h -j {job} -o %T")


def test_both_nodes_failing_alike_drains_none(lab: Lab, gpu_lost: Path) -> None:
    program = gpu_lost.parent / "bin" / "nvidia-smi"
    program.write_text(f'#!/bin/sh\n{STAND_INS}/nvidia-smi "$@" | head -n 3\n')
    found = _health(lab, gpu_lost, "node")
    assert found["drain"].verdict.cause == "common-cause"
    assert [_node(lab, name) for name in lab.nodeset.node_names] == ["IDLE", "IDLE"]
