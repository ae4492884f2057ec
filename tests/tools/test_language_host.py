"""The language host, driven by a gRPC client that plays the engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty
from pulumi.runtime.proto import language_pb2 as pb
from pulumi.runtime.proto.language_pb2_grpc import LanguageRuntimeStub

HOST = Path(__file__).parents[2] / "tools" / "language_host" / "pulumi-language-python"
# Stands for the SDK's executor, which the host only hands its words to.
EXECUTOR = """
import json, os, sys, time
words = sys.argv[1:]
program = words[-1]
if program.endswith("fails"):
    sys.exit(7)
if program.endswith("bails"):
    sys.exit(32)
if program.endswith("lasts"):
    open(os.environ["SAID"], "w").write(str(os.getpid()))
    time.sleep(60)
open(os.environ["SAID"], "w").write(json.dumps([words, os.environ["PULUMI_CONFIG"], sys.executable]))
"""


class Engine:
    """One running host, and a client of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.said = directory / "said"
        executor = directory / "executor.py"
        executor.write_text(EXECUTOR)
        self.process = subprocess.Popen(
            [sys.executable, "-I", HOST, "--some-flag", "127.0.0.1:4242"],
            env=os.environ | {"PULUMI_LANGUAGE_PYTHON_EXEC": str(executor), "SAID": str(self.said)},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # as the engine does
        )
        assert self.process.stdout
        self.first_line = self.process.stdout.readline()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.first_line.strip()}")
        self.host = LanguageRuntimeStub(self.channel)

    def end(self) -> None:
        self.channel.close()
        self.process.kill()
        self.process.wait()

    def program(self, name: str = "fine", **options: str) -> pb.ProgramInfo:
        info = pb.ProgramInfo(
            root_directory=str(self.directory), program_directory=str(self.directory), entry_point=name
        )
        info.options.update(options)
        return info

    def run(self, name: str, **options: str) -> pb.RunResponse:
        request = pb.RunRequest(project="p", stack="s", dryRun=True, config={"p:a": "1"}, parallel=4)
        request.info.CopyFrom(self.program(name, **options))
        return self.host.Run(request, timeout=20)

    def lasting(self) -> tuple[grpc.Future, int]:
        """A program in the middle of its work: the call that runs it, and its process."""
        self.said.unlink(missing_ok=True)
        request = pb.RunRequest(info=self.program("lasts"))
        call = self.host.Run.future(request)
        return call, int(_eventually(self.said))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = Engine(tmp_path_factory.mktemp("engine"))
    yield made
    made.end()


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path)
    yield made
    made.end()


def test_the_first_line_is_the_port_and_the_handshake_is_answered(engine: Engine) -> None:
    assert engine.first_line.strip().isdigit()
    engine.host.Handshake(pb.LanguageHandshakeRequest(engine_address="127.0.0.1:4242"), timeout=5)
    assert engine.host.GetPluginInfo(Empty(), timeout=5).version.startswith("3.")
    assert not engine.host.GetRequiredPackages(pb.GetRequiredPackagesRequest(), timeout=5).packages
    assert not list(engine.host.InstallDependencies(pb.InstallDependenciesRequest(), timeout=5))
    known = engine.host.GetProgramDependencies(pb.GetProgramDependenciesRequest(), timeout=5).dependencies
    assert "pulumi" in {dependency.name for dependency in known}


def test_a_program_gets_its_settings_and_the_dry_run_as_a_value(engine: Engine) -> None:
    assert engine.run("fine") == pb.RunResponse()
    said = engine.said.read_text()
    assert '"--dry_run", "true"' in said
    assert '"--engine", "127.0.0.1:4242"' in said
    assert '"--parallel", "4"' in said
    assert "p:a" in said


def test_a_program_runs_with_the_python_of_the_virtualenv_that_the_project_names(engine: Engine) -> None:
    named = engine.directory / "env" / "bin"
    named.mkdir(parents=True)
    (named / "python").symlink_to(sys.executable)
    engine.run("fine", virtualenv="env")
    assert str(named / "python") in engine.said.read_text()
    assert engine.host.About(pb.AboutRequest(info=engine.program(virtualenv="env"))).executable == str(named / "python")


def test_a_failing_program_is_an_error_and_one_that_has_explained_itself_is_not_explained_again(engine: Engine) -> None:
    assert "7" in engine.run("fails").error
    assert engine.run("bails") == pb.RunResponse(bail=True)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_its_group_ends_host_and_program_within_a_second(doomed: Engine, how: signal.Signals) -> None:
    run, program = doomed.lasting()
    started = time.monotonic()
    os.killpg(doomed.process.pid, how)
    doomed.process.wait(timeout=1)
    while _runs(program):
        assert time.monotonic() - started < 1
        time.sleep(0.01)
    assert run.exception(timeout=5)


def test_cancel_ends_the_program(engine: Engine) -> None:
    run, _ = engine.lasting()
    engine.host.Cancel(Empty(), timeout=5)
    assert run.result(timeout=5).error


def test_a_policy_pack_streams_its_port_and_its_exit_code(engine: Engine) -> None:
    (engine.directory / "__main__.py").write_text("print(4711)\nraise SystemExit(3)\n")
    request = pb.RunPluginRequest(
        kind="analyzer", pwd=str(engine.directory), args=["127.0.0.1:4242"], info=engine.program()
    )
    answers = list(engine.host.RunPlugin(request, timeout=20))
    assert b"4711\n" in [answer.stdout for answer in answers]
    assert answers[-1].exitcode == 3


def test_a_plugin_of_another_kind_is_refused(engine: Engine) -> None:
    request = pb.RunPluginRequest(kind="resource", info=engine.program())
    with pytest.raises(grpc.RpcError, match="policy packs"):
        list(engine.host.RunPlugin(request, timeout=5))


def _eventually(file: Path) -> str:
    deadline = time.monotonic() + 10
    while not (file.exists() and file.read_text()):
        assert time.monotonic() < deadline, f"{file} was never written"
        time.sleep(0.01)
    return file.read_text()


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z" if Path(f"/proc/{pid}").exists() else True
