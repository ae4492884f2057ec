"""The program on the real Pulumi engine and the local cloud: up, again, changed, drifted, killed, wrong, down.

One dev stack is brought up once and serves the tests in the order below; each leaves it as it found it. What needs a
fresh start makes its own.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from typing import Any

import boto3
import pytest

from localcloud import control
from tests.engine.harness import Stack

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def dev(make_stack: Callable[..., Stack]) -> Stack:
    stack = make_stack(like="dev")
    outcome = stack.up()
    assert outcome.exit_code == 0, outcome.text
    assert set(outcome.changes) == {"create"}
    return stack


def aws(stack: Stack, service: str) -> Any:
    return boto3.client(
        service,
        region_name="us-west-2",
        endpoint_url=(stack.state / "endpoint").read_text().strip(),
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def touched(outcome: Any) -> set[tuple[str, str]]:
    steps = (step for step in outcome.steps if step.op != "read" and step.type != "pulumi:pulumi:Stack")
    return {(step.op, step.type) for step in steps}


def test_a_second_up_changes_nothing(dev: Stack) -> None:
    outcome = dev.up("--expect-no-changes")
    assert outcome.exit_code == 0, outcome.text
    assert set(outcome.changes) == {"same"}


def test_the_outputs_say_how_to_reach_the_cluster_and_keep_secrets(dev: Stack) -> None:
    outputs = dev.up().outputs
    assert re.fullmatch(r"ssh .*root@slurm-.*\.elb\.us-west-2\.amazonaws\.com", outputs["login_command"])
    assert outputs["gres"] == {"slinky": "gpu:nvidia_l4:4"}
    assert outputs["gpus"] == 8
    assert {outputs["kubeconfig"], outputs["login_private_key"]} == {"[secret]"}
    assert all(f.startswith("SHA256:") for f in outputs["host_key_fingerprints"].values())
    record = (dev.state / "backend").rglob("*.json")
    assert not any("PRIVATE KEY" in file.read_text() for file in record)


def test_one_more_node_changes_the_nodegroup_the_slurm_values_and_what_counts_nodes_and_nothing_else(
    dev: Stack,
) -> None:
    dev.set("nodesets.slinky.nodes", 3)
    outcome = dev.preview()
    dev.set("nodesets.slinky.nodes", 2)
    assert outcome.exit_code == 0, outcome.text
    assert touched(outcome) == {
        ("update", "aws:eks/nodeGroup:NodeGroup"),
        ("update", "kubernetes:helm.sh/v3:Release"),  # slurm: replicas
        ("update", "kubernetes:monitoring.coreos.com/v1:PrometheusRule"),  # expected nodes and GPUs
        ("update", "kubernetes:core/v1:ConfigMap"),  # the contract and the job scripts
        ("replace", "kubernetes:batch/v1:Job"),  # the cluster is another one, so it is proven again
        ("update", "kubernetes:batch/v1:CronJob"),  # its runs say which cluster they checked
    }
    assert [s.name for s in outcome.steps if s.type == "kubernetes:helm.sh/v3:Release"] == ["slurm-dev-slurm"]


def test_a_change_behind_the_engines_back_is_found_by_refresh_and_mended_by_up(dev: Stack) -> None:
    vpc = aws(dev, "ec2").describe_vpcs(Filters=[{"Name": "isDefault", "Values": ["false"]}])["Vpcs"][0]["VpcId"]
    aws(dev, "ec2").create_tags(Resources=[vpc], Tags=[{"Key": "team", "Value": "somebody-else"}])
    found = dev.refresh().drift
    assert [(step.op, step.type) for step in found if step.type.startswith("aws:")] == [
        ("update", "aws:ec2/vpc:Vpc")
    ], found
    assert touched(dev.up()) == {("update", "aws:ec2/vpc:Vpc")}
    tags = aws(dev, "ec2").describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]
    assert "team" not in {tag["Key"] for tag in tags}


def test_the_cloud_survives_a_kill_between_two_commands(dev: Stack) -> None:
    os.kill(int((dev.state / "lock").read_text()), signal.SIGKILL)
    (dev.state / "control").unlink(missing_ok=True)
    outcome = dev.up("--refresh", "--expect-no-changes")
    assert outcome.exit_code == 0, outcome.text


def test_wrong_settings_are_all_refused_at_preview_and_nothing_is_touched(dev: Stack) -> None:
    dev.set("nodesets.slinky.instance_type", "g6.12xlrage")
    dev.set("login.allowed_cidrs", ["0.0.0.0/0"])
    dev.set("slurm.extra_conf", {"GresTypes": "craynetwork"})
    outcome = dev.preview()
    dev.set("nodesets.slinky.instance_type", "g6.12xlarge")
    dev.set("login.allowed_cidrs", ["203.0.113.7/32"])
    dev.set("slurm", None)
    assert outcome.exit_code == 1
    said = "\n".join(outcome.errors)
    for path in ("nodesets.slinky.instance_type", "login.allowed_cidrs", "slurm.extra_conf"):
        assert path in said
    assert "g6.12xlarge" in said  # the remedy names the nearest type
    assert touched(outcome) == set()


def test_an_up_that_is_killed_in_the_middle_is_completed_by_the_next(make_stack: Callable[..., Stack]) -> None:
    stack = make_stack(like="dev")
    stack.killed_up("aws:eks:NodeGroup")
    assert stack.resources()
    outcome = stack.up()
    assert outcome.exit_code == 0, outcome.text
    again = stack.up("--expect-no-changes")
    assert again.exit_code == 0, again.text
    clusters = aws(stack, "eks").list_clusters()["clusters"]
    assert clusters == ["slurm-dev"]


def test_two_nodesets_of_different_types_live_in_one_stack(make_stack: Callable[..., Stack]) -> None:
    stack = make_stack(like="dev")
    stack.set("nodesets.h100", {"instance_type": "p5.48xlarge", "nodes": 2})
    stack.set("nodesets.slinky.partition", {"default": True})
    outcome = stack.preview()
    assert outcome.exit_code == 0, outcome.text
    groups = {s.name for s in outcome.steps if s.type == "aws:eks/nodeGroup:NodeGroup"}
    assert {"slinky", "h100"} < groups


def test_the_number_of_resources_does_not_grow_with_the_number_of_nodes(make_stack: Callable[..., Stack]) -> None:
    stack = make_stack(like="prod")
    large = stack.preview()
    stack.set("nodesets.h100.nodes", 16)  # below that the network has fewer endpoints and NAT gateways
    small = stack.preview()
    assert large.exit_code == small.exit_code == 0, large.text + small.text
    assert large.changes == small.changes


def test_destroy_leaves_nothing(dev: Stack) -> None:
    outcome = dev.destroy()
    assert outcome.exit_code == 0, outcome.text
    assert dev.resources() == []
    assert aws(dev, "eks").list_clusters()["clusters"] == []
    assert aws(dev, "efs").describe_file_systems()["FileSystems"] == []
    assert aws(dev, "ecr").describe_repositories()["repositories"] == []
    ec2 = aws(dev, "ec2")
    assert [v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]] == []
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert ec2.describe_addresses()["Addresses"] == []
    kinds = [step.type for step in outcome.steps if step.op == "delete"]
    order = [
        "kubernetes:core/v1:Service",  # the login's load balancer
        "aws:eks/nodeGroup:NodeGroup",
        "aws:ec2/vpc:Vpc",
    ]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert control.ask(dev.state, "ping")
