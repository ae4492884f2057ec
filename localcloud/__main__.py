"""Command line: start, stop and look after the local cloud, and lay its launchers into a PULUMI_HOME."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from localcloud import daemon, launcher, sdk

PACKAGES = (*daemon.PROVIDERS, *launcher.OWN_PROCESS)


def install(pulumi_home: Path, state_dir: Path) -> list[str]:
    """Lay one launcher per package, for exactly the version that the installed SDK asks for; returns what was laid."""
    plugins, laid = pulumi_home / "plugins", list[str]()
    for package in PACKAGES:
        for old in plugins.glob(f"resource-{package}-v*"):
            shutil.rmtree(old)
        if package == "kubernetes" and os.environ.get("LOCALCLOUD_KUBECONFIG"):
            continue  # the real provider on PATH serves a real API server
        directory = plugins / f"resource-{package}-v{sdk.package_version(package)}"
        directory.mkdir(parents=True)
        executable = directory / f"pulumi-resource-{package}"
        # A shell line first: a "#!" line holds neither long paths nor paths with spaces. It counts as a docstring.
        source = f"#!/bin/sh\n''''exec {_shell_quoted(sys.executable)} -IS \"$0\" \"$@\" #'''\n"
        source += Path(launcher.__file__).read_text().replace("from __future__ import annotations\n", "")
        names = {"PYTHON": sys.executable, "ROOT": str(Path(__file__).parent.parent), "STATE": str(state_dir)}
        for name, value in names.items():
            source = re.sub(f'^{name} = ""$', lambda _, n=name, v=value: f"{n} = {v!r}", source, flags=re.MULTILINE)
        executable.write_text(source)
        executable.chmod(0o755)
        laid.append(directory.name)
    return laid


def _shell_quoted(path: str) -> str:
    return '"' + re.sub(r'(["\\$`])', r"\\\1", path) + '"'


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m localcloud", description=__doc__)
    parser.add_argument("command", choices=["serve", "start", "stop", "status", "install-plugins"])
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("LOCALCLOUD_STATE", ".localcloud")))
    parser.add_argument("--pulumi-home", type=Path, help="where install-plugins lays the launchers")
    arguments = parser.parse_args()
    state: Path = arguments.state.resolve()
    if arguments.command == "serve":
        daemon.serve(state)
    elif arguments.command == "start":
        daemon.start(state)
    elif arguments.command == "stop":
        daemon.stop(state)
    elif arguments.command == "status":
        running = daemon.ask(state, "ping")
        print(f"{state}: {'running, AWS at ' + (state / 'endpoint').read_text() if running else 'not running'}")
        sys.exit(0 if running else 1)
    else:
        for name in install((arguments.pulumi_home or state / "pulumi-home").resolve(), state):
            print(name)


if __name__ == "__main__":
    main()
