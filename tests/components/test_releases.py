"""SlurmOperator and Observability: releases of the plan, in the plan's order."""

from __future__ import annotations

import json

import pytest

from components.observability import Observability, ObservabilityArgs
from components.slurm_operator import SlurmOperator, SlurmOperatorArgs
from plan.charts import OperatorPlan, ReleasePlan, plan_operators
from plan.observability import ObservabilityPlan, plan_observability
from tests.plan.build import Observability as ObservabilitySettings
from tests.plan.build import example, stack
from tests.recorder import NODES, before, built, network_ids, on_kubernetes
from tools.recording import Record

RELEASE = "kubernetes:helm.sh/v3:Release"


def operator_plan() -> OperatorPlan:
    return plan_operators(example("dev"))


def observability_of(plan: ObservabilityPlan) -> Record:
    return built(lambda: Observability("obs", ObservabilityArgs(plan=plan), on_kubernetes()))


@pytest.fixture(scope="module")
def operators() -> Record:
    return built(
        lambda: SlurmOperator(
            "op", SlurmOperatorArgs(plan=operator_plan(), network=network_ids(), nodes=NODES), on_kubernetes()
        )
    )


@pytest.fixture(scope="module")
def observability() -> Record:
    return observability_of(plan_observability(example("dev")))


def assert_installed_as_planned(record: Record, prefix: str, plans: tuple[ReleasePlan, ...]) -> None:
    assert {r.name for r in record.of(RELEASE)} == {f"{prefix}-{plan.name}" for plan in plans}
    for plan in plans:
        resource = record.one(RELEASE, f"{prefix}-{plan.name}")
        inputs = resource.inputs
        assert (inputs["name"], inputs["namespace"], inputs["version"]) == (plan.name, plan.namespace, plan.version)
        assert (inputs["chart"], inputs.get("repositoryOpts", {}).get("repo")) == (plan.chart, plan.repo)
        assert (inputs["timeout"], inputs["atomic"]) == (plan.timeout_seconds, plan.atomic)
        assert {(RELEASE, f"{prefix}-{earlier}") for earlier in plan.after} <= before(record, resource)


def test_operators_are_installed_with_pinned_versions_in_the_plans_order(operators: Record) -> None:
    assert_installed_as_planned(operators, "op", operator_plan().releases)


def test_webhooks_stand_before_what_they_admit(operators: Record) -> None:
    needed = before(operators, operators.one(RELEASE, "op-slurm-operator"))
    assert {(RELEASE, "op-cert-manager"), (RELEASE, "op-slurm-operator-crds")} <= needed


def test_the_load_balancer_controller_is_told_its_vpc_and_the_others_only_what_is_planned(operators: Record) -> None:
    for plan in operator_plan().releases:
        added = {"vpcId": "vpc-1"} if plan.name == operator_plan().load_balancer_release else {}
        assert operators.one(RELEASE, f"op-{plan.name}").inputs["values"] == {**plan.values, **added}


def test_the_load_balancer_controller_has_its_identity_from_its_first_call_to_its_last(operators: Record) -> None:
    plan = operator_plan()
    association = operators.one("aws:eks/podIdentityAssociation:PodIdentityAssociation")
    assert (association.inputs["namespace"], association.inputs["serviceAccount"]) == (
        plan.load_balancer_namespace,
        plan.load_balancer_service_account,
    )
    policy = operators.one("aws:iam/rolePolicy:RolePolicy")
    assert json.loads(policy.inputs["policy"])["Statement"]
    needed = before(operators, operators.one(RELEASE, f"op-{plan.load_balancer_release}"))
    assert {(association.type, association.name), (policy.type, policy.name)} <= needed


def test_observability_is_installed_as_planned(observability: Record) -> None:
    assert_installed_as_planned(observability, "obs", plan_observability(example("dev")).releases)


def test_alert_rules_come_after_the_definition_of_their_kind(observability: Record) -> None:
    plan = plan_observability(example("dev"))
    assert plan.manifests
    for manifest in plan.manifests:
        resource = observability.one(f"kubernetes:{manifest.api_version}:{manifest.kind}")
        assert resource.inputs["spec"] == manifest.spec
        # An empty map would differ from the cluster's missing one for ever.
        assert set(resource.inputs["metadata"]) == {"name", "namespace"}
        assert (RELEASE, "obs-kube-prometheus-stack") in before(observability, resource)


def test_grafanas_sidecar_finds_the_dashboard_by_its_label(observability: Record) -> None:
    plan = plan_observability(example("dev"))
    config_map = observability.one("kubernetes:core/v1:ConfigMap").inputs
    assert config_map["metadata"]["labels"] == dict([plan.dashboard_label])
    assert config_map["data"] == dict(plan.dashboards)


def test_switched_off_observability_makes_nothing() -> None:
    plan = plan_observability(stack(observability=ObservabilitySettings(enabled=False)))
    assert {r.type for r in observability_of(plan).resources} == {
        "slurm-eks:index:Observability",
        "pulumi:providers:kubernetes",
    }
