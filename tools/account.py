"""What a stack's settings say is there already, made in the account of the local cloud before the engine runs.

Settings may name what other people own: roles that become administrators, capacity reservations, placement groups, a
VPC and its subnets. AWS refuses what nobody has made, and so do the stand-ins; on AWS it was made another day by
somebody else, here by this module, under the ids that the settings have. It makes what is missing and changes nothing
that is there: a reservation does not follow a nodeset that turns to another type or zone. Does not own what the stack
makes, nor whether the two fit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from settings.models import Settings

# A file without any of these words names nothing of others; what reads settings (half a second) is then not loaded.
_NAMING: Final = ("admin_role_arns", "reservation_id", "placement_group", "existing")
_OWN_GROUPS: Final = ("auto", "none")
_VPC: Final = IPv4Network("10.0.0.0/16")  # of a network of the user's own, whose ranges no setting tells
_SUBNET_PREFIX: Final = 22


def complete(settings_file: Path, stack: str, endpoint: str) -> list[str]:
    """Make what is missing; says what it made. Wrong settings name nothing: the program will tell what is wrong."""
    if not settings_file.exists() or not any(word in settings_file.read_text() for word in _NAMING):
        return []
    from settings.load import from_stack_file
    from settings.problems import SettingsError

    try:
        settings = from_stack_file(settings_file, stack)
    except SettingsError:
        return []
    ec2, iam = _clients(settings.region, endpoint)
    making = (_roles(settings, iam), _network(settings, ec2), _groups(settings, ec2), _reservations(settings, ec2))
    return [made for kind in making for made in kind]


def _roles(settings: Settings, iam: Any) -> Iterator[str]:
    there = {role["RoleName"] for page in iam.get_paginator("list_roles").paginate() for role in page["Roles"]}
    for arn in settings.cluster.admin_role_arns:
        path, _, name = arn.partition(":role")[2].rpartition("/")
        if name not in there:
            owner = {"AWS": f"arn:aws:iam::{arn.split(':')[4]}:root"}
            statement = {"Effect": "Allow", "Principal": owner, "Action": "sts:AssumeRole"}
            trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
            iam.create_role(RoleName=name, Path=f"{path}/", AssumeRolePolicyDocument=trust)
            yield f"role {name}"


def _network(settings: Settings, ec2: Any) -> Iterator[str]:
    existing = settings.network.existing
    if existing is None:
        return
    vpc_id = existing.vpc_id
    if vpc_id not in {vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"]}:
        ec2.create_vpc(CidrBlock=str(_VPC), TagSpecifications=_named("vpc", vpc_id))
        yield vpc_id
    there = {subnet["SubnetId"]: subnet["CidrBlock"] for subnet in ec2.describe_subnets()["Subnets"]}
    free = (cidr for cidr in map(str, _VPC.subnets(new_prefix=_SUBNET_PREFIX)) if cidr not in there.values())
    for subnet_ids in (existing.private_subnet_ids, existing.public_subnet_ids):
        for zone_id, subnet_id in subnet_ids.items():
            if subnet_id not in there:
                place = {"VpcId": vpc_id, "AvailabilityZoneId": zone_id, "CidrBlock": next(free)}
                ec2.create_subnet(**place, TagSpecifications=_named("subnet", subnet_id))
                yield f"{subnet_id} in {zone_id}"


def _groups(settings: Settings, ec2: Any) -> Iterator[str]:
    there = {group["GroupName"] for group in ec2.describe_placement_groups()["PlacementGroups"]}
    wanted = {nodeset.placement_group for nodeset in settings.nodesets.values()}
    for name in sorted(wanted - there - {*_OWN_GROUPS}):
        ec2.create_placement_group(GroupName=name, Strategy="cluster")
        yield f"placement group {name}"


def _reservations(settings: Settings, ec2: Any) -> Iterator[str]:
    from plan.network import nodeset_zone

    held = ec2.describe_capacity_reservations()["CapacityReservations"]
    there = {reservation["CapacityReservationId"] for reservation in held}
    for name, nodeset in sorted(settings.nodesets.items()):
        if nodeset.capacity is not None and (id := nodeset.capacity.reservation_id) not in there:
            sharing = [n.nodes for n in settings.nodesets.values() if n.capacity and n.capacity.reservation_id == id]
            ec2.create_capacity_reservation(
                InstanceType=nodeset.instance_type,
                InstancePlatform="Linux/UNIX",
                AvailabilityZoneId=nodeset_zone(settings, name),
                InstanceCount=sum(sharing),
                InstanceMatchCriteria="targeted",
                TagSpecifications=_named("capacity-reservation", id),
            )
            there.add(id)
            yield f"{id} of {sum(sharing)} {nodeset.instance_type} in {nodeset_zone(settings, name)}"


def _named(kind: str, id: str) -> list[dict[str, Any]]:
    """moto's way to ask for an id instead of a random one."""
    return [{"ResourceType": kind, "Tags": [{"Key": "_custom_id_", "Value": id}]}]


def _clients(region: str, endpoint: str) -> tuple[Any, Any]:
    """Blind to the user's own AWS settings, as the engine is."""
    import boto3
    import botocore.config
    import botocore.session

    mine = {"profile": None, "config_file": os.devnull, "credentials_file": os.devnull}
    session = boto3.Session(
        botocore_session=botocore.session.Session({name: (None, None, value, None) for name, value in mine.items()}),
        aws_access_key_id="localcloud",
        aws_secret_access_key="localcloud",
        region_name=region,
    )
    config = botocore.config.Config(proxies={}, use_fips_endpoint=False, use_dualstack_endpoint=False)
    ec2, iam = (session.client(service, endpoint_url=endpoint, config=config) for service in ("ec2", "iam"))
    return ec2, iam
