"""Job scripts out of the contract."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.render import minutes_of, render, time_limit
from plan.contract import ClusterContract, NodesetContract, plan_contract
from settings.load import from_stack_file

ROOT = Path(__file__).resolve().parents[2]
SHELLCHECK = shutil.which("shellcheck") or shutil.which("shellcheck", path=str(Path(sys.executable).parent))


def _contract(stack: str) -> ClusterContract:
    return plan_contract(from_stack_file(ROOT / f"Pulumi.{stack}.yaml", stack))


def _scripts(contract: ClusterContract, nodeset: NodesetContract | None = None) -> dict[str, str]:
    files = render(contract, nodeset or contract.nodesets[0])
    return {name: text for name, text in files.items() if name.endswith(".sbatch")}


DEV, PROD = _contract("dev"), _contract("prod")
NAMES = sorted(_scripts(DEV))
MULTI_NODE = ("finetune", "nccl-allgather", "nccl-allreduce", "pairwise", "sanity")


def test_all_jobs_of_the_walkthrough_and_the_health_checks_are_there() -> None:
    walkthrough = {"sanity", "nccl-tests-build", "nccl-allreduce", "nccl-allgather", "finetune"}
    ours = {"node", "isolation-with", "isolation-without", "pairwise", "storage", "inference"}
    assert {name.removesuffix(".sbatch") for name in NAMES} == walkthrough | ours


@pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck is not installed")
@pytest.mark.parametrize("contract", [DEV, PROD], ids=["dev", "prod"])
def test_rendered_scripts_are_clean_for_shellcheck(contract: ClusterContract, tmp_path: Path) -> None:
    for name, text in _scripts(contract).items():
        (tmp_path / name).write_text(text)
    done = subprocess.run([str(SHELLCHECK), *map(str, tmp_path.iterdir())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_every_job_fails_with_its_first_failing_command_and_logs_where_users_look(name: str) -> None:
    text = _scripts(DEV)[name]
    assert text.startswith("#!/bin/bash\n#SBATCH ")
    directives, _, body = text.partition("set -euo pipefail\n")
    assert all(line.startswith("#") for line in directives.splitlines()), "commands before `set -e`"
    assert body
    assert f"#SBATCH --job-name={name.removesuffix('.sbatch')}\n" in directives
    assert "#SBATCH --output=/shared/logs/%x-%j.out\n" in directives
    assert "ulimit -l" in body
    assert "/dev/shm" in body


@pytest.mark.parametrize("name", MULTI_NODE)
def test_jobs_over_several_nodes_export_the_familys_variables_and_guard_the_meeting_point(name: str) -> None:
    nodeset = DEV.nodesets[0]
    text = _scripts(DEV)[f"{name}.sbatch"]
    for key, value in nodeset.job_environment.items():
        assert re.search(rf"^export {key}='?{re.escape(value)}'?$", text, re.MULTILINE), key
    assert f"#SBATCH --gres={nodeset.gres}\n" in text
    assert f"#SBATCH --nodes={nodeset.nodes}\n" in text
    assert "MASTER_ADDR=${hosts[0]:?MASTER_ADDR is empty" in text
    assert 'getent hosts "$MASTER_ADDR"' in text


@pytest.mark.parametrize("name", ["nccl-allreduce", "nccl-allgather", "pairwise", "node"])
def test_mpi_jobs_name_pmix_themselves(name: str) -> None:
    assert "srun --mpi=pmix " in _scripts(DEV)[f"{name}.sbatch"]


def test_the_meeting_point_is_refused_when_the_host_list_is_empty_or_does_not_resolve(tmp_path: Path) -> None:
    guard = re.search(r"^mapfile.*?^export MASTER_ADDR.*?$", _scripts(DEV)["sanity.sbatch"], re.MULTILINE | re.DOTALL)
    assert guard is not None
    for hosts, said in (("true", "MASTER_ADDR is empty"), ("echo no-such-host.invalid", "does not resolve")):
        script = (
            f"set -euo pipefail\nscontrol() {{ {hosts}; }}\nSLURM_JOB_ID=1 SLURM_JOB_NODELIST=x\n{guard[0]}\necho met\n"
        )
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert said in done.stdout + done.stderr
        assert "met" not in done.stdout


def test_nothing_of_the_contract_is_written_into_a_template() -> None:
    """Another cluster in every respect: no number, name or path of the walkthrough's may be left in its scripts."""
    other = dataclasses.replace(
        DEV.nodesets[0],
        name="gpu",
        partition="big",
        instance_type="p5.48xlarge",
        nodes=37,
        gpus_per_node=16,
        gres="gpu:nvidia_h100_80gb_hbm3:16",
        cuda_arch="sm_90",
        job_environment={"NCCL_DEBUG": "INFO"},
    )
    contract = dataclasses.replace(DEV, shared_path="/elsewhere", nodesets=(other,))
    for name, text in _scripts(contract).items():
        assert not re.search(
            r"slinky|nvidia_l4|sm_89|/shared|FI_PROVIDER|P2P_DISABLE|SBATCH --nodes=2\b|nproc_per_node=4", text
        ), name


def test_hardware_with_gpudirect_gets_almost_no_variables() -> None:
    text = _scripts(PROD)["nccl-allreduce.sbatch"]
    assert set(re.findall(r"^export ([A-Z_]+)=", text, re.MULTILINE)) == {"NCCL_DEBUG", "NCCL_SOCKET_IFNAME"}
    assert "#SBATCH --nodes=128\n" in text
    assert "--ntasks-per-node=8" in text


def test_values_are_quoted_for_the_shell() -> None:
    odd = dataclasses.replace(DEV.nodesets[0], job_environment={"NCCL_SOCKET_IFNAME": "^lo,docker; rm -rf '$HOME'"})
    text = _scripts(DEV, odd)["sanity.sbatch"]
    line = next(line for line in text.splitlines() if line.startswith("export NCCL_SOCKET_IFNAME"))
    done = subprocess.run(
        ["bash", "-c", f'{line}\nprintf %s "$NCCL_SOCKET_IFNAME"'], capture_output=True, text=True, check=True
    )
    assert done.stdout == "^lo,docker; rm -rf '$HOME'"


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [
        ("UNLIMITED", None),
        ("5", 5),
        ("90:00", 90),
        ("24:00:00", 1440),
        ("7-00:00:00", 10080),
        ("1-12", 2160),
        ("0:30", 1),
        ("1-0:5", 1445),
    ],
)
def test_slurms_time_formats_are_read(limit: str, minutes: int | None) -> None:
    assert minutes_of(limit) == minutes


def test_no_job_asks_for_more_time_than_its_partition_allows() -> None:
    assert time_limit(30, max_time="24:00:00") == "30"
    assert time_limit(30, max_time="00:05:00") == "5"
    short = dataclasses.replace(DEV.nodesets[0], max_time="00:02:00")
    assert {re.search(r"--time=(\d+)", text)[1] for text in _scripts(DEV, short).values()} == {"2"}  # type: ignore[index]


def test_the_scripts_do_not_grow_with_the_number_of_nodes() -> None:
    few, many = (dataclasses.replace(DEV.nodesets[0], nodes=count) for count in (2, 999))
    sizes = [sum(map(len, _scripts(DEV, nodeset).values())) for nodeset in (few, many)]
    assert sizes[1] - sizes[0] < 100


def test_users_can_have_the_scripts_as_files(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jobs", "dev", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    written = {path.name: path.read_text() for path in (tmp_path / "slinky").iterdir()}
    assert written == dict(render(DEV, DEV.nodesets[0]))
