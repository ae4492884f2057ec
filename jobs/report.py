"""`python -m jobs.report <results.json> [--out report.html]`: one self-contained HTML page out of a run's results.

For people who were not there: what was checked, what each verdict rests on, what to do, and how the bandwidth grows
over the message size. Says of what is missing that it is missing.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import jinja2

from jobs.results import FORMAT

EXIT_UNUSABLE = 2
_TEMPLATES = Path(__file__).parent / "templates"


class NotResults(Exception):
    """The file is not what a run of checks leaves."""


def read_results(path: Path) -> dict[str, Any]:
    """Raises: NotResults."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError) as wrong:
        raise NotResults(f"{path}: {wrong}; give a file of /shared/validation") from wrong
    if not isinstance(document, dict) or cast("dict[str, Any]", document).get("format") != FORMAT:
        raise NotResults(f"{path}: not results of format {FORMAT}; give a file of /shared/validation")
    return cast("dict[str, Any]", document)


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html.j2")


def page(document: Mapping[str, Any]) -> str:
    """The HTML text. Loads matplotlib if there is something to draw."""
    counted = [check["verdict"]["status"] for check in document["checks"]]
    return _template().render(
        run=document,
        counts={status: counted.count(status) for status in dict.fromkeys(counted)},
        pictures=[_picture(document, nodeset) for nodeset in document.get("nodesets", ())],
    )


def _picture(document: Mapping[str, Any], nodeset: Mapping[str, Any]) -> dict[str, Any]:
    measurements = [
        half
        for check in document["checks"]
        if check["nodeset"] == nodeset["name"]
        for job in check["jobs"]
        for half in job.get("measurements", ())  # results of earlier versions have none
    ]
    # One node has no fabric between its GPUs.
    line_rate = nodeset["network_gbps"] / 8 if nodeset["nodes"] > 1 else 0
    png = ""
    if measurements:
        from jobs.picture import bandwidth_png

        png = bandwidth_png(measurements, line_rate=line_rate)
    return {
        "nodeset": nodeset,
        "png": png,
        "line_rate": line_rate,
        "with_floor": any(half["floor"] for half in measurements),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m jobs.report", description="Make an HTML page of a run's results.")
    parser.add_argument("results", type=Path, help="a JSON file of /shared/validation")
    parser.add_argument("--out", type=Path, help="default: the same name with .html")
    arguments = parser.parse_args()
    out: Path = arguments.out or arguments.results.with_suffix(".html")
    try:
        out.write_text(page(read_results(arguments.results)))
    except NotResults as wrong:
        print(wrong, file=sys.stderr)
        return EXIT_UNUSABLE
    print(out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
