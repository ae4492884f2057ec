"""Monitoring: what is scraped and kept, alert rules that know the cluster's numbers, a dashboard of real metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from facts import names
from plan.alerts import alert_groups, as_label
from plan.charts import DCGM_JOB_MAPPING_DIR, Values
from plan.contract import plan_contract
from plan.dashboard import COLUMNS
from plan.observability import ObservabilityPlan, plan_observability
from settings.models import Settings
from tests.plan import upstream
from tests.plan.build import Accounting, Observability, Partition, example, nodeset, stack
from tests.plan.test_slurm import at, slurm_release, table

# Slurm 26.05, src/plugins/metrics/openmetrics/openmetrics.c: what follows `slurm_nodes_`, `slurm_jobs_`, ...
SLURM_METRICS = {
    *(f"slurm_nodes{s}" for s in ("", "_alloc", "_down", "_drain", "_idle", "_invalid_reg", "_mixed", "_noresp")),
    *(f"slurm_jobs_{s}" for s in ("failed", "gpus_alloc", "hold", "node_failed", "pending", "running")),
    *(f"slurm_partition_jobs_{s}" for s in ("hold", "min_job_nodes_nohold", "pending", "running")),
    *(f"slurm_partition_nodes{s}" for s in ("", "_alloc", "_down", "_drain", "_idle", "_mixed")),
    "slurm_bf_cycle_last",
    "slurm_schedule_cycle_last",
    "slurm_slurmdbd_queue_size",
}
# dcgm-exporter 4.8.2, the counters that its chart enables.
GPU_METRICS = {
    f"DCGM_FI_{s}"
    for s in (
        "DEV_FB_FREE",
        "DEV_FB_USED",
        "DEV_GPU_TEMP",
        "DEV_GPU_UTIL",
        "DEV_POWER_USAGE",
        "DEV_ROW_REMAP_FAILURE",
        "DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DEV_XID_ERRORS",
        "PROF_PIPE_TENSOR_ACTIVE",
    )
}
KUBERNETES_METRICS = {
    "kube_deployment_status_replicas_available",
    "kube_node_labels",
    "kube_node_status_allocatable",
    "kube_node_status_condition",
    "kubelet_volume_stats_capacity_bytes",
    "kubelet_volume_stats_used_bytes",
}
METRIC = re.compile(r"\b(?:slurm_(?!eks)[a-z_]+|DCGM_[A-Z0-9_]+|kube(?:let)?_[a-z_]+)\b")
RECORDED = re.compile(r"\bslurm_eks:[a-z_]+\b")

TWO_NODESETS = stack(
    {"slinky": nodeset(partition=Partition(default=True)), "big": nodeset("p5.48xlarge", zone_id="usw2-az2")},
    accounting=Accounting(enabled=True),
)


def rules(settings: Settings) -> list[Values]:
    found: list[Values] = []
    for group in alert_groups(plan_contract(settings)):
        listed = at(group, "rules")
        assert isinstance(listed, list)
        found += [table(rule) for rule in listed]
    return found


def expected(settings: Settings) -> dict[tuple[str, str], int]:
    """{(recorded name, nodeset): number}"""
    return {
        (str(rule["record"]), str(at(rule, "labels", "nodeset"))): int(str(rule["expr"])[len("vector(") : -1])
        for rule in rules(settings)
        if str(rule["expr"]).startswith("vector(")
    }


def dashboard(plan: ObservabilityPlan) -> Values:
    (text,) = plan.dashboards.values()
    return json.loads(text)


def panels(plan: ObservabilityPlan) -> list[Values]:
    listed = dashboard(plan)["panels"]
    assert isinstance(listed, list)
    return [table(panel) for panel in listed]


def queries(plan: ObservabilityPlan) -> list[str]:
    found: list[str] = []
    for panel in panels(plan):
        targets = panel.get("targets", [])
        assert isinstance(targets, list)
        found += [str(at(target, "expr")) for target in targets]
    return found


def test_switched_off_there_is_nothing() -> None:
    plan = plan_observability(stack(observability=Observability(enabled=False)))
    assert not plan.enabled
    assert (plan.releases, plan.manifests, dict(plan.dashboards)) == ((), (), {})


def test_prometheus_sees_monitors_and_rules_that_other_releases_bring() -> None:
    spec = table(plan_observability(stack()).releases[0].values, "prometheus", "prometheusSpec")
    for kind in ("serviceMonitor", "podMonitor", "rule", "probe", "scrapeConfig"):
        assert spec[f"{kind}SelectorNilUsesHelmValues"] is False


def test_samples_are_kept_as_long_as_asked_for_or_until_the_volume_is_nearly_full() -> None:
    wanted = Observability(retention_days=90, storage_gib=500)
    spec = table(plan_observability(stack(observability=wanted)).releases[0].values, "prometheus", "prometheusSpec")
    assert spec["retention"] == "90d"
    assert spec["retentionSize"] == "425GiB"
    claim = table(spec, "storageSpec", "volumeClaimTemplate", "spec")
    assert claim["storageClassName"] == names.STORAGE_CLASS
    assert at(claim, "resources", "requests", "storage") == "500Gi"


def test_volumes_go_with_the_stack() -> None:
    values = plan_observability(stack()).releases[0].values
    for path in (("prometheus", "prometheusSpec"), ("alertmanager", "alertmanagerSpec")):
        assert at(values, *path, "persistentVolumeClaimRetentionPolicy", "whenDeleted") == "Delete"


def test_what_eks_does_not_let_be_scraped_is_not_waited_for() -> None:
    values = plan_observability(stack()).releases[0].values
    for component in ("kubeControllerManager", "kubeScheduler", "kubeEtcd", "kubeProxy"):
        assert values[component] == {"enabled": False}


def test_slurm_and_the_gpu_exporter_agree_on_where_jobs_are_noted() -> None:
    dcgm = plan_observability(stack()).releases[1].values
    assert dcgm["extraEnv"] == [{"name": "DCGM_HPC_JOB_MAPPING_DIR", "value": DCGM_JOB_MAPPING_DIR}]
    assert dcgm["extraHostVolumes"] == [{"name": "job-mapping", "hostPath": DCGM_JOB_MAPPING_DIR}]
    slurm = table(slurm_release(stack()).values, "vendor", "nvidia", "dcgm")
    assert slurm == {"enabled": True, "jobMappingDir": DCGM_JOB_MAPPING_DIR}


def test_the_gpu_exporters_monitor_waits_for_its_definition() -> None:
    stack_release, dcgm = plan_observability(stack()).releases
    assert stack_release.name in dcgm.after


def test_rules_know_the_numbers_of_the_plan() -> None:
    assert expected(example("prod")) == {
        ("slurm_eks:expected_nodes", "h100"): 128,
        ("slurm_eks:expected_gpus", "h100"): 1024,
        ("slurm_eks:expected_efa_interfaces", "h100"): 4096,
    }
    assert expected(TWO_NODESETS)["slurm_eks:expected_gpus", "slinky"] == 8


def test_nothing_is_expected_of_what_a_nodeset_does_not_have() -> None:
    assert {name for name, _ in expected(stack({"a": nodeset(efa=False)}))} == {
        "slurm_eks:expected_nodes",
        "slurm_eks:expected_gpus",
    }


def test_the_number_of_rules_does_not_grow_with_the_number_of_nodes() -> None:
    assert len(rules(stack({"a": nodeset(nodes=2)}))) == len(rules(stack({"a": nodeset(nodes=200)})))


def test_accounting_is_watched_where_there_is_accounting() -> None:
    def watched(settings: Settings) -> bool:
        return "SlurmAccountingBehind" in [rule.get("alert") for rule in rules(settings)]

    assert watched(TWO_NODESETS)
    assert not watched(stack())


def test_every_alert_says_how_bad_it_is_what_it_means_and_what_to_do() -> None:
    alerts = [rule for rule in rules(TWO_NODESETS) if "alert" in rule]
    assert len({str(alert["alert"]) for alert in alerts}) == len(alerts) >= 18
    for alert in alerts:
        assert at(alert, "labels", "severity") in ("warning", "critical")
        assert len(str(at(alert, "annotations", "summary"))) > 10
        assert len(str(at(alert, "annotations", "description"))) >= 40


def test_rules_and_dashboard_ask_only_for_metrics_that_exist() -> None:
    asked = [str(rule["expr"]) for rule in rules(TWO_NODESETS)] + queries(plan_observability(TWO_NODESETS))
    used = {metric for query in asked for metric in METRIC.findall(query)}
    assert used - SLURM_METRICS - GPU_METRICS - KUBERNETES_METRICS == set()
    recorded = {str(rule["record"]) for rule in rules(TWO_NODESETS) if "record" in rule}
    assert {name for query in asked for name in RECORDED.findall(query)} <= recorded


def test_nodesets_are_told_apart_by_the_label_that_nodes_carry() -> None:
    allowed = at(plan_observability(stack()).releases[0].values, "kube-state-metrics", "metricLabelsAllowlist")
    assert allowed == [f"nodes=[{names.ROLE_LABEL},{names.NODESET_LABEL}]"]
    assert any(f"label_{as_label(names.NODESET_LABEL)}" in str(rule["expr"]) for rule in rules(stack()))


def test_the_dashboards_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    laid = panels(plan_observability(stack()))
    assert len({int(str(panel["id"])) for panel in laid}) == len(laid)
    for panel in laid:
        place = table(panel, "gridPos")
        x, y, w, h = (int(str(place[key])) for key in ("x", "y", "w", "h"))
        cells = {(x + i, y + j) for i in range(w) for j in range(h)}
        assert x + w <= COLUMNS
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_dashboard_shows_the_cluster_its_partitions_and_its_gpus() -> None:
    plan = plan_observability(stack(name="science"))
    assert [panel["title"] for panel in panels(plan) if panel["type"] == "row"] == ["Cluster", "Partitions", "GPUs"]
    assert dashboard(plan)["title"] == "Slurm: science"
    assert plan.dashboard_label == ("grafana_dashboard", "1")


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_releases_and_rules_are_those_of_the_golden_file(name: str) -> None:
    plan = plan_observability(example(name))
    releases: Values = {release.name: release.values for release in plan.releases}
    manifests: Values = {manifest.kind: manifest.spec for manifest in plan.manifests}
    upstream.compare_with_golden(f"{name}/observability.yaml", releases | manifests)


def rules_file(folder: Path) -> Path:
    file = folder / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": alert_groups(plan_contract(TWO_NODESETS))}))
    return file


def promtool(*arguments: str, folder: Path) -> None:
    run = subprocess.run(
        [upstream.tool("promtool"), *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_prometheus_accepts_the_rules(tmp_path: Path) -> None:
    promtool("check", "rules", rules_file(tmp_path).name, folder=tmp_path)


def test_the_rules_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    rules_file(tmp_path)
    shutil.copy(Path(__file__).with_name("alert_rules_test.yaml"), tmp_path)
    promtool("test", "rules", "alert_rules_test.yaml", folder=tmp_path)


def test_rendered_by_helm_the_gpu_exporter_counts_what_rules_and_dashboard_ask_for(tmp_path: Path) -> None:
    release = plan_observability(stack()).releases[1]
    objects = upstream.rendered(release, release.values, tmp_path)
    (counters,) = (o for o in objects if at(o, "metadata", "name") == "exporter-metrics-config-map")
    lines = str(at(counters, "data", "metrics")).splitlines()
    enabled = {line.split(",")[0].strip() for line in lines if not line.lstrip().startswith("#")}
    assert enabled >= GPU_METRICS
    assert DCGM_JOB_MAPPING_DIR in json.dumps([o for o in objects if o["kind"] == "DaemonSet"])


def test_rendered_by_helm_no_alert_waits_for_what_eks_hides(tmp_path: Path) -> None:
    release = plan_observability(stack()).releases[0]
    text = json.dumps(upstream.rendered(release, release.values, tmp_path))
    assert "KubeAPIDown" in text
    for alert in ("KubeSchedulerDown", "KubeControllerManagerDown", "KubeProxyDown", "etcdMembersDown"):
        assert alert not in text


def test_rendered_by_helm_grafana_is_where_the_plan_says(tmp_path: Path) -> None:
    plan = plan_observability(stack())
    release = plan.releases[0]
    objects = upstream.rendered(release, release.values, tmp_path)
    service = plan.grafana_service.split(".")[0]
    (grafana,) = (o for o in objects if o["kind"] == "Service" and at(o, "metadata", "name") == service)
    ports = at(grafana, "spec", "ports")
    assert isinstance(ports, list)
    assert plan.grafana_service == f"{service}.{release.namespace}:{at(ports[0], 'port')}"
    label, value = plan.dashboard_label
    (deployment,) = (o for o in objects if o["kind"] == "Deployment" and at(o, "metadata", "name") == service)
    text = json.dumps(deployment)
    assert f'{{"name": "LABEL", "value": "{label}"}}' in text
    assert f'{{"name": "LABEL_VALUE", "value": "{value}"}}' in text
