"""What a run of checks leaves: one JSON document, a ConfigMap that the stack reads, and lines for people."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from jobs.checks import HEALTH, Nodeset
from judges.baselines import find_baseline
from judges.nccl import parse_rows
from judges.verdict import Status, Verdict, worst

FORMAT = 1
EXIT_PASSED, EXIT_FAILED, EXIT_NOT_RUN, EXIT_NO_BASELINE = 0, 1, 2, 3
HEALTH_PREFIX = "health_"  # no name of a nodeset has a `_`
_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
_API = "https://kubernetes.default.svc"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One bandwidth of a benchmark's table. Time in microseconds, bandwidths in GB/s; floor: where one is known."""

    collective: str
    size_bytes: int
    placement: str
    time: float
    algbw: float
    busbw: float
    floor: float | None


def measured(log: str, collective: str, nodeset: Nodeset) -> tuple[Measured, ...]:
    """What the table of an nccl-tests log says, whatever its verdict; nothing of a log that is no benchmark's."""
    if not collective:
        return ()
    found: list[Measured] = []
    for row in parse_rows(log)[0]:
        for half in row.measurements:
            known = find_baseline(nodeset.instance_type, nodeset.nodes, collective, row.size_bytes, half.placement)
            found.append(
                Measured(
                    collective=collective,
                    size_bytes=row.size_bytes,
                    placement=half.placement,
                    time=half.time,
                    algbw=half.algbw,
                    busbw=half.busbw,
                    floor=known.floor if known else None,
                )
            )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """A job that belongs to a check, with what its log began with and what a benchmark's log measured."""

    script: str
    job_id: int
    state: str
    nodes: str
    log: str
    log_sha256: str
    versions: Mapping[str, str]
    measurements: tuple[Measured, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One check on one nodeset."""

    nodeset: str
    check: str
    verdict: Verdict
    started: str
    finished: str
    jobs: tuple[JobRecord, ...] = ()


@dataclass(kw_only=True)
class Report:
    """A whole run; results grow while it runs."""

    cluster: str
    suite: str
    revision: str
    started: str
    finished: str = ""
    nodesets: tuple[Nodeset, ...] = ()
    results: list[CheckResult] = field(default_factory=list[CheckResult])

    @property
    def status(self) -> Status:
        """As its worst result; nothing checked is an error."""
        return worst(result.verdict for result in self.results).status

    @property
    def exit_code(self) -> int:
        """0 only if all passed; what failed, what could not run and what has no reference say so differently."""
        codes = {"failed": EXIT_FAILED, "no baseline": EXIT_NO_BASELINE, "passed": EXIT_PASSED}
        return codes.get(self.status, EXIT_NOT_RUN)

    def document(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "cluster": self.cluster,
            "suite": self.suite,
            "revision": self.revision,
            "status": self.status,
            "started": self.started,
            "finished": self.finished,
            "nodesets": [dataclasses.asdict(nodeset) for nodeset in self.nodesets],
            "checks": [dataclasses.asdict(result) for result in self.results],
        }

    def summary(self) -> str:
        """One line that tells what failed from what could not run."""
        found = worst(result.verdict for result in self.results)
        alike = [result for result in self.results if result.verdict.status == found.status]
        if found.status in ("passed", "skipped"):
            return f"{self.suite}: {found.status} ({len(alike)} of {len(self.results)} checks {found.status})"
        what = {"failed": "failed", "no baseline": "no reference"}.get(found.status, "could not run")
        names = ", ".join(f"{result.nodeset} {result.check}" for result in alike) or "nothing"
        return " ".join(f"{self.suite}: {what}: {names}: {found.reason}".split())

    def text(self) -> str:
        """For people: a line per check, and for what did not pass the evidence and the remedy."""
        lines = [f"{self.suite} checks of {self.cluster}, revision {self.revision}: {self.status}"]
        for result in self.results:
            verdict = result.verdict
            lines.append(f"  {verdict.status:<11} {result.nodeset} {result.check}: {verdict.reason}")
            if verdict.status in ("passed", "skipped"):
                continue
            if verdict.evidence:
                where = f"line {verdict.line}: " if verdict.line else ""
                lines.append(f"{'':14}{where}{verdict.evidence}")
            if verdict.remedy:
                lines.append(f"{'':14}remedy: {verdict.remedy}")
            lines.extend(f"{'':14}job {job.job_id} ({job.state}), log {job.log}" for job in result.jobs)
        return "\n".join(lines)


def together(reports: Sequence[Report]) -> Report:
    """Several suites as one; a check that two of them have counts once."""
    results = {(result.nodeset, result.check): result for report in reports for result in report.results}
    return Report(
        cluster=reports[0].cluster,
        suite="+".join(report.suite for report in reports),
        revision=reports[0].revision,
        started=reports[0].started,
        finished=reports[-1].finished,
        nodesets=reports[0].nodesets,
        results=list(results.values()),
    )


def config_map_data(report: Report) -> dict[str, str]:
    """{`<nodeset>.<check>`: JSON} and a `summary`: the evidence stays in the document on the shared folder.

    Health checks have keys of their own, so that an hour's run does not hide what a change was judged by.
    """
    prefix = HEALTH_PREFIX if report.suite == HEALTH else ""
    data = {
        f"{prefix}{result.nodeset}.{result.check}": json.dumps(
            {
                "status": result.verdict.status,
                "cause": result.verdict.cause,
                "reason": result.verdict.reason,
                "remedy": result.verdict.remedy,
                "value": result.verdict.value,
                "unit": result.verdict.unit,
                "jobs": [job.job_id for job in result.jobs],
                "finished": result.finished,
            }
        )
        for result in report.results
    }
    summary = {
        "status": report.status,
        "suite": report.suite,
        "revision": report.revision,
        "started": report.started,
        "finished": report.finished,
    }
    return {**data, f"{prefix}summary": json.dumps(summary)}


class ConfigMapError(Exception):
    """The API server did not take the results."""


def write_config_map(namespace: str, name: str, data: Mapping[str, str]) -> None:
    """Replace the data of its kind (health or not) with the pod's own service account, which may get and patch this one
    object.
    """
    path = f"/api/v1/namespaces/{namespace}/configmaps/{name}"
    current = cast("dict[str, dict[str, str] | None]", json.loads(_request("GET", path)))
    # A merge patch keeps what it does not name: an earlier run's checks would stay.
    health = all(key.startswith(HEALTH_PREFIX) for key in data)
    mine = {key for key in current.get("data") or {} if key.startswith(HEALTH_PREFIX) == health}
    stale: dict[str, str | None] = dict.fromkeys(mine - set(data))
    _request("PATCH", path, json.dumps({"data": {**stale, **data}}).encode())


def _request(method: str, path: str, body: bytes | None = None) -> bytes:
    try:
        token = (_ACCOUNT / "token").read_text()
        context = ssl.create_default_context(cafile=str(_ACCOUNT / "ca.crt"))
        request = urllib.request.Request(
            _API + path,
            data=body,
            method=method,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"},
        )
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return response.read()
    except urllib.error.HTTPError as refused:
        raise ConfigMapError(
            f"{method} {path}: {refused.code} {refused.read().decode(errors='replace')[:300]}"
        ) from refused
    except OSError as unreachable:
        raise ConfigMapError(f"{method} {path}: {unreachable}") from unreachable
