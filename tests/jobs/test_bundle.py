"""What JobValidation mounts into its pod: complete, standard library only, small, and runnable as it lies there."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plan import make_plan
from plan.validation import ValidationPlan, plan_validation
from settings.load import from_stack_file
from settings.models import Settings
from tests.jobs.test_runner import NODES, SINFO, record
from tests.judges.logs import sanity

ROOT = Path(__file__).resolve().parents[2]
CONFIG_MAP_LIMIT = 1 << 20


def _starts(python: str) -> bool:
    found = shutil.which(python)
    return found is not None and subprocess.run([found, "--version"], capture_output=True, check=False).returncode == 0


def _settings(stack: str = "dev") -> Settings:
    return from_stack_file(ROOT / f"Pulumi.{stack}.yaml", stack)


@pytest.fixture(scope="module", params=["dev", "prod"])
def plan(request: pytest.FixtureRequest) -> ValidationPlan:
    return make_plan(_settings(request.param)).validation


def _lay_out(plan: ValidationPlan, folder: Path) -> Path:
    """As the pod mounts it: two ConfigMaps, the scripts below the runner's files."""
    (folder / "scripts").mkdir(parents=True)
    for name, text in plan.files.items():
        (folder / name).write_text(text)
    for name, text in plan.scripts.items():
        (folder / "scripts" / name).write_text(text)
    return folder


def test_each_part_fits_into_a_config_map_under_keys_that_one_may_have(plan: ValidationPlan) -> None:
    for part in (plan.files, plan.scripts):
        assert sum(len(text.encode()) for text in part.values()) < CONFIG_MAP_LIMIT // 2
        assert all(re.fullmatch(r"[-._a-zA-Z0-9]{1,253}", name) for name in part)


def test_the_files_import_the_standard_library_and_each_other_only(plan: ValidationPlan) -> None:
    modules = {name.removesuffix(".py") for name in plan.files}
    for name, text in plan.files.items():
        if not name.endswith(".py"):
            continue
        for node in ast.walk(ast.parse(text)):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for imported in names:
                assert imported in modules or imported.split(".")[0] in sys.stdlib_module_names, (name, imported)


def _fake_slurm(folder: Path) -> str:
    """Commands on PATH that answer as a healthy cluster would."""
    folder.mkdir()
    (folder / "answers").mkdir()
    for name, text in {"sinfo": SINFO, "nodes": NODES, "job": record(), "log": sanity()}.items():
        (folder / "answers" / name).write_text(text)
    commands = {
        "sinfo": f"cat {folder}/answers/sinfo",
        "sbatch": "ls sanity.sbatch sanity.py >/dev/null && echo 7",
        "scontrol": f'case "$*" in *job*) cat {folder}/answers/job ;; *) cat {folder}/answers/nodes ;; esac',
    }
    for name, command in commands.items():
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("python", [sys.executable, "python3.10", "python3.12", "python3.13", "python3.14"])
def test_the_bundle_runs_where_it_lies_and_saves_its_results(python: str, tmp_path: Path) -> None:
    if not _starts(python):  # the pod's is not ours to choose
        pytest.skip(f"no {python} starts here")
    plan = plan_validation(
        _settings(), dataclasses.replace(make_plan(_settings()).contract, shared_path=str(tmp_path / "shared"))
    )
    bundle = _lay_out(plan, tmp_path / "validation")
    (tmp_path / "shared" / "logs").mkdir(parents=True)
    (tmp_path / "shared" / "logs" / "sanity-7.out").write_text(sanity())
    done = subprocess.run(
        [python, "-B", str(bundle), "--local", "--checks", "nodes", "sanity"],
        env={"PATH": _fake_slurm(tmp_path / "bin"), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "chosen checks of slurm-dev, revision manual: passed" in done.stdout
    (saved,) = (tmp_path / "shared" / "validation").glob("2*.json")
    assert json.loads(saved.read_text())["status"] == "passed"


def test_the_pods_own_command_line_is_one_that_the_runner_takes(plan: ValidationPlan, tmp_path: Path) -> None:
    bundle = _lay_out(plan, tmp_path / "validation")
    (bundle / "ssh").mkdir()
    (bundle / "ssh" / "id_ed25519").write_text("no key")
    (bundle / "ssh" / "known_hosts").write_text("")
    argv = [str(bundle) if part == "/validation" else part for part in plan.command[1:] if "timeout" not in part]
    done = subprocess.run(
        [sys.executable, *argv, "--timeout-seconds=1"],
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # No ssh, no API server: all that can be said is that nothing could run, and that is not a failure of the cluster.
    assert done.returncode == 2, done.stdout + done.stderr
    assert "ssh is not installed here" in done.stdout
    assert "could not be written to the ConfigMap" in done.stdout


def test_the_revision_follows_what_the_verdict_depends_on_and_nothing_else() -> None:
    settings = _settings()
    contract = make_plan(settings).contract
    revision = plan_validation(settings, contract).revision
    (nodeset,) = contract.nodesets
    assert plan_validation(settings, contract).revision == revision
    tagged = settings.model_copy(update={"tags": {"team": "other"}})
    assert plan_validation(tagged, contract).revision == revision
    larger = dataclasses.replace(contract, nodesets=(dataclasses.replace(nodeset, nodes=3),))
    assert plan_validation(settings, larger).revision != revision
    image = settings.model_copy(update={"image": settings.image.model_copy(update={"tag": "26.05.2-other"})})
    assert plan_validation(image, contract).revision != revision


def _validation(**changes: object) -> ValidationPlan:
    settings = _settings()
    changed = settings.model_copy(update={"validation": settings.validation.model_copy(update=changes)})
    return plan_validation(changed, make_plan(settings).contract)


def test_the_job_runs_the_chosen_suites_with_the_time_of_all_and_again_when_they_change() -> None:
    quick, more = _validation(), _validation(suites=("quick", "full"))
    assert [part for part in more.command if part.startswith("--suite")] == ["--suite=quick", "--suite=full"]
    assert (quick.timeout_seconds, more.timeout_seconds) == (1800, 3 * 1800)
    assert more.revision != quick.revision


def test_nodes_are_drained_only_with_the_setting_and_then_by_health_checks_too() -> None:
    off, on = _validation(), _validation(drain_failed_nodes=True)
    assert ["--drain" in command for command in (off.command, off.health_command)] == [False, False]
    assert ["--drain" in command for command in (on.command, on.health_command)] == [True, True]
    assert on.revision == off.revision


def test_the_stacks_output_does_not_change_with_every_hours_health_checks() -> None:
    written = {"slinky.node": "a", "summary": "b", "health_slinky.node": "c", "health_summary": "d"}
    assert ValidationPlan.without_health(written) == {"slinky.node": "a", "summary": "b"}
