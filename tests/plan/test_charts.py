"""Where charts come from, and the releases before Slurm: order, placement, tolerations, images, IAM policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from facts import names, versions
from facts.hardware import INSTANCE_TYPES
from facts.versions import ALL_CHARTS
from plan.charts import ReleasePlan, Values, chart_reference, merged, plan_operators
from plan.load_balancer_policy import load_balancer_policy
from plan.observability import plan_observability
from settings.models import Charts, Settings
from tests.plan import upstream
from tests.plan.build import example, nodeset, stack
from tests.plan.test_slurm import slurm_release

DAEMONS_ON_GPU_NODES = ("nvidia-device-plugin", "aws-efa-k8s-device-plugin", "dcgm-exporter")


def taking_charts_from(charts: Charts) -> Settings:
    return stack().model_copy(update={"charts": charts})


def every_release(settings: Settings) -> tuple[ReleasePlan, ...]:
    return (*plan_operators(settings).releases, *plan_observability(settings).releases, slurm_release(settings))


def release(settings: Settings, name: str) -> ReleasePlan:
    return next(r for r in every_release(settings) if r.name == name)


def test_an_oci_chart_is_named_whole_and_never_by_a_repository() -> None:
    assert chart_reference(stack(), versions.SLURM) == ("oci://ghcr.io/slinkyproject/charts/slurm", None)


def test_an_https_chart_is_named_within_its_repository() -> None:
    assert chart_reference(stack(), versions.CERT_MANAGER) == ("cert-manager", "https://charts.jetstack.io")


@pytest.mark.parametrize("chart", ALL_CHARTS, ids=lambda chart: chart.name)
def test_a_mirror_holds_every_chart_under_one_prefix(chart: versions.Chart) -> None:
    settings = taking_charts_from(Charts(mirror="oci://registry.example/charts"))
    assert chart_reference(settings, chart) == (f"oci://registry.example/charts/{chart.name}", None)


@pytest.mark.parametrize("folder", ["charts", "charts/"])
def test_a_folder_holds_archives_as_helm_pull_names_them(folder: str) -> None:
    settings = taking_charts_from(Charts(folder=folder))
    assert chart_reference(settings, versions.CERT_MANAGER) == ("charts/cert-manager-v1.16.2.tgz", None)


def test_every_release_is_named_and_pinned() -> None:
    releases = every_release(example("dev"))
    assert len({(r.namespace, r.name) for r in releases}) == len(releases) == len(ALL_CHARTS)
    assert {r.version for r in releases} == {chart.version for chart in ALL_CHARTS}


def test_a_release_waits_only_for_releases_that_exist_and_come_before_it() -> None:
    for settings in (example("dev"), example("prod")):
        up: set[str] = set()
        for r in every_release(settings):
            assert set(r.after) <= up, r.name
            up.add(r.name)


def test_webhooks_and_definitions_are_there_before_what_they_admit() -> None:
    settings = example("dev")
    assert set(release(settings, "slurm-operator").after) == {"cert-manager", "slurm-operator-crds"}
    assert "slurm-operator" in release(settings, "slurm").after


def test_the_slurm_charts_are_of_one_version_and_only_one_release_installs_definitions() -> None:
    family = [chart for chart in ALL_CHARTS if chart.home == versions.SLINKY_HOME]
    assert {chart.version for chart in family} == {versions.SLINKY_VERSION}
    assert "crds" not in release(example("dev"), "slurm-operator").values


def test_the_efa_plugin_comes_with_the_first_nodeset_that_uses_efa_and_not_before() -> None:
    def installed(settings: Settings) -> bool:
        return "aws-efa-k8s-device-plugin" in {r.name for r in plan_operators(settings).releases}

    assert not installed(stack({"a": nodeset(efa=False)}))
    assert installed(stack({"a": nodeset(efa=False), "b": nodeset()}))


def test_the_efa_plugin_is_pulled_from_the_registry_of_its_region() -> None:
    def repository(region: str) -> object:
        (plugin,) = (r for r in plan_operators(stack(region=region)).releases if "efa" in r.name)
        image = plugin.values["image"]
        assert isinstance(image, dict)
        return image["repository"]

    assert repository("us-west-2") == "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin"
    assert repository("eu-south-2") == "455263428931.dkr.ecr.eu-south-2.amazonaws.com/eks/aws-efa-k8s-device-plugin"


def test_daemons_of_gpu_nodes_tolerate_the_taint_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    taint = names.Taint(key="example.com/reserved", value="yes")
    monkeypatch.setattr(names, "GPU_TAINT", taint)
    for name in DAEMONS_ON_GPU_NODES:
        assert release(example("dev"), name).values["tolerations"] == [taint.toleration()], name


def test_the_load_balancer_controller_is_told_what_pods_cannot_ask_metadata_for() -> None:
    values = release(example("dev"), "aws-load-balancer-controller").values
    assert values["clusterName"] == "slurm-dev"
    assert values["region"] == "us-west-2"
    assert values["enableServiceMutatorWebhook"] is False
    plan = plan_operators(example("dev"))
    assert values["serviceAccount"] == {"create": True, "name": plan.load_balancer_service_account}


def test_load_balancers_carry_the_tags_of_the_stack() -> None:
    tags = release(stack(tags={"team": "ml"}), "aws-load-balancer-controller").values["defaultTags"]
    assert isinstance(tags, dict)
    assert tags["team"] == "ml"


def test_merging_lays_maps_over_each_other_and_changes_neither() -> None:
    base: Values = {"a": {"b": 1, "c": [1]}}
    assert merged(base, {"a": {"c": [2], "d": 3}}) == {"a": {"b": 1, "c": [2], "d": 3}}
    assert base == {"a": {"b": 1, "c": [1]}}


def test_the_releases_before_slurm_are_those_of_the_golden_file() -> None:
    upstream.compare_with_golden(
        "dev/operators.yaml", {r.name: r.values for r in plan_operators(example("dev")).releases}
    )


def granted(policy: Values) -> set[tuple[str, str, str]]:
    """Each (action, resource, condition) that a policy allows."""
    grants: set[tuple[str, str, str]] = set()
    statements = policy["Statement"]
    assert isinstance(statements, list)
    for statement in statements:
        assert isinstance(statement, dict)
        resources, actions = statement["Resource"], statement["Action"]
        assert isinstance(actions, list)
        for resource in resources if isinstance(resources, list) else [resources]:
            condition = json.dumps(statement.get("Condition"), sort_keys=True)
            grants |= {(str(action), str(resource), condition) for action in actions}
    return grants


def test_the_controllers_policy_allows_nothing_on_everything_that_is_not_its_own() -> None:
    for action, resource, condition in granted(json.loads(load_balancer_policy())):
        destroys = action.split(":")[1].startswith(("Delete", "Set", "Modify", "Remove"))
        narrowed = resource != "*" or "elbv2.k8s.aws/cluster" in condition
        # Listeners are made and removed without a tag to tell them by.
        assert narrowed or not destroys or action.endswith(("DeleteListener", "ModifyListener")), action


def test_the_controllers_policy_is_the_documented_one_without_what_is_switched_off() -> None:
    file = upstream.charts_folder() / "aws-load-balancer-controller-v3.5.0-iam_policy.json"
    if not file.exists():
        pytest.skip(f"{file.name} is not in the folder of chart archives")
    documented, ours = granted(json.loads(file.read_text())), granted(json.loads(load_balancer_policy()))
    assert ours <= documented
    application_only = ("/app/", "listener-rule/")
    left_out = {action for action, resource, _ in documented - ours if not any(a in resource for a in application_only)}
    assert {action.split(":")[0] for action in left_out} == {
        "acm", "cognito-idp", "ec2", "elasticloadbalancing", "iam", "shield", "waf-regional", "wafv2"
    }  # fmt: skip
    assert {action for action in left_out if action.startswith(("ec2:", "elasticloadbalancing:"))} == {
        # Granted without the condition by a statement of the same document.
        "ec2:AuthorizeSecurityGroupIngress",
        "ec2:RevokeSecurityGroupIngress",
        "elasticloadbalancing:CreateRule",
        "elasticloadbalancing:DeleteRule",
        "elasticloadbalancing:ModifyRule",
        "elasticloadbalancing:SetRulePriorities",
        "elasticloadbalancing:SetWebAcl",
        "elasticloadbalancing:AddListenerCertificates",
        "elasticloadbalancing:RemoveListenerCertificates",
    }


def test_the_operators_values_are_ones_that_its_chart_has() -> None:
    defaults = yaml.safe_load(upstream.reference("slinky-1.2.1/values/slurm-operator.yaml").read_text())
    assert upstream.unknown_paths(release(example("dev"), "slurm-operator").values, defaults) == []


@pytest.mark.parametrize("chart", ALL_CHARTS, ids=lambda chart: chart.name)
def test_values_are_ones_that_the_pinned_chart_has(chart: versions.Chart) -> None:
    r = release(example("prod"), chart.name)
    assert upstream.unknown_paths(r.values, upstream.chart_defaults(r)) == []


def pod_specs(objects: list[Values]) -> list[tuple[str, str, Values]]:
    """(kind, name, pod-like spec) of whatever puts pods on nodes; helm's test pods apart."""
    found: list[tuple[str, str, Values]] = []
    for item in objects:
        metadata, spec = item["metadata"], item.get("spec")
        assert isinstance(metadata, dict)
        if not isinstance(spec, dict):
            continue
        template = spec.get("template")
        pod = template.get("spec") if isinstance(template, dict) else spec
        if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet", "Job", "Prometheus", "Alertmanager"):
            assert isinstance(pod, dict)
            found.append((str(item["kind"]), str(metadata["name"]), pod))
    return found


