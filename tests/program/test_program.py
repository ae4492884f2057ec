"""The whole program under the mocks, for both example stacks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
import pytest
from pulumi.runtime.rpc import UNKNOWN

from plan import make_plan
from plan.outputs import OUTPUTS, static_outputs
from settings.load import from_stack_file
from tests.recorder import OUTPUT_AS_TEXT, before, program, texts
from tools.recording import ROOT, Record, record_stack, stack_config

STACKS = ("dev", "prod")
PROVIDER = "pulumi:providers:kubernetes"
RELEASE = "kubernetes:helm.sh/v3:Release"
SERVICE = "kubernetes:core/v1:Service"
NODEGROUP = "aws:eks/nodeGroup:NodeGroup"


def changed(stack: str, **sections: Mapping[str, Any]) -> dict[str, str]:
    """The stack's configuration with keys of some sections changed."""
    config = stack_config(stack)
    for section, keys in sections.items():
        config[f"slurm-eks:{section}"] = json.dumps({**json.loads(config.get(f"slurm-eks:{section}", "{}")), **keys})
    return config


def unknown_paths(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from unknown_paths(item, f"{path}.{key}" if path else key)
    elif value == UNKNOWN:
        yield path


@pytest.fixture(scope="module")
def records() -> dict[str, Record]:
    return {stack: program(stack) for stack in STACKS}


@pytest.fixture(params=STACKS)
def record(request: pytest.FixtureRequest, records: dict[str, Record]) -> Record:
    return records[request.param]


@pytest.mark.parametrize("stack", STACKS)
def test_a_preview_shows_every_resource_that_an_update_makes(stack: str, records: dict[str, Record]) -> None:
    shown = {r.urn for r in program(stack, preview=True).resources}
    assert shown == {r.urn for r in records[stack].resources}


def test_a_first_preview_shows_all_of_the_slurm_charts_values_but_what_only_the_deployment_knows() -> None:
    (slurm,) = (r for r in program("dev", preview=True).of(RELEASE) if r.inputs["name"] == "slurm")
    assert set(unknown_paths(slurm.inputs["values"])) == {
        "nodesets.slinky.slurmd.image.repository",
        "nodesets.slinky.slurmd.image.digest",
        "loginsets.login.rootSshAuthorizedKeys",
        "loginsets.login.metadata.annotations.checksum/keys",
    }


def test_every_kubernetes_resource_is_made_in_this_cluster_and_not_in_the_operators_kubeconfig(record: Record) -> None:
    provider = record.one(PROVIDER)
    ours = [r for r in [*record.resources, *record.reads] if r.type.startswith("kubernetes:")]
    assert len(ours) > 20
    assert {r.name for r in ours if not r.provider.startswith(f"{provider.urn}::")} == set()


def test_every_other_resource_is_made_by_its_packages_default_provider(record: Record) -> None:
    assert {
        r.name for r in record.resources if r.custom and not r.type.startswith("kubernetes:") and r.provider
    } == set()


def test_no_value_of_the_future_was_turned_into_text(record: Record) -> None:
    asked = [*(r.inputs for r in record.resources), record.outputs]
    assert [
        text for value in asked for text in texts(value) if OUTPUT_AS_TEXT in text or "<pulumi.output." in text
    ] == []


def test_every_resource_belongs_to_a_component_and_every_component_to_the_stack(record: Record) -> None:
    for r in record.resources:
        inside = "slurm-eks:index:" in r.parent.split("::")[2]
        assert inside == (not r.type.startswith("slurm-eks:index:")), r.urn


def test_secrets_are_marked_so_that_neither_state_nor_logs_show_them(record: Record) -> None:
    assert "kubeconfig" in record.one(PROVIDER).secret_paths
    for secret in record.of("kubernetes:core/v1:Secret"):
        assert secret.secret_paths, secret.name
    for database in record.of("aws:rds/instance:Instance"):
        assert "password" in database.secret_paths
    for image in record.of("docker:index/image:Image"):
        assert any(path.startswith("registry") for path in image.secret_paths)
    for release in record.of(RELEASE):
        assert "private key" not in json.dumps(release.inputs)


def test_the_program_exports_the_documented_outputs_and_marks_the_secret_ones(records: dict[str, Record]) -> None:
    documented = {o.name: o for o in OUTPUTS}
    for stack, record in records.items():
        assert record.outputs.keys() <= documented.keys(), stack
        assert {n for n, o in documented.items() if not o.optional} <= record.outputs.keys(), stack
        assert {n for n in record.outputs if documented[n].secret} == record.secret_outputs, stack
        plan = make_plan(from_stack_file(ROOT / f"Pulumi.{stack}.yaml", stack))
        assert {n: record.outputs[n] for n in static_outputs(plan)} == static_outputs(plan)


def test_outputs_have_the_documented_types(record: Record) -> None:
    kinds = {"string": str, "integer": int, "strings": list, "object": dict}
    for output in OUTPUTS:
        if output.name in record.outputs:
            assert isinstance(record.outputs[output.name], kinds[output.type]), output.name


def test_a_destroy_takes_the_login_then_the_load_balancer_controller_then_nodes_then_the_network(
    record: Record,
) -> None:
    (service,) = (r for r in record.of(SERVICE) if r.inputs["spec"].get("type") == "LoadBalancer")
    (controller,) = (r for r in record.of(RELEASE) if r.inputs["name"] == "aws-load-balancer-controller")
    (core,) = (r for r in record.of(NODEGROUP) if r.inputs["labels"]["role"] == "core")
    assert (controller.type, controller.name) in before(record, service)
    assert (core.type, core.name) in before(record, controller)
    for group in record.of(NODEGROUP):
        needed = {kind for kind, _ in before(record, group)}
        assert {"aws:ec2/vpc:Vpc", "aws:ec2/natGateway:NatGateway", "eks:index:Cluster"} <= needed


def test_workers_end_before_their_nodes_claims_and_operator_go(record: Record) -> None:
    (slurm,) = (r for r in record.of(RELEASE) if r.inputs["name"] == "slurm")
    needed = before(record, slurm)
    assert {(NODEGROUP, r.name) for r in record.of(NODEGROUP)} <= needed
    claims = record.of("kubernetes:core/v1:PersistentVolumeClaim")
    assert {(r.type, r.name) for r in claims} <= needed
    assert {"cert-manager", "slurm-operator-crds", "slurm-operator", "kube-prometheus-stack"} <= {
        record.one(RELEASE, name).inputs["name"] for kind, name in needed if kind == RELEASE
    }


def test_whatever_is_put_into_a_namespace_comes_after_it(record: Record) -> None:
    namespaces = {r.inputs["metadata"]["name"]: (r.type, r.name) for r in record.of("kubernetes:core/v1:Namespace")}
    for r in record.resources:
        if r.type.startswith("kubernetes:"):
            namespace = r.inputs.get("namespace") or r.inputs.get("metadata", {}).get("namespace")
            assert namespace in (None, "kube-system") or namespaces[namespace] in before(record, r), r.name


def test_gpu_nodes_and_core_nodes_come_up_side_by_side(record: Record) -> None:
    (core,) = (r for r in record.of(NODEGROUP) if r.inputs["labels"]["role"] == "core")
    for group in record.of(NODEGROUP):
        assert (core.type, core.name) not in before(record, group), "minutes lost in every first `up`"


def test_a_hundred_and_twenty_eight_nodes_need_no_more_resources_than_two(records: dict[str, Record]) -> None:
    nodesets = {"slinky": {"instance_type": "g6.12xlarge", "nodes": 128}}
    config = changed("dev", nodesets=nodesets, network={"nat": "single", "endpoints": False})
    many = record_stack("dev", config=config)
    assert {r.urn for r in many.resources} == {r.urn for r in records["dev"].resources}


def test_a_changed_number_of_nodes_changes_the_nodegroup_and_the_nodeset_and_no_name(
    records: dict[str, Record],
) -> None:
    nodesets = {"slinky": {"instance_type": "g6.12xlarge", "nodes": 3}}
    after = {r.urn: r for r in record_stack("dev", config=changed("dev", nodesets=nodesets)).resources}
    changes = {r.type for r in records["dev"].resources if after[r.urn].inputs != r.inputs}
    assert NODEGROUP in changes
    assert changes <= {
        NODEGROUP,
        RELEASE,
        "kubernetes:monitoring.coreos.com/v1:PrometheusRule",  # expects so many GPUs
        "kubernetes:core/v1:ConfigMap",
        "kubernetes:batch/v1:Job",  # other nodes are checked anew
        "kubernetes:batch/v1:CronJob",  # tells which revision it checks
    }


def test_without_validation_nothing_of_it_is_made_and_no_key_of_it_opens_the_login() -> None:
    off = record_stack("dev", config=changed("dev", validation={"enabled": False}))
    assert off.of("slurm-eks:index:JobValidation") == []
    assert [r.name for r in off.resources if "validation" in r.name] == []
    assert "validation" not in off.outputs


def test_wrong_settings_end_the_program_with_all_problems_and_no_stack_trace() -> None:
    config = changed("dev", login={"allowed_cidrs": ["0.0.0.0/0"]}, storage={"protekt": True})
    with pytest.raises(pulumi.RunError) as refused:
        record_stack("dev", config=config)
    assert "login.allowed_cidrs" in str(refused.value)
    assert "storage.protekt" in str(refused.value)


def test_a_misspelt_section_is_refused_and_not_passed_over() -> None:
    config = {**stack_config("dev"), "slurm-eks:nodests": "{}"}
    with pytest.raises(pulumi.RunError, match="nodests"):
        record_stack("dev", config=config)
