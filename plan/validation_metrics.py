"""How results of checks reach Prometheus: an exporter that reads them off the shared folder, its scrape, its alerts.

The runner's pods end before anyone scrapes them, and their Jobs' states, which kube-state-metrics exports, tell neither
which check failed nor a bandwidth. So one small pod stays: it mounts the shared claim read-only, talks to nobody, and
needs no image of ours.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names, versions
from plan.charts import Json, Values, on_core_nodes
from plan.observability import ManifestPlan
from settings.models import Settings

_ROOT: Final = pathlib.Path(__file__).parent.parent
_FILES: Final = ("jobs/__init__.py", "jobs/metrics.py", "jobs/exporter.py")
_MOUNT: Final = "/exporter"
_NOBODY: Final = 65534
_PORT: Final = 9836
PORT_NAME: Final = "metrics"


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationMetricsPlan:
    """One name for the ConfigMap (files), the Deployment (pod), the Service (selected by labels) and the custom
    resources.

    files: {key: text}. revision: their digest, for the pod template, so that new files mean a new pod.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    files: Mapping[str, str]
    revision: str
    pod: Values
    port: int
    manifests: tuple[ManifestPlan, ...]


def plan_validation_metrics(settings: Settings) -> ValidationMetricsPlan | None:
    """None without checks, or without a Prometheus to tell of them."""
    if not (settings.validation.enabled and settings.observability.enabled):
        return None
    paths = {path.replace("/", "."): path for path in _FILES}  # a ConfigMap has no folders
    files = {key: (_ROOT / path).read_text() for key, path in paths.items()}
    labels = {"app.kubernetes.io/name": names.VALIDATION_METRICS_NAME}
    return ValidationMetricsPlan(
        name=names.VALIDATION_METRICS_NAME,
        namespace=names.NAMESPACE_SLURM,
        labels=labels,
        files=files,
        revision=hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:12],
        pod=_pod(paths),
        port=_PORT,
        manifests=(
            _manifest(
                "ServiceMonitor",
                {
                    "selector": {"matchLabels": dict(labels)},
                    # honorLabels: `nodeset` and `check` are ours, and none of them is the exporter's own.
                    "endpoints": [{"port": PORT_NAME, "interval": "60s", "honorLabels": True}],
                },
            ),
            _manifest("PrometheusRule", {"groups": [{"name": "slurm-eks.validation", "rules": _rules()}]}),
        ),
    )


def _manifest(kind: str, spec: Values) -> ManifestPlan:
    return ManifestPlan(
        api_version="monitoring.coreos.com/v1",
        kind=kind,
        name=names.VALIDATION_METRICS_NAME,
        namespace=names.NAMESPACE_SLURM,
        spec=spec,
    )


def _pod(paths: Mapping[str, str]) -> Values:
    container: Values = {
        "name": "exporter",
        "image": f"{versions.SLINKY_IMAGES}/login:{versions.SLINKY_IMAGE_TAG}",
        "command": ["python3", "-B", "-m", "jobs.exporter", f"{names.SHARED_MOUNT}/validation", f"--port={_PORT}"],
        "workingDir": _MOUNT,  # where `-m` looks first
        "ports": [{"name": PORT_NAME, "containerPort": _PORT}],
        "readinessProbe": {"httpGet": {"path": "/metrics", "port": PORT_NAME}, "timeoutSeconds": 10},
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "files", "mountPath": _MOUNT, "readOnly": True},
            {"name": "shared", "mountPath": names.SHARED_MOUNT, "readOnly": True},
        ],
    }
    items: list[Json] = [{"key": key, "path": path} for key, path in paths.items()]
    return {
        "nodeSelector": on_core_nodes(),
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [
            {"name": "files", "configMap": {"name": names.VALIDATION_METRICS_NAME, "items": items}},
            {"name": "shared", "persistentVolumeClaim": {"claimName": names.SHARED_CLAIM, "readOnly": True}},
        ],
    }


def _rules() -> list[Json]:
    check = "{{ $labels.suite }} check {{ $labels.check }} of nodeset {{ $labels.nodeset }}"
    results = f"The newest file of {names.SHARED_MOUNT}/validation has evidence and remedy; `make report` shows it."
    return [
        _alert(
            "ValidationFailed",
            'slurm_validation_check_status{status="failed"} == 1',
            f"{check} failed: {{{{ $labels.cause }}}}",
            results,
        ),
        _alert(
            "ValidationCouldNotRun",
            'slurm_validation_check_status{status="error"} == 1',
            f"{check} could not run, so nothing is known",
            results,
        ),
        _alert(
            "ValidationResultsUnreadable",
            "slurm_validation_unreadable_results > 0",
            "{{ $value }} files of validation results cannot be read",
            "The exporter's log names them.",
        ),
    ]


def _alert(name: str, expression: str, summary: str, description: str) -> Json:
    return {
        "alert": name,
        "expr": expression,
        "for": "0m",
        "labels": {"severity": "warning"},
        "annotations": {"summary": summary, "description": description},
    }
