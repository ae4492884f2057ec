from __future__ import annotations

import pytest

from components.validation_metrics import ValidationMetrics, ValidationMetricsArgs
from plan.validation_metrics import ValidationMetricsPlan, plan_validation_metrics
from tests.plan.build import example
from tests.recorder import built, on_kubernetes
from tools.recording import Record


def dev_plan() -> ValidationMetricsPlan:
    plan = plan_validation_metrics(example("dev"))
    assert plan is not None
    return plan


@pytest.fixture(scope="module")
def record() -> Record:
    def make() -> dict[str, object]:
        ValidationMetrics("metrics", ValidationMetricsArgs(plan=dev_plan()), on_kubernetes())
        return {}

    return built(make)


def test_the_service_and_its_monitor_select_what_the_deployment_makes(record: Record) -> None:
    deployment = record.one("kubernetes:apps/v1:Deployment").inputs["spec"]
    service = record.one("kubernetes:core/v1:Service").inputs
    monitor = record.one("kubernetes:monitoring.coreos.com/v1:ServiceMonitor").inputs["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    assert monitor["selector"]["matchLabels"] == service["metadata"]["labels"]
    assert monitor["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


def test_the_pod_mounts_the_files_that_are_there_before_it_and_is_replaced_when_they_change(record: Record) -> None:
    deployment = record.one("kubernetes:apps/v1:Deployment").inputs["spec"]["template"]
    files = record.one("kubernetes:core/v1:ConfigMap").inputs
    volume = deployment["spec"]["volumes"][0]["configMap"]
    assert volume["name"] == files["metadata"]["name"]
    assert {item["key"] for item in volume["items"]} == set(files["data"])
    assert dev_plan().revision in deployment["metadata"]["annotations"].values()


def test_an_update_does_not_wait_for_the_exporter(record: Record) -> None:
    for kind in ("kubernetes:apps/v1:Deployment", "kubernetes:core/v1:Service"):
        assert record.one(kind).inputs["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
