"""`python3 -m jobs.exporter <folder>`: serves the newest results of each suite as Prometheus metrics.

Checks run in pods that are gone before anyone scrapes them; their results lie on the shared folder, where this reads
them at each scrape. Standard library only and Python 3.10: mounted into a pod of Slinky's login image.
"""

from __future__ import annotations

import argparse
import http.server
import json
import pathlib
import sys
from typing import Any

from jobs.metrics import exposition

_UNREADABLE = "slurm_validation_unreadable_results"


def metrics(folder: pathlib.Path) -> str:
    """A file that cannot be read costs its own samples and is counted: one bad file must not hide the others."""
    parts: list[dict[str, Any]] = []
    unreadable = 0
    for path in sorted(folder.glob("latest-*.json")):
        try:
            document = json.loads(path.read_text())
            exposition([document])
            parts.append(document)
        except (OSError, ValueError, LookupError, TypeError) as wrong:
            print(f"{path}: {wrong!r}", file=sys.stderr, flush=True)
            unreadable += 1
    return (
        exposition(parts)
        + f"# HELP {_UNREADABLE} files of results that could not be read\n"
        + f"# TYPE {_UNREADABLE} gauge\n{_UNREADABLE} {unreadable}\n"
    )


def serve(folder: pathlib.Path, port: int) -> http.server.ThreadingHTTPServer:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            body = metrics(folder).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """A line per scrape helps nobody."""

    return http.server.ThreadingHTTPServer(("", port), Handler)


def main() -> None:
    parser = argparse.ArgumentParser(prog="exporter", description="Serve validation results as Prometheus metrics.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    serve(arguments.folder, arguments.port).serve_forever()


if __name__ == "__main__":
    main()
