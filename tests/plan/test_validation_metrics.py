"""How results reach Prometheus: one small pod that can do nothing but read, its scrape and its alerts."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from facts import names
from jobs.metrics import exposition
from plan import make_plan
from plan.validation_metrics import PORT_NAME, ValidationMetricsPlan, plan_validation_metrics
from settings.load import from_stack_file
from settings.models import Settings
from tests.jobs.documents import mixed
from tools.engine import ROOT


def _settings() -> Settings:
    return from_stack_file(ROOT / "Pulumi.dev.yaml", "dev")


@pytest.fixture
def plan() -> ValidationMetricsPlan:
    made = plan_validation_metrics(_settings())
    assert made is not None
    return made


def _plain(value: object) -> Any:
    return json.loads(json.dumps(value))


def _spec(plan: ValidationMetricsPlan, kind: str) -> Any:
    (found,) = [manifest for manifest in plan.manifests if manifest.kind == kind]
    return _plain(found.spec)


@pytest.mark.parametrize("section", ["validation", "observability"])
def test_there_is_no_exporter_without_checks_or_without_prometheus(section: str) -> None:
    settings = _settings()
    off = getattr(settings, section).model_copy(update={"enabled": False})
    assert plan_validation_metrics(settings.model_copy(update={section: off})) is None


def test_the_pod_reads_the_shared_folder_and_can_do_nothing_else(plan: ValidationMetricsPlan) -> None:
    pod = _plain(plan.pod)
    (container,) = pod["containers"]
    files, shared = pod["volumes"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert files["configMap"]["name"] == plan.name
    assert {item["key"] for item in files["configMap"]["items"]} == set(plan.files)
    claim = shared["persistentVolumeClaim"]["claimName"]
    assert claim in {claim.name for claim in make_plan(_settings()).storage.claims}
    assert container["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["nodeSelector"] == {names.ROLE_LABEL: names.ROLE_CORE}


def test_it_reads_where_the_runner_writes_in_the_namespace_of_the_claim(plan: ValidationMetricsPlan) -> None:
    contract = make_plan(_settings()).contract
    assert f"{contract.shared_path}/validation" in _plain(plan.pod)["containers"][0]["command"]
    assert plan.namespace == contract.namespace


def test_its_files_need_nothing_but_the_standard_library_and_each_other(plan: ValidationMetricsPlan) -> None:
    for name, text in plan.files.items():
        for node in ast.walk(ast.parse(text)):
            modules = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [str(node.module)]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for module in modules:
                assert f"{module}.py" in plan.files or module.split(".")[0] in sys.stdlib_module_names, (name, module)


def test_prometheus_finds_the_service_by_its_label_and_the_port_by_its_name(plan: ValidationMetricsPlan) -> None:
    spec = _spec(plan, "ServiceMonitor")
    assert spec["selector"]["matchLabels"] == plan.labels
    (endpoint,) = spec["endpoints"]
    (port,) = _plain(plan.pod)["containers"][0]["ports"]
    assert endpoint["port"] == port["name"] == PORT_NAME
    assert port["containerPort"] == plan.port


def test_alerts_ask_for_metrics_and_labels_that_there_are(plan: ValidationMetricsPlan) -> None:
    served = exposition([mixed()]) + (ROOT / "jobs" / "exporter.py").read_text()
    (group,) = _spec(plan, "PrometheusRule")["groups"]
    assert len(group["rules"]) == 3
    for rule in group["rules"]:
        (metric,) = re.findall(r"slurm_validation_\w+", rule["expr"])
        assert metric in served
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule)):
            assert f'{label}="' in served, label


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool on PATH")
def test_an_alert_fires_for_what_failed_and_for_nothing_else(plan: ValidationMetricsPlan, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(_spec(plan, "PrometheusRule")))
    series = [line.rpartition(" ")[0] for line in exposition([mixed()]).splitlines() if "check_status{" in line]
    failing = {"suite": "full", "nodeset": "slinky", "status": "failed", "severity": "warning"}
    fired = [
        {"exp_labels": {**failing, "check": check, "cause": cause}}
        for check, cause in (("nccl-allgather", "socket-transport"), ("isolation", "gpus-missing"))
    ]
    for alert in fired:
        labels = alert["exp_labels"]
        summary = f"full check {labels['check']} of nodeset slinky failed: {labels['cause']}"
        (rule,) = [r for r in _spec(plan, "PrometheusRule")["groups"][0]["rules"] if r["alert"] == "ValidationFailed"]
        alert["exp_annotations"] = {"summary": summary, "description": rule["annotations"]["description"]}
    test = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": one, "values": "1x5"} for one in series],
                "alert_rule_test": [
                    {"eval_time": "2m", "alertname": "ValidationFailed", "exp_alerts": fired},
                    {"eval_time": "2m", "alertname": "ValidationCouldNotRun", "exp_alerts": []},
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(yaml.safe_dump(test))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
