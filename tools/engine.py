"""One stack of the program under the real Pulumi engine, on the local cloud.

Owns: the environment that keeps the engine off the user's account and home, the private copy of a stack's settings, the
local cloud under it, the recovery from an engine that was killed, and what one command did. Does not own: what people
are shown (tools/stack.py), getting the CLI (tools/pulumi_cli.py), the stand-ins themselves (localcloud/).
The settings file is copied because the engine writes its passphrase salt into the file it is given, and the user's own
file belongs to the user's own secrets provider.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import yaml

from localcloud import control, loadbalancer
from tools import account

ROOT = Path(__file__).resolve().parent.parent
SECRETS_KEYS = ("encryptionsalt", "encryptedkey", "secretsprovider")
UNCOUNTED_OPS = ("same", "refresh", "create-replacement", "delete-replaced")  # a replacement also says `replace`
SECRET_MARK = "4dabf18193072939515e22adb298388d"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
# What of the caller's environment would lead the engine elsewhere: another account, backend, cluster or interpreter.
# PYTHONDONTWRITEBYTECODE would make each run compile the SDKs anew.
DROPPED_PREFIXES = ("PULUMI_", "AWS_", "PYTHON")
DROPPED = ("KUBECONFIG", "VIRTUAL_ENV")


class EngineError(Exception):
    """The engine cannot be run now; the text says why and what to do."""


@dataclass(frozen=True)
class Step:
    """What the engine did, or would do, to one resource."""

    op: str
    urn: str
    changed: tuple[str, ...]
    """Property paths that differ."""

    @property
    def type(self) -> str:
        return self.urn.split("::")[2].rsplit("$", 1)[-1]

    @property
    def name(self) -> str:
        return self.urn.split("::", 3)[3]


@dataclass(frozen=True)
class Outcome:
    """What one engine command did, read from its event log."""

    exit_code: int
    events: Sequence[Mapping[str, Any]]
    text: str = ""
    """What the command printed, where it was not printed to the caller's terminal."""

    @property
    def changes(self) -> dict[str, int]:
        """Number of resources by operation: {"create": 3, "same": 120}."""
        return next((dict(e["summaryEvent"]["resourceChanges"] or {}) for e in self.events if "summaryEvent" in e), {})

    @property
    def steps(self) -> list[Step]:
        """What changed, in the engine's order; a replacement is one step, `replace`."""
        found: list[Step] = []
        for event in self.events:
            metadata = (event.get("resourcePreEvent") or {}).get("metadata")
            if metadata and metadata["op"] not in UNCOUNTED_OPS:
                found.append(Step(metadata["op"], metadata["urn"], tuple(metadata.get("detailedDiff") or ())))
        return found

    @property
    def drift(self) -> list[Step]:
        """What a refresh found to be other than recorded; `delete` for what is gone."""
        found: list[Step] = []
        for event in self.events:
            metadata = (event.get("resOutputsEvent") or {}).get("metadata")
            if metadata and metadata["op"] in ("update", "delete"):
                found.append(Step(metadata["op"], metadata["urn"], tuple(metadata.get("detailedDiff") or ())))
        return found

    @property
    def errors(self) -> list[str]:
        return self._messages("error")

    @property
    def warnings(self) -> list[str]:
        return self._messages("warning")

    @property
    def outputs(self) -> dict[str, Any]:
        """The stack's outputs; secrets as `[secret]`, what is not known yet as `[unknown]`."""
        last: dict[str, Any] = {}
        for event in self.events:
            metadata = (event.get("resOutputsEvent") or {}).get("metadata")
            if metadata and metadata["type"] == "pulumi:pulumi:Stack":
                last = (metadata.get("new") or {}).get("outputs") or last
        return {name: _masked(value) for name, value in last.items()}

    def _messages(self, severity: str) -> list[str]:
        diagnostics = [e["diagnosticEvent"] for e in self.events if "diagnosticEvent" in e]
        return [d["message"].strip() for d in diagnostics if d["severity"] == severity]


def _masked(value: Any) -> Any:
    if value == UNKNOWN:
        return "[unknown]"
    if isinstance(value, dict):
        return "[secret]" if SECRET_MARK in value else {k: _masked(v) for k, v in value.items()}
    return [_masked(item) for item in value] if isinstance(value, list) else value


