"""The local cloud survives being killed: what it invented before, it invents again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
from moto.core.base_backend import BackendDict

import localcloud.aws  # noqa: F401 - teaches moto what it lacks, before any cloud is made
from localcloud.cloud import Cloud


def client(endpoint: str, service: str = "ec2") -> Any:
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
    return boto3.client(service, region_name="us-west-2", endpoint_url=endpoint, **keys)


def restarted(state: Path) -> Cloud:
    """A cloud on `state` in a process that remembers nothing."""
    BackendDict.reset()
    return Cloud(state)


def fill(cloud: Cloud) -> None:
    ec2 = client(cloud.endpoint)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZoneId="usw2-az1")
    ec2.create_security_group(GroupName="a", Description="a", VpcId=vpc)
    ec2.create_placement_group(GroupName="gpu", Strategy="cluster")
    client(cloud.endpoint, "kms").create_key()
    client(cloud.endpoint, "iam").create_role(RoleName="role", AssumeRolePolicyDocument="{}")


def everything(cloud: Cloud) -> dict[str, object]:
    ec2 = client(cloud.endpoint)
    looks = {
        "Vpcs": ec2.describe_vpcs,
        "Subnets": ec2.describe_subnets,
        "SecurityGroups": ec2.describe_security_groups,
        "SecurityGroupRules": ec2.describe_security_group_rules,
        "RouteTables": ec2.describe_route_tables,
        "PlacementGroups": ec2.describe_placement_groups,
        "Keys": client(cloud.endpoint, "kms").list_keys,
        "Roles": client(cloud.endpoint, "iam").list_roles,
    }
    return {name: look()[name] for name, look in looks.items()}


def test_a_restart_gives_the_same_ids_addresses_and_times_and_drops_a_torn_request(tmp_path: Path) -> None:
    cloud = restarted(tmp_path)
    fill(cloud)
    before, journal = everything(cloud), tmp_path / "journal.jsonl"
    recorded = journal.read_text()
    with journal.open("a") as file:
        file.write('{"time": 1, "method": "POST", "tar')
    again = restarted(tmp_path)
    assert everything(again) == before
    assert journal.read_text() == recorded, "looking is not recorded, and what the kill tore is gone"
    assert again.endpoint == (tmp_path / "endpoint").read_text()


def test_ids_do_not_depend_on_who_looked_before(tmp_path: Path) -> None:
    cloud = restarted(tmp_path / "a")
    client(cloud.endpoint).describe_subnets()
    fill(cloud)
    first = everything(cloud)["Subnets"]
    quiet = restarted(tmp_path / "b")
    fill(quiet)
    assert everything(quiet)["Subnets"] == first
