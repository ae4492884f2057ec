"""A real Slurm on this machine, with the product's own lines, scripts and runner on it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from jobs.render import NCCL_TESTS_TAG, render
from plan import Plan, make_plan
from plan.contract import ClusterContract
from plan.validation import runner_files
from settings.load import from_stack_file
from tools.slurm_lab import SCRIPT, product_conf

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = Path(__file__).parent / "stand_ins"
UNAVAILABLE = 3  # exit code of slurm_lab.sh
DAEMONS = ("slurmctld", "slurmd-slinky-0", "slurmd-slinky-1")
# Torch from Debian has no CUDA, both nodes are one host, and its torchrun needs its outputs redirected to start at all.
ENVIRONMENT = {
    "SANITY_BACKEND": "gloo",
    "SANITY_MIB": "4",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
    "PET_REDIRECTS": "1",
    "PET_TEE": "1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_pml": "ob1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


class Unavailable(Exception):
    """No Slurm can be had here, and why."""


class Lab:
    """Two nodes `slinky-0` and `slinky-1` with four pretended L4 each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.plan: Plan = make_plan(from_stack_file(ROOT / "Pulumi.dev.yaml", "dev"))
        (nodeset,) = self.plan.contract.nodesets
        # No EFA here; the rest of the contract is the walkthrough's, with the lab's folder for /shared.
        self.nodeset = dataclasses.replace(nodeset, efa_interfaces=0)
        self.contract: ClusterContract = dataclasses.replace(
            self.plan.contract, shared_path=str(self.shared), accounting=True, nodesets=(self.nodeset,)
        )
        self.environment = {
            "PATH": f"{STAND_INS}:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": os.environ.get("HOME", "/"),
            "SLURM_LAB": str(folder),
            "SLURM_CONF": str(folder / "etc" / "slurm.conf"),
            **ENVIRONMENT,
        }
        self.conf = folder / "etc" / "product.conf"

    def up(self) -> str:
        wanted = self.folder / "wanted.conf"
        wanted.write_text(product_conf(self.plan))
        wanted.chmod(0o600)  # as the command's own temporary file is; the daemons must be able to read the copy
        done = self._script("up", str(wanted))
        if done.returncode == UNAVAILABLE:
            raise Unavailable(done.stderr.strip().splitlines()[-1])
        assert done.returncode == 0, done.stdout + done.stderr
        programs = self.shared / "nccl-tests" / f"{NCCL_TESTS_TAG}-{self.nodeset.cuda_arch}" / "build"
        programs.mkdir(parents=True)
        shutil.copy(STAND_INS / "all_reduce_perf", programs)
        return done.stdout

    def down(self) -> None:
        self._script("down")

    def start(self, *daemons: str) -> None:
        for daemon in daemons:
            self._script("start", daemon)

    def stop(self, *daemons: str, signal: str = "TERM") -> None:
        for daemon in daemons:
            self._script("stop", daemon, signal)

    def restart(self, *daemons: str) -> None:
        self.stop(*reversed(daemons))
        self.start(*daemons)

    def _script(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [SCRIPT, *arguments], env=self.environment, capture_output=True, text=True, timeout=600, check=False
        )

    def run(self, command: str, *, timeout: float = 60, cwd: Path | None = None) -> str:
        """Output and errors of a shell command with the lab's clients."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            cwd=cwd,
        )
        return done.stdout + done.stderr

    def submit(self, options: str) -> str:
        """The id of a job in the background."""
        answer = self.run(f"sbatch --parsable --output={self.shared}/logs/%x-%j.out {options}").strip()
        if not answer.isdigit():
            raise AssertionError(answer)
        return answer

    def wait(self, job: str, *, seconds: float = 150) -> None:
        """Until the job has finished and accounting knows it."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = self.run(f"sacct -n -X -P -j {job} --format=State,End").strip().splitlines()
            left = self.run(f"squeue -h -j {job} -o %T 2>/dev/null").strip()
            if state and not left and not state[0].endswith("Unknown"):
                return
            time.sleep(0.5)
        raise AssertionError(f"job {job} does not end: {self.run('squeue')}")

    def sacct(self, job: str) -> str:
        return self.run(f"sacct -P -j {job} --format=JobID,JobName,State,ExitCode,DerivedExitCode,NodeList")

    def until(self, node: str, states: str, *, seconds: float = 60) -> None:
        """Until the node's state word is one of those (`idle|mix`)."""
        end = time.monotonic() + seconds
        while (state := self.run(f"sinfo -h -N -n {node} -o %t").strip()) not in states.split("|"):
            if time.monotonic() > end:
                raise AssertionError(f"{node} is {state}, not {states}: {self.run(f'scontrol show node {node}')}")
            time.sleep(0.3)

    def asked(self, command: str, answer: str, *, seconds: float = 60) -> None:
        """Until the command's output has the answer in it."""
        end = time.monotonic() + seconds
        while answer not in (said := self.run(command)):
            assert time.monotonic() < end, f"{command} never said {answer}: {said}"
            time.sleep(0.3)

    def bundle(self, folder: Path) -> Path:
        """The files that JobValidation mounts, as they lie in the pod."""
        files = runner_files(self.contract)
        scripts = {f"{self.nodeset.name}.{name}": text for name, text in render(self.contract, self.nodeset).items()}
        for name, text in {**files, **{f"scripts/{name}": text for name, text in scripts.items()}}.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        return folder

    def check(self, folder: Path, *checks: str, seconds: int = 300) -> tuple[int, dict[str, dict[str, Any]], str]:
        """(exit code, {check: result}, what was printed) of the runner as it runs in its pod, but for --local."""
        done = subprocess.run(
            [
                *(sys.executable, "-B", str(self.bundle(folder)), "--local", "--backend=gloo"),
                *(f"--timeout-seconds={seconds}", "--checks", *checks),
            ],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=seconds + 60,
            check=False,
        )
        latest = self.shared / "validation" / "latest-chosen.json"
        results: list[dict[str, Any]] = json.loads(latest.read_text())["checks"] if latest.exists() else []
        return done.returncode, {result["check"]: result for result in results}, done.stdout + done.stderr
