"""Command line: start, stop and look after the local cloud, and lay its launchers into a PULUMI_HOME."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from localcloud import control


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m localcloud", description=__doc__)
    parser.add_argument("command", choices=["serve", "start", "stop", "status", "install-plugins"])
    parser.add_argument("--state", type=Path, default=Path(os.environ.get("LOCALCLOUD_STATE", ".localcloud")))
    parser.add_argument("--pulumi-home", type=Path, help="where install-plugins lays the launchers")
    arguments = parser.parse_args()
    state: Path = arguments.state.resolve()
    if arguments.command == "serve":
        from localcloud import daemon  # seconds of imports that no other command needs

        daemon.serve(state)
    elif arguments.command == "start":
        control.start(state)
    elif arguments.command == "stop":
        control.stop(state)
    elif arguments.command == "status":
        running = control.ask(state, "ping")
        print(f"{state}: {'running, AWS at ' + (state / 'endpoint').read_text() if running else 'not running'}")
        sys.exit(0 if running else 1)
    else:
        for name in control.install((arguments.pulumi_home or state / "pulumi-home").resolve(), state):
            print(name)


if __name__ == "__main__":
    try:
        main()
    except control.Unavailable as failure:
        sys.exit(str(failure))
