"""The judges against samples of other people's logs: the confusion table must be perfect.

Each sample's first line carries its verdict and is not shown to the judge. The folder lies beside the repository; a
clone without it still has our own samples in the other tests of this folder.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from judges.detect import judge_any
from judges.verdict import Verdict

SAMPLES = Path(__file__).parents[3] / "shared" / "data" / "log-samples"
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Walkthrough:
    """2x g6.12xlarge."""

    instance_type: str = "g6.12xlarge"
    nodes: int = 2
    gpus_per_node: int = 4
    gres: str = "gpu:nvidia_l4:4"
    efa_interfaces: int = 1
    node_names: tuple[str, ...] = ("slinky-0", "slinky-1")


# {sample: (kind, [(status, cause) of each verdict])}
WANTED: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "01-nccl-efa-ok": ("nccl-tests", [("passed", "ok")]),
    "02-nccl-efa-ok-old-plugin-wording": ("nccl-tests", [("passed", "ok")]),
    "03-nccl-socket-fallback": ("nccl-tests", [("failed", "socket-transport")]),
    "04-nccl-plugin-not-on-path": ("nccl-tests", [("failed", "plugin-not-found")]),
    "05-nccl-ofi-but-tcp-provider": ("nccl-tests", [("failed", "provider-not-efa")]),
    "07-nccl-wrong-nonzero": ("nccl-tests", [("failed", "wrong-values")]),
    "09-nccl-singletons": ("nccl-tests", [("failed", "mpi-singletons")]),
    "10-nccl-shm-too-small": ("nccl-tests", [("failed", "shm-too-small")]),
    "11-efa-memlock": ("job log", [("failed", "locked-memory-limit")]),
    "12-efa-sg-no-self-egress": ("nccl-tests", [("failed", "efa-handshake-blocked")]),
    "13-torchrun-rendezvous-timeout": ("job log", [("failed", "rendezvous-timeout")]),
    "14-hostnames-not-resolved": ("job log", [("failed", "names-do-not-resolve")]),
    "20-sinfo-gres-null": ("sinfo", [("failed", "gres-null")]),
    "21-sinfo-ok": ("sinfo", [("passed", "ok")]),
    "23-scontrol-node-down-dynamic": ("scontrol show node", [("failed", "down-after-restart")]),
    "24-scontrol-node-wedged-drain": ("scontrol show node", [("failed", "wedged-drain")]),
    "25-scontrol-node-invalid-reg-gres": ("scontrol show node", [("failed", "invalid-reg")]),
    "28-slurmd-gpus-ignored": ("slurmd log", [("failed", "gpus-ignored")]),
    "29-slurmd-config-only-gpu-discarded": ("slurmd log", [("failed", "gres-type-mismatch")]),
    "30-fi-info-no-efa": ("fi_info", [("failed", "no-efa")]),
    "32-fi-info-ok": ("fi_info", [("passed", "ok")]),
    "33-srun-mpi-list-no-pmix": ("MPI plugins", [("failed", "pmix-missing")]),
    "34-srun-mpi-list-ok": ("MPI plugins", [("passed", "ok")]),
    "40-sacct-mixed-states": (
        "sacct",
        [
            ("passed", "ok"),
            ("failed", "node-fail"),
            ("failed", "timeout"),
            ("failed", "out-of-memory"),
            ("failed", "cancelled"),
            ("error", "not-finished"),
        ],
    ),
    "44-oom-in-job-log": ("fine-tune", [("failed", "oom-kill")]),
    "46-sbatch-rejections": (
        "submission",
        [
            ("failed", "node-configuration"),
            ("failed", "no-partition"),
            ("failed", "association"),
            ("failed", "memory"),
        ],
    ),
    "50-slurmrestd-jobs-v0044.json": (
        "slurmrestd jobs",
        [
            ("passed", "ok"),
            ("failed", "node-fail"),
            ("failed", "timeout"),
            ("failed", "out-of-memory"),
            ("passed", "ok"),
            ("error", "not-finished"),
            ("error", "not-finished"),
        ],
    ),
}


def _text(name: str) -> str:
    first, _, rest = (SAMPLES / f"{name}.txt").read_text().partition("\n")
    assert first.startswith("#@")
    return rest


@pytest.mark.parametrize("name", sorted(WANTED))
def test_a_sample_gets_its_verdict_and_cause(name: str) -> None:
    kind, verdicts = judge_any(_text(name), _Walkthrough())
    assert (kind, [(verdict.status, verdict.cause) for verdict in verdicts]) == WANTED[name]


@pytest.mark.parametrize("name", sorted(WANTED))
def test_what_fails_names_its_evidence_and_a_remedy(name: str) -> None:
    text = _text(name)
    for verdict in judge_any(text, _Walkthrough())[1]:
        if verdict.status == "failed":
            assert verdict.remedy, verdict
            assert _evidence_is_there(verdict, text), verdict


def _evidence_is_there(verdict: Verdict, text: str) -> bool:
    return verdict.line is not None and 1 <= verdict.line <= text.count("\n") + 1


def test_no_sample_is_left_out() -> None:
    assert {path.stem for path in SAMPLES.glob("*.txt")} == set(WANTED)
