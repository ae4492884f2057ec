"""A stack of the program on the real engine and a local cloud of its own, for tests.

Adds to tools.engine what only tests want: settings changed in place, and an engine killed at a chosen moment.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import boto3
import yaml

from tools.engine import ROOT, Engine, Outcome


class Stack(Engine):
    """Starts with the settings of the project's Pulumi.<like>.yaml; the developer's own .localcloud is not touched."""

    def __init__(self, cli: Path, directory: Path, like: str, project: Path | None = None) -> None:
        project = project or ROOT
        own = directory / f"settings.{like}.yaml"
        own.write_bytes((project / f"Pulumi.{like}.yaml").read_bytes())
        super().__init__(cli, directory / "state", like, own, project)

    def set(self, key: str, value: Any) -> None:
        """Change a setting for the next command: `set("nodesets.slinky.nodes", 3)`; None removes it."""
        document: dict[str, Any] = yaml.safe_load(self.settings_file.read_text()) or {}
        *way, last = (key if ":" in key else f"{self.project_name}:{key}").split(".")
        place = document.setdefault("config", {})
        for part in way:
            place = place.setdefault(part, {})
        place[last] = value
        if value is None:
            del place[last]
        self.settings_file.write_text(yaml.safe_dump(document))

    def up(self, *flags: str) -> Outcome:
        return self._run("up", "--yes", "--skip-preview", *flags)

    def preview(self, *flags: str) -> Outcome:
        return self._run("preview", *flags)

    def refresh(self, *flags: str) -> Outcome:
        return self._run("refresh", "--yes", "--skip-preview", *flags)

    def destroy(self, *flags: str) -> Outcome:
        return self._run("destroy", "--yes", "--skip-preview", *flags)

    def aws(self, service: str) -> Any:
        """A boto3 client of the stack's own cloud."""
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
        endpoint = (self.state / "endpoint").read_text().strip()
        return boto3.client(service, region_name="us-west-2", endpoint_url=endpoint, **keys)

    def killed_up(self, moment: str, how: signal.Signals = signal.SIGKILL) -> str:
        """An `up` that is signalled when it prints a line with `moment` in it; returns what it printed until then."""
        self.prepare()
        words = self.command("up", "--yes", "--skip-preview")
        with subprocess.Popen(
            words, cwd=self.project, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            assert process.stdout
            said = ""
            for line in process.stdout:
                said += line
                if moment in line:
                    os.kill(process.pid, how)
                    return said
        raise AssertionError(f"`up` ended before it printed {moment!r}:\n{said}")

    def _run(self, command: str, *flags: str) -> Outcome:
        self.prepare()
        return self.run(command, *flags)
