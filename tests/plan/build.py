"""Settings for tests of the plan: the two example stacks, and small ones in which only what a test is about is
written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from settings.load import from_stack_file
from settings.models import (
    Accounting,
    Capacity,
    Cluster,
    CoreNodes,
    ExistingNetwork,
    Image,
    Login,
    Network,
    Nodeset,
    Observability,
    Partition,
    Settings,
)

ROOT = Path(__file__).resolve().parents[2]
OFFICE = Login(allowed_cidrs=("203.0.113.7/32",))

__all__ = [
    "Accounting",
    "Capacity",
    "Cluster",
    "CoreNodes",
    "ExistingNetwork",
    "Image",
    "Login",
    "Network",
    "Nodeset",
    "Observability",
    "Partition",
    "example",
    "nodeset",
    "stack",
]


def example(name: str) -> Settings:
    """The settings of `Pulumi.<name>.yaml` as a user has them."""
    return from_stack_file(ROOT / f"Pulumi.{name}.yaml", name)


def nodeset(
    instance_type: str = "g6.12xlarge",
    nodes: int = 2,
    *,
    zone_id: str | None = None,
    efa: bool | None = None,
    placement_group: str = "auto",
    capacity: Capacity | None = None,
    partition: Partition | None = None,
    local_nvme: bool | None = None,
) -> Nodeset:
    return Nodeset(
        instance_type=instance_type,
        nodes=nodes,
        zone_id=zone_id,
        efa=efa,
        placement_group=placement_group,
        capacity=capacity,
        partition=partition or Partition(),
        local_nvme=local_nvme,
    )


def stack(
    nodesets: Mapping[str, Nodeset] | None = None,
    *,
    region: str = "us-west-2",
    name: str = "test",
    network: Network | None = None,
    cluster: Cluster | None = None,
    login: Login = OFFICE,
    accounting: Accounting | None = None,
    image: Image | None = None,
    observability: Observability | None = None,
    tags: dict[str, str] | None = None,
    **named: Nodeset,
) -> Settings:
    """Settings with the given nodesets, as a mapping or by name (default: `slinky` with two g6.12xlarge)."""
    return Settings(
        region=region,
        name=name,
        tags=tags or {},
        network=network or Network(),
        cluster=cluster or Cluster(),
        nodesets={**(nodesets or {}), **named} or {"slinky": nodeset()},
        login=login,
        accounting=accounting or Accounting(),
        image=image or Image(),
        observability=observability or Observability(),
    )
