"""Metrics, dashboard and alerts: two releases, alert rules and a Grafana dashboard, all as data.

Slurm's own metrics come through the ServiceMonitor of the slurm chart (`plan/slurm.py`), GPUs' through that of the DCGM
exporter's chart; none is written here, so that nothing is scraped twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names, versions
from plan.alerts import alert_groups
from plan.charts import (
    DCGM_JOB_MAPPING_DIR,
    KUBE_PROMETHEUS_STACK_RELEASE,
    ReleasePlan,
    Values,
    gpu_tolerations,
    on_core_nodes,
    on_gpu_nodes,
    plan_release,
)
from plan.contract import plan_contract
from plan.dashboard import dashboard_json
from settings.models import Observability, Settings

GRAFANA_SERVICE: Final = f"{KUBE_PROMETHEUS_STACK_RELEASE}-grafana.{names.NAMESPACE_MONITORING}:80"
DASHBOARD_LABEL: Final = ("grafana_dashboard", "1")  # what the chart's sidecar looks for, in every namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestPlan:
    """One custom resource: apiVersion, kind, metadata name and namespace, and its spec."""

    api_version: str
    kind: str
    name: str
    namespace: str
    spec: Values


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservabilityPlan:
    """dashboards: {file name: JSON text}, read by Grafana's sidecar. grafana_service: `<name>.<namespace>:<port>`."""

    enabled: bool
    namespace: str
    releases: tuple[ReleasePlan, ...]
    manifests: tuple[ManifestPlan, ...]
    dashboards: Mapping[str, str]
    dashboard_label: tuple[str, str]
    grafana_service: str


def _volume(storage_gib: int) -> Values:
    return {
        "volumeClaimTemplate": {
            "spec": {
                "storageClassName": names.STORAGE_CLASS,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": f"{storage_gib}Gi"}},
            }
        }
    }


def _prometheus_values(wanted: Observability) -> Values:
    return {
        "prometheusSpec": {
            # By default it sees only monitors and rules labelled with this release: not Slurm's, DCGM's or ours.
            "serviceMonitorSelectorNilUsesHelmValues": False,
            "podMonitorSelectorNilUsesHelmValues": False,
            "ruleSelectorNilUsesHelmValues": False,
            "probeSelectorNilUsesHelmValues": False,
            "scrapeConfigSelectorNilUsesHelmValues": False,
            "retention": f"{wanted.retention_days}d",
            # Whichever comes first: days that do not fit would fill the volume and stop Prometheus.
            "retentionSize": f"{wanted.storage_gib * 85 // 100}GiB",
            "storageSpec": _volume(wanted.storage_gib),
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            "nodeSelector": on_core_nodes(),
            "resources": {"requests": {"cpu": "500m", "memory": "2Gi"}},
        }
    }


def _stack_values(wanted: Observability) -> Values:
    # The control plane is EKS's and kube-proxy listens on localhost only: what cannot be scraped would alert for ever.
    off: Values = {"enabled": False}
    return {
        "kubeControllerManager": off,
        "kubeScheduler": off,
        "kubeEtcd": off,
        "kubeProxy": off,
        "prometheus": _prometheus_values(wanted),
        "prometheusOperator": {
            "nodeSelector": on_core_nodes(),
            "admissionWebhooks": {"patch": {"nodeSelector": on_core_nodes()}},
        },
        "alertmanager": {
            "alertmanagerSpec": {
                "nodeSelector": on_core_nodes(),
                "storage": _volume(5),  # silences outlive the pod
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
            }
        },
        "grafana": {"nodeSelector": on_core_nodes()},
        "kube-state-metrics": {
            "nodeSelector": on_core_nodes(),
            # Alert rules count devices by nodeset, which only the nodes' labels know.
            "metricLabelsAllowlist": [f"nodes=[{names.ROLE_LABEL},{names.NODESET_LABEL}]"],
        },
        "prometheus-node-exporter": {"tolerations": [{"operator": "Exists"}]},
    }


def _dcgm_values() -> Values:
    return {
        "nodeSelector": on_gpu_nodes(),
        "tolerations": gpu_tolerations(),
        "serviceMonitor": {"enabled": True, "interval": "30s"},
        # Adds the label `hpc_job` with the Slurm job's id to the metrics of the GPUs that it has.
        "extraEnv": [{"name": "DCGM_HPC_JOB_MAPPING_DIR", "value": DCGM_JOB_MAPPING_DIR}],
        "extraHostVolumes": [{"name": "job-mapping", "hostPath": DCGM_JOB_MAPPING_DIR}],
        "extraVolumeMounts": [
            # The chart's own mount, repeated because Helm replaces lists.
            {
                "name": "exporter-metrics-volume",
                "mountPath": "/etc/dcgm-exporter/default-counters.csv",
                "subPath": "default-counters.csv",
            },
            {"name": "job-mapping", "mountPath": DCGM_JOB_MAPPING_DIR, "readOnly": True},
        ],
    }


def plan_observability(settings: Settings) -> ObservabilityPlan:
    """Nothing when switched off. Alerts and dashboard take their expected numbers from the contract."""
    contract = plan_contract(settings)
    wanted = settings.observability
    releases: tuple[ReleasePlan, ...] = ()
    manifests: tuple[ManifestPlan, ...] = ()
    dashboards: dict[str, str] = {}
    if wanted.enabled:
        releases = (
            plan_release(
                settings,
                versions.KUBE_PROMETHEUS_STACK,
                name=KUBE_PROMETHEUS_STACK_RELEASE,
                namespace=names.NAMESPACE_MONITORING,
                values=_stack_values(wanted),
                timeout_seconds=900,
                atomic=False,  # an upgrade rolled back half way leaves Prometheus and its volume at odds
            ),
            plan_release(
                settings,
                versions.DCGM_EXPORTER,
                name="dcgm-exporter",
                namespace=names.NAMESPACE_MONITORING,
                values=_dcgm_values(),
                after=(KUBE_PROMETHEUS_STACK_RELEASE,),  # whose CRDs its ServiceMonitor needs
            ),
        )
        manifests = (
            ManifestPlan(
                api_version="monitoring.coreos.com/v1",
                kind="PrometheusRule",
                name=names.PROJECT,
                namespace=names.NAMESPACE_MONITORING,
                spec={"groups": alert_groups(contract)},
            ),
        )
        dashboards = {f"{names.PROJECT}.json": dashboard_json(contract)}
    return ObservabilityPlan(
        enabled=wanted.enabled,
        namespace=names.NAMESPACE_MONITORING,
        releases=releases,
        manifests=manifests,
        dashboards=dashboards,
        dashboard_label=DASHBOARD_LABEL,
        grafana_service=GRAFANA_SERVICE,
    )
