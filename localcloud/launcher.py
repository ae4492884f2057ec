"""The executable that the engine starts for a package: asks the daemon for a provider's port, prints it, waits.

A copy of this file lies in PULUMI_HOME as `pulumi-resource-<package>`, with two names filled in by `control.install`.
Standard library only and run without site packages: it is started for every package of every command.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
from pathlib import Path

PYTHON = ""
STATE = ""


def main() -> None:
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, signal.SIG_DFL)  # end at once: the engine waits for us
    package = Path(sys.argv[0]).name.removeprefix("pulumi-resource-")
    state = os.environ.get("LOCALCLOUD_STATE") or STATE
    try:
        port = int(Path(state, "control").read_text().split()[0])
        daemon = socket.create_connection(("127.0.0.1", port))
    except (OSError, ValueError, IndexError):
        sys.exit(f"{state}: no local cloud runs on this state; start it with: {PYTHON} -m localcloud start")
    request = (package, str(Path.cwd()), sys.argv[1], os.environ.get("LOCALCLOUD_KUBECONFIG", ""))
    daemon.sendall("\t".join(request).encode() + b"\n")
    answer = daemon.makefile().readline().strip()
    if not answer.isdigit():
        sys.exit(f"the local cloud refused {package}: {answer.removeprefix('!') or 'it went away'}")
    print(answer, flush=True)
    select.select([daemon, sys.stdin], [], [])  # either end closes when it dies


if __name__ == "__main__":
    main()
