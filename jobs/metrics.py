"""Results of checks as Prometheus metrics, in the text format.

Pure: documents in, text out. A check's status is a label, so that an alert names it; a status that no longer holds is
absent. Only the newest run of each suite counts: Prometheus keeps the history. Standard library only and Python 3.10:
mounted into the exporter's pod.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping
from typing import Any

_PREFIX = "slurm_validation"
_HELP = {
    "run_status": "1 for the status of the suite's newest run",
    "last_run_timestamp_seconds": "when the suite's newest run ended",
    "check_status": "1 for the status of the check in the suite's newest run; cause is ok where it passed",
    "check_duration_seconds": "how long the check took, waiting for nodes included",
    "busbw_bytes_per_second": "bus bandwidth by collective and message size",
    "busbw_floor_bytes_per_second": "bus bandwidth below which the check fails, where there is a reference",
}


def exposition(documents: Iterable[Mapping[str, Any]]) -> str:
    """documents: of `jobs.results.Report`, one per suite."""
    samples: dict[str, dict[str, float]] = {name: {} for name in _HELP}

    def add(name: str, value: float, **labels: object) -> None:
        text = ",".join(f'{key}="{_escaped(str(label))}"' for key, label in labels.items())
        samples[name][f"{_PREFIX}_{name}{{{text}}}"] = value

    for document in documents:
        suite = document["suite"]
        add("run_status", 1, suite=suite, status=document["status"])
        if document["finished"]:
            add("last_run_timestamp_seconds", _seconds(document["finished"]), suite=suite)
        for check in document["checks"]:
            verdict, where = check["verdict"], {"suite": suite, "nodeset": check["nodeset"], "check": check["check"]}
            add("check_status", 1, **where, status=verdict["status"], cause=verdict["cause"])
            add("check_duration_seconds", _seconds(check["finished"]) - _seconds(check["started"]), **where)
            for half in (half for job in check["jobs"] for half in job.get("measurements", ())):
                kind = {
                    "suite": suite,
                    "nodeset": check["nodeset"],
                    "collective": half["collective"],
                    "bytes": half["size_bytes"],
                    "placement": half["placement"],
                }
                add("busbw_bytes_per_second", half["busbw"] * 1e9, **kind)
                if half["floor"] is not None:
                    add("busbw_floor_bytes_per_second", half["floor"] * 1e9, **kind)
    lines: list[str] = []
    for name, told in samples.items():
        if told:
            lines += [f"# HELP {_PREFIX}_{name} {_HELP[name]}", f"# TYPE {_PREFIX}_{name} gauge"]
            lines += [f"{series} {value:.15g}" for series, value in told.items()]
    return "".join(f"{line}\n" for line in lines)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _seconds(moment: str) -> int:
    return calendar.timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ"))
