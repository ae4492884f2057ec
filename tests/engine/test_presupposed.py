"""Stacks whose settings name what other people own, on the real engine: it is there, it is used, and it stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.harness import Stack

pytestmark = pytest.mark.engine

VPC = "vpc-0123456789abcdef0"
PRIVATE = {f"usw2-az{number}": f"subnet-{number:017x}" for number in (1, 2, 3)}
PUBLIC = {"usw2-az1": f"subnet-{9:017x}"}


def left(stack: Stack) -> dict[str, set[str]]:
    """Ids of what is in the account, by kinds; without the default VPC that every account has."""
    ec2 = stack.aws("ec2")
    vpcs = {v["VpcId"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]}
    reservations = ec2.describe_capacity_reservations()["CapacityReservations"]
    found = {
        "vpcs": vpcs,
        "subnets": {s["SubnetId"] for s in ec2.describe_subnets()["Subnets"] if s["VpcId"] in vpcs},
        "groups": {g["GroupName"] for g in ec2.describe_security_groups()["SecurityGroups"]} - {"default"},
        "interfaces": {i["NetworkInterfaceId"] for i in ec2.describe_network_interfaces()["NetworkInterfaces"]},
        "templates": {t["LaunchTemplateId"] for t in ec2.describe_launch_templates()["LaunchTemplates"]},
        "reservations": {r["CapacityReservationId"] for r in reservations},
        "roles": {r["RoleName"] for r in stack.aws("iam").list_roles()["Roles"]},
        "databases": {d["DBInstanceIdentifier"] for d in stack.aws("rds").describe_db_instances()["DBInstances"]},
        "clusters": set(stack.aws("eks").list_clusters()["clusters"]),
    }
    return {kind: ids for kind, ids in found.items() if ids}


def test_prod_comes_up_once_and_goes_when_its_protections_are_lifted(make_stack: Callable[..., Stack]) -> None:
    stack = make_stack(like="prod")
    up = stack.up()
    assert up.exit_code == 0, up.text
    assert up.outputs["gpus"] == 1024
    again = stack.up("--expect-no-changes")
    assert again.exit_code == 0, again.text

    refused = stack.destroy()
    assert refused.exit_code != 0
    assert any("protected" in error for error in refused.errors), refused.errors
    for setting in ("storage.protect", "cluster.deletion_protection", "accounting.deletion_protection"):
        stack.set(setting, False)
    lifted = stack.up()
    assert lifted.exit_code == 0, lifted.text
    destroyed = stack.destroy()
    assert destroyed.exit_code == 0, destroyed.text
    assert stack.resources() == []
    assert left(stack) == {"reservations": {"cr-0123456789abcdef0"}, "roles": {"platform-admin"}}


def test_a_stack_in_a_network_of_the_users_own_leaves_it_as_it_was(make_stack: Callable[..., Stack]) -> None:
    stack = make_stack(like="dev")
    existing = {"vpc_id": VPC, "private_subnet_ids": PRIVATE, "public_subnet_ids": PUBLIC}
    stack.set("network", {"existing": existing})
    stack.set("cluster.core.nodes", 3)
    up = stack.up()
    assert up.exit_code == 0, up.text
    assert not {step.type for step in up.steps} & {"aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet"}
    destroyed = stack.destroy()
    assert destroyed.exit_code == 0, destroyed.text
    assert left(stack) == {"vpcs": {VPC}, "subnets": {*PRIVATE.values(), *PUBLIC.values()}}
