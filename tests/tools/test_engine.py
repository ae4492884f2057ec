"""The driver around the engine, with a program of one component that needs no provider."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine.harness import Stack
from tools.engine import EngineError

pytestmark = pytest.mark.engine

PROGRAM = """
import pulumi

config = pulumi.Config()
component = pulumi.ComponentResource("driver:index:Part", "part")
pulumi.export("size", config.get_int("size"))
pulumi.export("password", pulumi.Output.secret({"text": "hush"}))
"""


@pytest.fixture(scope="module")
def stack(make_stack: Callable[..., Stack], tmp_path_factory: pytest.TempPathFactory) -> Stack:
    project = tmp_path_factory.mktemp("project")
    runtime = {"name": "python", "options": {"virtualenv": os.path.relpath(sys.prefix, project)}}
    (project / "Pulumi.yaml").write_text(json.dumps({"name": "driver", "runtime": runtime}))
    (project / "Pulumi.dev.yaml").write_text("config:\n  driver:size: 1\n")
    (project / "__main__.py").write_text(PROGRAM)
    stack = make_stack(project=project)
    first = stack.up()
    assert first.exit_code == 0, first.text
    assert first.changes == {"create": 2}
    return stack


def lock(stack: Stack, pid: int) -> Path:
    folder = stack.state / "backend" / ".pulumi" / "locks" / "organization" / "driver" / "dev"
    folder.mkdir(parents=True, exist_ok=True)
    holder = {"pid": pid, "hostname": socket.gethostname(), "username": "u", "timestamp": "2026-12-01T00:00:00Z"}
    (folder / "of-another.json").write_text(json.dumps(holder))
    return folder / "of-another.json"


def test_a_second_up_changes_nothing_and_a_changed_setting_is_seen(stack: Stack) -> None:
    assert stack.up().changes == {"same": 2}
    stack.set("size", 2)
    assert stack.up().outputs["size"] == 2
    stack.set("size", None)
    assert stack.up().outputs.get("size") is None


def test_secret_outputs_are_masked(stack: Stack) -> None:
    assert stack.up().outputs["password"] == "[secret]"


def test_the_settings_file_of_the_user_stays_as_it_is(stack: Stack) -> None:
    before = stack.settings_file.read_bytes()
    stack.preview()
    assert stack.settings_file.read_bytes() == before
    assert (stack.project / "Pulumi.dev.yaml").read_text() == "config:\n  driver:size: 1\n"


def test_the_lock_of_a_dead_engine_is_broken(stack: Stack) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = lock(stack, ended.pid)
    assert stack.up().exit_code == 0
    assert not left.exists()


def test_the_lock_of_a_live_engine_is_respected(stack: Stack, tmp_path: Path) -> None:
    alive = tmp_path / stack.cli.name
    alive.symlink_to("/bin/sleep")
    with subprocess.Popen([alive, "60"]) as process:
        left = lock(stack, process.pid)
        try:
            with pytest.raises(EngineError, match=f"process {process.pid} .* wait for it or end it"):
                stack.up()
            assert left.exists()
        finally:
            process.kill()
            left.unlink()


def test_the_lock_of_a_number_that_another_program_has_now_is_broken(stack: Stack) -> None:
    left = lock(stack, os.getpid())
    assert stack.up().exit_code == 0
    assert not left.exists()


def test_a_failing_program_is_reported_with_its_exit_code_and_its_error(stack: Stack) -> None:
    stack.set("size", "many")
    outcome = stack.up()
    stack.set("size", None)
    assert outcome.exit_code != 0
    assert any("many" in error for error in outcome.errors)


def test_nothing_of_the_callers_account_or_backend_reaches_the_engine(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "PULUMI_ACCESS_TOKEN", "KUBECONFIG"):
        monkeypatch.setenv(name, "the-users-own")
    assert "the-users-own" not in stack.env.values()
    assert stack.env["PULUMI_BACKEND_URL"].startswith(f"file://{stack.state}")


def test_providers_on_path_are_looked_at_only_for_a_real_api_server(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert stack.env["PULUMI_IGNORE_AMBIENT_PLUGINS"] == "true"
    monkeypatch.setenv("LOCALCLOUD_KUBECONFIG", "/some/file")
    assert "PULUMI_IGNORE_AMBIENT_PLUGINS" not in stack.env
    assert stack.env["LOCALCLOUD_KUBECONFIG"] == "/some/file"


def test_destroy_leaves_nothing_on_record(stack: Stack) -> None:
    assert stack.destroy().exit_code == 0
    assert stack.resources() == []
