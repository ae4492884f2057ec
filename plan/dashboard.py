"""The Grafana dashboard, made in code: a table of panels, laid out on Grafana's grid of 24 columns.

Generated because the panels differ in two words each; as a 2,000-line JSON file nobody would see which.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal

from plan.alerts import ALLOCATABLE_EFA, EXPECTED_EFA, EXPECTED_GPUS, EXPECTED_NODES
from plan.charts import Json, Values
from plan.contract import ClusterContract

COLUMNS: Final = 24
DATASOURCE: Final[Values] = {"type": "prometheus", "uid": "prometheus"}  # uid: the stack chart's default
PARTITION: Final = '{partition=~"$partition"}'


@dataclass(frozen=True, kw_only=True, slots=True)
class Panel:
    """queries: (PromQL, legend). unit as Grafana names it. width and height in grid units."""

    title: str
    queries: tuple[tuple[str, str], ...]
    kind: Literal["stat", "timeseries", "table"] = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    stacked: bool = False


def _cluster() -> tuple[Panel, ...]:
    return (
        Panel(
            title="Nodes registered of expected",
            kind="stat",
            width=6,
            height=4,
            queries=(("sum(slurm_partition_nodes)", "registered"), (f"sum({EXPECTED_NODES})", "expected")),
        ),
        Panel(
            title="GPUs allocated of expected",
            kind="stat",
            width=6,
            height=4,
            queries=(("slurm_jobs_gpus_alloc", "allocated"), (f"sum({EXPECTED_GPUS})", "expected")),
        ),
        Panel(
            title="EFA interfaces allocatable of expected",
            kind="stat",
            width=6,
            height=4,
            queries=((f"sum({ALLOCATABLE_EFA})", "allocatable"), (f"sum({EXPECTED_EFA})", "expected")),
        ),
        Panel(
            title="Jobs",
            kind="stat",
            width=6,
            height=4,
            queries=(("slurm_jobs_running", "running"), ("slurm_jobs_pending", "pending")),
        ),
        Panel(
            title="Nodes by state",
            stacked=True,
            queries=tuple(
                (f"slurm_nodes_{state}", state) for state in ("alloc", "mixed", "idle", "drain", "down", "noresp")
            ),
        ),
        Panel(
            title="Jobs by state",
            queries=tuple((f"slurm_jobs_{state}", state) for state in ("running", "pending", "hold", "failed")),
        ),
        Panel(
            title="Scheduler cycles",
            unit="µs",
            queries=(("slurm_schedule_cycle_last", "main"), ("slurm_bf_cycle_last", "backfill")),
        ),
        Panel(
            title="Firing alerts",
            kind="table",
            width=COLUMNS,
            height=6,
            queries=(('ALERTS{alertstate="firing",alertname!~"Watchdog|InfoInhibitor"}', ""),),
        ),
    )


def _partitions() -> tuple[Panel, ...]:
    return (
        Panel(
            title="Jobs pending and running",
            width=12,
            queries=tuple(
                (f"slurm_partition_jobs_{state}{PARTITION}", f"{{{{partition}}}} {state}")
                for state in ("pending", "running")
            ),
        ),
        Panel(
            title="Nodes",
            width=12,
            stacked=True,
            queries=tuple(
                (f"slurm_partition_nodes_{state}{PARTITION}", f"{{{{partition}}}} {state}")
                for state in ("alloc", "mixed", "idle", "drain", "down")
            ),
        ),
    )


def _gpus() -> tuple[Panel, ...]:
    return (
        Panel(
            title="Utilisation by node",
            unit="percent",
            queries=(("avg by (Hostname) (DCGM_FI_DEV_GPU_UTIL)", "{{Hostname}}"),),
        ),
        Panel(
            title="Utilisation by job",
            unit="percent",
            queries=(('avg by (hpc_job) (DCGM_FI_DEV_GPU_UTIL{hpc_job!=""})', "job {{hpc_job}}"),),
        ),
        Panel(
            title="Tensor cores active by node",
            unit="percentunit",
            queries=(("avg by (Hostname) (DCGM_FI_PROF_PIPE_TENSOR_ACTIVE)", "{{Hostname}}"),),
        ),
        Panel(
            title="Memory used by node",
            unit="percentunit",
            queries=(
                (
                    "avg by (Hostname) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE))",
                    "{{Hostname}}",
                ),
            ),
        ),
        Panel(
            title="Hottest GPU by node",
            unit="celsius",
            queries=(("max by (Hostname) (DCGM_FI_DEV_GPU_TEMP)", "{{Hostname}}"),),
        ),
        Panel(
            title="Power by node",
            unit="watt",
            queries=(("sum by (Hostname) (DCGM_FI_DEV_POWER_USAGE)", "{{Hostname}}"),),
        ),
        Panel(
            title="GPUs with an XID (value: the last one)",
            kind="table",
            width=COLUMNS,
            height=6,
            queries=(("DCGM_FI_DEV_XID_ERRORS > 0", ""),),
        ),
    )


ROWS: Final = (("Cluster", _cluster()), ("Partitions", _partitions()), ("GPUs", _gpus()))


def _target(panel: Panel, index: int) -> Json:
    expression, legend = panel.queries[index]
    target: Values = {"datasource": DATASOURCE, "refId": chr(ord("A") + index), "expr": expression}
    if panel.kind == "table":
        return target | {"format": "table", "instant": True}
    return target | {"legendFormat": legend, "instant": panel.kind == "stat"}


def _panel(panel: Panel, number: int, x: int, y: int) -> Json:
    defaults: Values = {"unit": panel.unit}
    if panel.kind == "timeseries":
        stacking = "normal" if panel.stacked else "none"
        defaults["custom"] = {"fillOpacity": 20 if panel.stacked else 0, "stacking": {"mode": stacking, "group": "A"}}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": DATASOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [_target(panel, index) for index in range(len(panel.queries))],
    }


def _layout() -> list[Json]:
    """Panels left to right, a new line when one does not fit, a titled row before each group."""
    laid: list[Json] = []
    y = 0
    for title, panels in ROWS:
        place: Values = {"x": 0, "y": y, "w": COLUMNS, "h": 1}
        laid.append(
            {"id": len(laid) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        )
        x, y, line = 0, y + 1, 0
        for panel in panels:
            if x + panel.width > COLUMNS:
                x, y, line = 0, y + line, 0
            laid.append(_panel(panel, len(laid) + 1, x, y))
            x, line = x + panel.width, max(line, panel.height)
        y += line
    return laid


def dashboard_json(contract: ClusterContract) -> str:
    """The dashboard as Grafana's sidecar reads it. The uid is fixed, so that links to it survive a new Grafana."""
    dashboard: Values = {
        "uid": "slurm-eks",
        "title": f"Slurm: {contract.cluster_name}",
        "tags": ["slurm"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "partition",
                    "label": "Partition",
                    "type": "query",
                    "datasource": DATASOURCE,
                    "query": "label_values(slurm_partition_nodes, partition)",
                    "refresh": 2,
                    "includeAll": True,
                    "multi": True,
                    "current": {"text": "All", "value": "$__all"},
                }
            ]
        },
        "panels": _layout(),
    }
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"
