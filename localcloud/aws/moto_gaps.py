"""What moto's EC2 and EFS lack, added to moto itself, and the refusals that AWS makes and moto does not.

A lenient cloud proves nothing: what is in use cannot be deleted, what does not exist cannot be named.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any
from unittest.mock import patch

from moto.core.responses import ActionResult
from moto.ec2.exceptions import DependencyViolationError, EC2ClientError
from moto.ec2.models import EC2Backend, subnets, vpcs
from moto.ec2.responses import EC2Response
from moto.efs.responses import EFSResponse
from moto.moto_api._internal import mock_random
from moto.rds.models import RDSBackend, rds_backends
from moto.utilities.id_generator import TAG_KEY_CUSTOM_ID

from localcloud.aws import moto_eks

Record = dict[str, Any]

# --- ids that are asked for ------------------------------------------------------------------------------------------


def _id_asked_for(self: EC2Response, kind: str) -> str | None:
    """By moto's own tag for it, which moto minds in other services: what a program takes by its id can be made."""
    return self._parse_tag_specification().get(kind, {}).get(TAG_KEY_CUSTOM_ID)


def _minding_ids(create: Callable[[EC2Response], ActionResult], kind: str, module: ModuleType) -> Any:
    @functools.wraps(create)
    def minding(self: EC2Response) -> ActionResult:
        asked = _id_asked_for(self, kind)
        with patch.object(module, f"random_{kind}_id", lambda: asked) if asked else contextlib.nullcontext():
            return create(self)

    return minding


# --- placement groups and capacity reservations ---------------------------------------------------------------------


def _placement_group(self: EC2Response, held: Mapping[str, Record]) -> Record:
    name, strategy = self._get_param("GroupName"), self._get_param("Strategy", "cluster")
    if name in held:
        raise EC2ClientError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
    if strategy not in ("cluster", "partition", "spread"):
        raise EC2ClientError("InvalidParameterValue", f"Invalid placement strategy '{strategy}'.")
    arn = f"arn:aws:ec2:{self.region}:{self.current_account}:placement-group/{name}"
    known = {"GroupId": f"pg-{mock_random.get_random_hex(17)}", "GroupArn": arn}
    return {**known, "Strategy": strategy, "State": "available"}


def _capacity_reservation(self: EC2Response, held: Mapping[str, Record]) -> Record:
    zones = {z.zone_id: z.name for z in self.ec2_backend.describe_availability_zones()}
    zone = self._get_param("AvailabilityZone") or zones.get(self._get_param("AvailabilityZoneId"))
    type_name, count = self._get_param("InstanceType"), int(self._get_param("InstanceCount"))
    where = {"location": [zone], "instance-type": [type_name]}
    if not self.ec2_backend.describe_instance_type_offerings("availability-zone", where):
        raise EC2ClientError("Unsupported", f"Instance type {type_name} is not offered in {zone}.")
    id = _id_asked_for(self, "capacity-reservation") or f"cr-{mock_random.get_random_hex(17)}"
    known = {"CapacityReservationId": id, "State": "active"}
    return {**known, "AvailabilityZone": zone, "TotalInstanceCount": count, "AvailableInstanceCount": count}


def _held(
    kind: str, member: str, key: str, id_member: str, absent: str, make: Callable[..., Record]
) -> dict[str, Callable[[EC2Response], ActionResult]]:
    """The operations of something that only has to be there: make it, look at it, end it."""

    def all_of(self: EC2Response) -> dict[str, Record]:
        return vars(self.ec2_backend).setdefault(f"{kind}s", {})

    def find(self: EC2Response, name: str) -> Record:
        if name not in all_of(self):
            raise EC2ClientError(absent, f"The {kind.replace('_', ' ')} '{name}' is unknown.")
        record = all_of(self)[name]
        tags = self.ec2_backend.describe_tags(filters={"resource-id": [record[id_member]]})
        return {**record, "Tags": [{"Key": t["key"], "Value": t["value"]} for t in tags]}

    def create(self: EC2Response) -> ActionResult:
        given = {k: v for k, v in self._get_params().items() if k not in ("TagSpecifications", "ClientToken", "DryRun")}
        record = {**given, **make(self, all_of(self))}
        all_of(self)[record[key]] = record
        tags = self._parse_tag_specification().get(kind.replace("_", "-"), {})
        self.ec2_backend.create_tags([record[id_member]], tags)
        return ActionResult({member: find(self, record[key])})

    def describe(self: EC2Response) -> ActionResult:
        return ActionResult({f"{member}s": [find(self, n) for n in self._get_param(f"{key}s") or all_of(self)]})

    def end(self: EC2Response) -> ActionResult:
        find(self, self._get_param(key))
        del all_of(self)[self._get_param(key)]
        return ActionResult({"Return": True})

    ending = "cancel" if kind == "capacity_reservation" else "delete"
    return {f"create_{kind}": create, f"describe_{kind}s": describe, f"{ending}_{kind}": end}


# --- what is in use cannot be deleted -------------------------------------------------------------------------------