@pytest.mark.parametrize("stack_name", ["dev", "prod"])
def test_rendered_by_helm_every_pod_is_bound_to_nodes_that_take_it(stack_name: str, tmp_path: Path) -> None:
    checked = 0
    for r in every_release(example(stack_name)):
        for kind, name, pod in pod_specs(upstream.rendered(r, r.values, tmp_path)):
            selector, tolerations = pod.get("nodeSelector") or {}, pod.get("tolerations") or []
            assert isinstance(selector, dict) and isinstance(tolerations, list)
            if kind != "DaemonSet":
                assert selector.get(names.ROLE_LABEL) == names.ROLE_CORE, (r.name, kind, name)
            elif "node-exporter" in name:
                assert {"operator": "Exists"} in tolerations
            else:
                assert selector.get(names.ROLE_LABEL) == names.ROLE_GPU, (r.name, kind, name)
                assert names.GPU_TAINT.toleration() in tolerations, (r.name, kind, name)
            checked += 1
    assert checked >= 18


def test_rendered_by_helm_the_operator_is_the_same_each_time(tmp_path: Path) -> None:
    r = release(example("dev"), "slurm-operator")
    assert upstream.rendered(r, r.values, tmp_path) == upstream.rendered(r, r.values, tmp_path)


def test_rendered_by_helm_the_efa_plugin_knows_every_type_that_we_offer_with_efa(tmp_path: Path) -> None:
    r = release(example("dev"), "aws-efa-k8s-device-plugin")
    (daemon,) = (item for item in upstream.rendered(r, r.values, tmp_path) if item["kind"] == "DaemonSet")
    text = json.dumps(daemon)
    assert [t.name for t in INSTANCE_TYPES.values() if t.gpus and t.efa_cards and f'"{t.name}"' not in text] == []
