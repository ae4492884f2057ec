"""EFS behind /shared and /home: mount targets per zone with nodes, access points, static volumes and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names
from plan.network import NetworkPlan
from plan.tags import tags
from settings.models import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class ClaimPlan:
    """A static PV and PVC of the same name. path: root of the access point inside the file system; mode: its
    permissions."""

    name: str
    path: str
    mode: str
    mount: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoragePlan:
    """mount_targets: {zone id: subnet key}, one per zone that has nodes (a second one in a zone is refused by EFS)."""

    throughput_mode: str
    backup: bool
    protect: bool
    mount_targets: Mapping[str, str]
    claims: tuple[ClaimPlan, ...]
    mount_options: tuple[str, ...]
    tags: Mapping[str, str]


# Access points without a POSIX user: one would squash every Slurm user into a single uid.
CLAIMS: Final = (
    ClaimPlan(name=names.SHARED_CLAIM, path=names.SHARED_MOUNT, mode="1777", mount=names.SHARED_MOUNT),
    ClaimPlan(name=names.HOME_CLAIM, path=names.HOME_MOUNT, mode="0755", mount=names.HOME_MOUNT),
)
# Not `iam`: it asks the driver for credentials on every mount and protects nothing while the file system has no policy.
# Who may mount is decided by the security group; what travels is encrypted.
MOUNT_OPTIONS: Final = ("tls",)


def mount_targets(network: NetworkPlan) -> dict[str, str]:
    """{zone id: subnet key} of every zone with nodes; core and GPU nodes of a zone share one, in its private subnet."""
    targets = {s.zone_id: s.key for s in network.subnets if s.kind == "gpu"}
    targets |= {s.zone_id: s.key for s in network.subnets if s.kind == "private"}
    return dict(sorted(targets.items()))


def plan_storage(settings: Settings, network: NetworkPlan) -> StoragePlan:
    storage = settings.storage
    return StoragePlan(
        throughput_mode=storage.throughput,
        backup=storage.backup,
        protect=storage.protect,
        mount_targets=mount_targets(network),
        claims=CLAIMS,
        mount_options=MOUNT_OPTIONS,
        tags=tags(settings, component="SharedStorage"),
    )