def _security_group_users(self: EC2Backend, name: str | None = None, group_id: str | None = None) -> list[str]:
    users = [e.id for e in self.enis.values() if group_id in [g.id for g in e.group_set]]
    endpoints = [e for e in self.vpc_end_points.values() if e.state != "deleted"]
    users += [e.id for e in endpoints if group_id in (e.security_group_ids or [])]
    databases = rds_backends[self.account_id][self.region_name].databases.values()
    users += [d.db_instance_identifier for d in databases if group_id in (d.vpc_security_group_ids or [])]
    for groups in self.groups.values():
        for group in groups.values():
            rules = [*group.ingress_rules, *group.egress_rules]
            if group.id != group_id and group_id in [r.source_group.get("GroupId") for r in rules if r.source_group]:
                users.append(group.id)
    return users


def _subnet_users(self: EC2Backend, subnet_id: str) -> list[str]:
    return [e.id for e in self.enis.values() if e.subnet.id == subnet_id]


def _vpc_users(self: EC2Backend, vpc_id: str) -> list[str]:
    gateways = [g.id for g in self.internet_gateways.values() if g.vpc and g.vpc.id == vpc_id]
    groups = [g.id for g in self.groups.get(vpc_id, {}).values() if g.name != "default"]
    endpoints = [e.id for e in self.vpc_end_points.values() if e.vpc_id == vpc_id and e.state != "deleted"]
    return gateways + groups + endpoints


def _gateway_users(self: EC2Backend, internet_gateway_id: str, vpc_id: str) -> list[str]:
    natted = [n for n in self.nat_gateways.values() if n.state != "deleted" and n.connectivity_type != "private"]
    return [n.id for n in natted if n.vpc_id == vpc_id]


def _guarded(original: Callable[..., Any], users: Callable[..., list[str]]) -> Callable[..., Any]:
    @functools.wraps(original)
    def guarded(self: EC2Backend, *args: Any, **kwargs: Any) -> Any:
        if found := users(self, *args, **kwargs):
            what = next(iter([*args, *kwargs.values()]))
            raise DependencyViolationError(f"{what} cannot be removed: it is in use by {', '.join(found)}")
        return original(self, *args, **kwargs)

    return guarded


def _delete_nat_gateway(self: EC2Backend, nat_gateway_id: str) -> Any:
    gateway = _moto_delete_nat_gateway(self, nat_gateway_id)
    self.enis.pop(gateway._eni.id, None)
    return gateway


def _modify_db_subnet_group(self: RDSBackend, *args: Any, **kwargs: Any) -> Any:
    group = _moto_modify_db_subnet_group(self, *args, **kwargs)
    self.subnet_groups[group.name] = group  # moto takes it out and forgets to put it back
    return group


# --- EFS ------------------------------------------------------------------------------------------------------------


def put_backup_policy(self: EFSResponse) -> ActionResult:
    policy = self._get_param("BackupPolicy")
    _file_system(self)._backup = policy["Status"] == "ENABLED"
    return ActionResult({"BackupPolicy": policy})


def update_file_system(self: EFSResponse) -> ActionResult:
    system = _file_system(self)
    system.throughput_mode = self._get_param("ThroughputMode", system.throughput_mode)
    system.provisioned_throughput_in_mibps = self._get_param("ProvisionedThroughputInMibps")
    return ActionResult({"FileSystemId": system.file_system_id, "ThroughputMode": system.throughput_mode})


def update_file_system_protection(self: EFSResponse) -> ActionResult:
    protection = {"ReplicationOverwriteProtection": self._get_param("ReplicationOverwriteProtection")}
    _file_system(self).file_system_protection = protection
    return ActionResult(protection)


def _file_system(self: EFSResponse) -> Any:
    return self.efs_backend.describe_file_systems(file_system_id=self._get_param("FileSystemId"))[1][0]


_moto_delete_nat_gateway = EC2Backend.delete_nat_gateway
_moto_modify_db_subnet_group = RDSBackend.modify_db_subnet_group


def install() -> None:
    """Teach moto; once per process, before it answers its first request."""
    if hasattr(EC2Response, "create_placement_group"):
        return
    held = _held(
        "placement_group", "PlacementGroup", "GroupName", "GroupId", "InvalidPlacementGroup.Unknown", _placement_group
    )
    held |= _held(
        "capacity_reservation", "CapacityReservation", "CapacityReservationId", "CapacityReservationId",
        "InvalidCapacityReservationId.NotFound", _capacity_reservation,
    )  # fmt: skip
    for name, operation in held.items():
        setattr(EC2Response, name, operation)
    for change in (put_backup_policy, update_file_system, update_file_system_protection):
        setattr(EFSResponse, change.__name__, change)
    EC2Response.create_vpc = _minding_ids(EC2Response.create_vpc, "vpc", vpcs)
    EC2Response.create_subnet = _minding_ids(EC2Response.create_subnet, "subnet", subnets)
    EC2Backend.delete_nat_gateway = _delete_nat_gateway
    RDSBackend.modify_db_subnet_group = _modify_db_subnet_group
    EC2Backend.delete_security_group = _guarded(EC2Backend.delete_security_group, _security_group_users)
    EC2Backend.delete_subnet = _guarded(EC2Backend.delete_subnet, _subnet_users)
    EC2Backend.delete_vpc = _guarded(EC2Backend.delete_vpc, _vpc_users)
    EC2Backend.detach_internet_gateway = _guarded(EC2Backend.detach_internet_gateway, _gateway_users)
    moto_eks.install()
