"""What settings take for granted is made in the local account: once, under its own ids, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from moto.core.base_backend import BackendDict

from localcloud.cloud import Cloud
from tools import account
from tools.engine import ROOT

RESERVATION, ROLE = "cr-0123456789abcdef0", "platform-admin"
VPC = "vpc-0123456789abcdef0"
PRIVATE = {f"usw2-az{number}": f"subnet-{number:017x}" for number in (1, 2, 3)}
PUBLIC = {"usw2-az1": f"subnet-{9:017x}"}


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    BackendDict.reset()
    return Cloud(tmp_path / "state")


def settings_like(stack: str, folder: Path, **sections: Any) -> Path:
    """The example's file with keys of some sections changed."""
    document: dict[str, Any] = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())
    for section, change in sections.items():
        document["config"].setdefault(f"slurm-eks:{section}", {}).update(change)
    (folder / "settings.yaml").write_text(yaml.safe_dump(document))
    return folder / "settings.yaml"


def test_prod_finds_its_reservation_and_its_administrators_role(cloud: Cloud) -> None:
    file = ROOT / "Pulumi.prod.yaml"
    made = account.complete(file, "prod", cloud.endpoint)
    assert made == [f"role {ROLE}", f"{RESERVATION} of 128 p5.48xlarge in usw2-az2"]
    held = cloud.client("ec2", "us-west-2").describe_capacity_reservations(CapacityReservationIds=[RESERVATION])
    zones = cloud.client("ec2", "us-west-2").describe_availability_zones(ZoneIds=["usw2-az2"])["AvailabilityZones"]
    (reservation,) = held["CapacityReservations"]
    assert (reservation["InstanceType"], reservation["TotalInstanceCount"]) == ("p5.48xlarge", 128)
    assert reservation["AvailabilityZone"] == zones[0]["ZoneName"]
    assert cloud.client("iam", "us-west-2").get_role(RoleName=ROLE)["Role"]["Path"] == "/"
    assert account.complete(file, "prod", cloud.endpoint) == [], "what is there is left alone"


def test_dev_takes_nothing_for_granted(cloud: Cloud) -> None:
    assert account.complete(ROOT / "Pulumi.dev.yaml", "dev", cloud.endpoint) == []


def test_a_network_and_a_placement_group_of_the_users_own_are_there(cloud: Cloud, tmp_path: Path) -> None:
    nodeset = {"instance_type": "g6.12xlarge", "nodes": 2, "placement_group": "ours"}
    file = settings_like(
        "dev",
        tmp_path,
        network={"existing": {"vpc_id": VPC, "private_subnet_ids": PRIVATE, "public_subnet_ids": PUBLIC}},
        cluster={"core": {"nodes": 3}},
        nodesets={"slinky": nodeset},
    )
    assert len(account.complete(file, "dev", cloud.endpoint)) == 1 + len(PRIVATE) + len(PUBLIC) + 1
    ec2 = cloud.client("ec2", "us-west-2")
    subnets = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [VPC]}])["Subnets"]
    assert {s["SubnetId"]: s["AvailabilityZoneId"] for s in subnets} == {
        subnet: zone for zones in (PRIVATE, PUBLIC) for zone, subnet in zones.items()
    }
    assert [g["GroupName"] for g in ec2.describe_placement_groups()["PlacementGroups"]] == ["ours"]
    assert account.complete(file, "dev", cloud.endpoint) == []


def test_a_reservation_does_not_follow_a_nodeset_that_turns_to_another_type(cloud: Cloud, tmp_path: Path) -> None:
    account.complete(ROOT / "Pulumi.prod.yaml", "prod", cloud.endpoint)
    nodeset = {"instance_type": "p5en.48xlarge", "nodes": 2, "zone_id": "usw2-az2"}
    file = settings_like("prod", tmp_path, nodesets={"h100": {**nodeset, "capacity": {"reservation_id": RESERVATION}}})
    assert account.complete(file, "prod", cloud.endpoint) == []
    (held,) = cloud.client("ec2", "us-west-2").describe_capacity_reservations()["CapacityReservations"]
    assert held["InstanceType"] == "p5.48xlarge"


def test_wrong_settings_name_nothing(cloud: Cloud, tmp_path: Path) -> None:
    file = settings_like("prod", tmp_path, storage={"protekt": True})
    assert account.complete(file, "prod", cloud.endpoint) == []


def test_the_users_own_aws_settings_are_not_looked_at(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    # moto reads its own settings now. Outside of tests it is another process, with an environment of its own.
    cloud.client("ec2", "us-west-2").describe_regions()
    monkeypatch.setenv("AWS_PROFILE", "the-users-own")
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    assert len(account.complete(ROOT / "Pulumi.prod.yaml", "prod", cloud.endpoint)) == 2