class Engine:
    """`stack` with the settings of `settings_file`, everything of it kept in `state`."""

    def __init__(self, cli: Path, state: Path, stack: str, settings_file: Path, project: Path = ROOT) -> None:
        self.cli, self.stack, self.settings_file, self.project = cli, stack, settings_file, project
        self.state = state.resolve()
        self.home = self.state / "pulumi-home"
        self._backend = self.state / "backend"
        self._config = self.state / "config"
        self.project_name = yaml.safe_load((project / "Pulumi.yaml").read_text())["name"]

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(DROPPED_PREFIXES) and k not in DROPPED}
        # With a kubeconfig the real kubernetes provider is looked for on PATH; otherwise what lies there must not win.
        ambient = {} if kept.get("LOCALCLOUD_KUBECONFIG") else {"PULUMI_IGNORE_AMBIENT_PLUGINS": "true"}
        helm = {f"HELM_{kind}_HOME": str(self.state / "helm" / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        return {
            **kept,
            **ambient,
            **helm,
            "AWS_EC2_METADATA_DISABLED": "true",
            "LOCALCLOUD_STATE": str(self.state),
            # Without a checksum beside each copy of the state, which is written after every step (0.3 s of an up).
            "PULUMI_BACKEND_URL": f"{self._backend.as_uri()}?metadata=skip",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_DEBUG_COMMANDS": "true",  # --event-log exists only with it
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
            "PULUMI_HOME": str(self.home),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }

    def prepare(self, say: Callable[[str], object] = lambda text: None) -> None:
        """Local cloud running, stack made, what a killed engine left behind resolved."""
        self._backend.mkdir(parents=True, exist_ok=True)
        self._copy_settings()
        self.start_cloud(say)
        if not self._checkpoint_file.exists():
            words = ["stack", "select", "--create", "--secrets-provider", "passphrase", "--stack", self.stack]
            self._call([self.cli, "-C", self._config, *words])
        self._break_stale_lock(say)
        if pending := self.pending_operations():
            say(f"an engine was killed in the middle of {len(pending)} operations; reading back what became of them")
            self._call(self.command("refresh", "--clear-pending-creates", "--skip-preview", "--yes"))
        for result in self.remove_unrecorded():
            say(f"no engine has it on record: {result}")

    def start_cloud(self, say: Callable[[str], object]) -> None:
        """Stand-ins laid, daemon running, what the settings take for granted made."""
        shutil.rmtree(self.home / "plugins", ignore_errors=True)  # the engine keeps notes of its own in there
        control.install(self.home, self.state)
        try:
            control.start(self.state)
        except control.Unavailable as error:
            raise EngineError(str(error)) from error
        if made := account.complete(self.settings_file, self.stack, (self.state / "endpoint").read_text().strip()):
            say(f"made in the local account, since the settings take it for granted: {', '.join(made)}")

    def remove_unrecorded(self) -> list[str]:
        """Remove what was made for an engine that died before it heard of it. On AWS a person has to look for it."""
        resources: list[dict[str, Any]] = self._checkpoint().get("resources") or []
        recorded = [(resource["urn"], resource["id"]) for resource in resources if resource.get("id")]
        try:
            return control.settle(self.state, f"urn:pulumi:{self.stack}::{self.project_name}", recorded)
        except control.Unavailable as error:
            raise EngineError(str(error)) from error

    def run(self, command: str, *flags: str, output: TextIO | None = None) -> Outcome:
        """One engine command (up, preview, refresh, destroy); prints to `output`, else returns the text."""
        with tempfile.TemporaryDirectory(dir=self.state) as scratch, self._load_balancers():
            log = Path(scratch) / "events.jsonl"
            words = self.command(command, *flags, f"--event-log={log}")
            process = subprocess.Popen(
                words, cwd=self.project, env=self.env, text=True, stdin=None if output else subprocess.DEVNULL,
                stdout=output or subprocess.PIPE, stderr=output or subprocess.STDOUT,
            )  # fmt: skip
            text = ""
            while process.returncode is None:
                # On Ctrl-C the engine, which got it too, finishes what it began; a second one ends it at once.
                with contextlib.suppress(KeyboardInterrupt):
                    text = process.communicate()[0] or ""
            lines = log.read_text().splitlines() if log.exists() else []
        return Outcome(process.returncode, [json.loads(line) for line in lines], text)

    def _load_balancers(self) -> contextlib.AbstractContextManager[None]:
        """On a real API server the cloud around it is still the local one, load balancers included."""
        kubeconfig = os.environ.get("LOCALCLOUD_KUBECONFIG")
        if not kubeconfig:
            return contextlib.nullcontext()
        settings: dict[str, Any] = yaml.safe_load(self.settings_file.read_text())["config"]
        return loadbalancer.serving(Path(kubeconfig), str(settings["aws:region"]))

    def stop(self) -> None:
        control.stop(self.state)

    def remove(self) -> None:
        """Stop the local cloud and remove all that it and the engine kept."""
        self.stop()
        shutil.rmtree(self.state)

    def stacks(self) -> list[str]:
        """The stacks, this one or others on the same local cloud, of which the engine has resources on record."""
        files = sorted(self._checkpoint_file.parent.glob("*.json"))
        return [file.stem for file in files if _latest(file).get("resources")]

    def resources(self) -> list[str]:
        """The URNs that the engine has on record."""
        return [resource["urn"] for resource in self._checkpoint().get("resources") or ()]

    def pending_operations(self) -> list[str]:
        """Operations that an engine began and did not live to finish: `creating urn:...`."""
        operations = self._checkpoint().get("pending_operations") or ()
        return [f"{operation['type']} {operation['resource']['urn']}" for operation in operations]

    @property
    def _checkpoint_file(self) -> Path:
        return self._backend / ".pulumi" / "stacks" / self.project_name / f"{self.stack}.json"

    def _checkpoint(self) -> dict[str, Any]:
        return _latest(self._checkpoint_file)

    def command(self, command: str, *flags: str) -> list[str | Path]:
        """The words of an engine command on this stack, for those who run it themselves."""
        config_file = self._config / f"Pulumi.{self.stack}.yaml"
        return [self.cli, command, "--stack", self.stack, "--config-file", config_file, *flags]

    def _call(self, words: Sequence[str | Path]) -> None:
        result = subprocess.run(words, cwd=self.project, env=self.env, capture_output=True, text=True)
        if result.returncode:
            raise EngineError(f"{' '.join(map(str, words))}: exit {result.returncode}\n{result.stdout}{result.stderr}")

    def _copy_settings(self) -> None:
        self._config.mkdir(exist_ok=True)
        shutil.copyfile(self.project / "Pulumi.yaml", self._config / "Pulumi.yaml")
        copy = self._config / f"Pulumi.{self.stack}.yaml"
        own = (yaml.safe_load(copy.read_text()) or {}) if copy.exists() else {}
        if not self.settings_file.exists():
            raise EngineError(f"{self.settings_file}: no such file; a stack is described by its Pulumi.<stack>.yaml")
        wanted = yaml.safe_load(self.settings_file.read_text()) or {}
        kept = {key: own[key] for key in SECRETS_KEYS if key in own}
        copy.write_text(yaml.safe_dump({**{k: v for k, v in wanted.items() if k not in SECRETS_KEYS}, **kept}))

    def _break_stale_lock(self, say: Callable[[str], object]) -> None:
        """A killed engine leaves its lock; one that a live engine holds is respected."""
        locks = self._backend / ".pulumi" / "locks" / "organization" / self.project_name / self.stack
        for lock in locks.glob("*.json"):
            holder = json.loads(lock.read_text())
            if holder["hostname"] != socket.gethostname() or _is_running(holder["pid"], self.cli):
                raise EngineError(
                    f"stack {self.stack}: pulumi (process {holder['pid']} on {holder['hostname']}) is at work on it "
                    f"since {holder['timestamp']}; wait for it or end it; if there is no such process, remove {lock}"
                )
            say(f"the engine that locked stack {self.stack} (process {holder['pid']}) is dead; unlocking it")
            self._call([self.cli, "cancel", "--yes", "--stack", self.stack])
            return  # that took all of them away


def _latest(checkpoint: Path) -> dict[str, Any]:
    return json.loads(checkpoint.read_text())["checkpoint"].get("latest") or {}


def _is_running(pid: int, cli: Path) -> bool:
    """Whether `pid` is a Pulumi CLI; after a restart the number may be another process's."""
    found = subprocess.run(["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True)
    return Path(found.stdout.strip()).name == cli.name
