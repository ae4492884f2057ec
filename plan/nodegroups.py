"""EFA GPU nodegroups: interfaces from the instance data, placement, capacity, user data, labels and taint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import yaml

from facts import names
from facts.hardware import INSTANCE_TYPES, InstanceType
from plan.cluster import HTTP_HOP_LIMIT
from plan.fabric import InterfacePlan, interfaces
from plan.network import NetworkPlan, nodeset_zone
from plan.tags import tags
from settings.models import Nodeset, Settings
from settings.placement import decide_placement, uses_efa

GPU_AMI_TYPE: Final = "AL2023_x86_64_NVIDIA"  # driver, container toolkit, EFA kernel module; no device plugins

# "Unlimited" for EFA's pinned memory, and yet a number: nodeadm merges the runtime spec through floating point, writes
# the real RLIM_INFINITY as 18446744073709552000, and containerd then starts no container at all, because that is above
# 2^64. 2^50 passes unchanged and is more than any machine has. (amazon-eks-ami 81fec2e, nodeadm/internal/containerd/
# base_runtime_spec.go and internal/util/merge.go; the round trip was run with Go's encoding/json.)
MEMLOCK_BYTES: Final = 2**50
# The merge replaces lists, so the default of nodeadm's own spec has to be repeated (base-runtime-spec.json).
NOFILE_SOFT, NOFILE_HARD = 65536, 1048576

TCP_ESTABLISHED_TIMEOUT_SECONDS: Final = 432000  # five days: the default of the families before, and the maximum


@dataclass(frozen=True, kw_only=True, slots=True)
class PlacementPlan:
    """create: make a cluster placement group of our own; existing_name: use the user's; neither: none."""

    create: bool
    existing_name: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityPlan:
    """reservation_id None = plain On-Demand. market_type `capacity-block` and capacity_type `CAPACITY_BLOCK` go
    together."""

    reservation_id: str | None
    capacity_type: Literal["ON_DEMAND", "CAPACITY_BLOCK"]
    market_type: Literal["capacity-block"] | None


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuNodegroupPlan:
    """One nodegroup behind one Slurm nodeset, in exactly one subnet. user_data: MIME text with a nodeadm NodeConfig.

    tcp_established_timeout_seconds: connection tracking of families whose default (350 s) would drop idle srun sockets.
    """

    name: str
    instance_type: str
    ami_type: str
    nodes: int
    zone_id: str
    subnet_key: str
    efa: bool
    interfaces: tuple[InterfacePlan, ...]
    placement: PlacementPlan
    capacity: CapacityPlan
    labels: Mapping[str, str]
    taint: Mapping[str, str]
    root_volume_gib: int
    root_volume_iops: int
    root_volume_throughput_mibps: int
    http_hop_limit: int
    user_data: str
    tcp_established_timeout_seconds: int | None
    max_unavailable: int
    tags: Mapping[str, str]


def placement(nodeset: Nodeset, hardware: InstanceType) -> PlacementPlan:
    """As the decision table of settings/placement.py has it for EFA, placement group and reservation together."""
    group = decide_placement(nodeset, hardware).group
    return PlacementPlan(create=group == "own", existing_name=nodeset.placement_group if group == "named" else None)


def capacity(nodeset: Nodeset) -> CapacityPlan:
    """A reservation of On-Demand capacity is only aimed at; a Capacity Block is a market of its own, for EC2 and
    EKS."""
    if nodeset.capacity is None:
        return CapacityPlan(reservation_id=None, capacity_type="ON_DEMAND", market_type=None)
    if nodeset.capacity.kind == "block":
        return CapacityPlan(
            reservation_id=nodeset.capacity.reservation_id,
            capacity_type="CAPACITY_BLOCK",
            market_type="capacity-block",
        )
    return CapacityPlan(reservation_id=nodeset.capacity.reservation_id, capacity_type="ON_DEMAND", market_type=None)


def has_local_nvme(nodeset: Nodeset, hardware: InstanceType) -> bool:
    """Whether the instance store becomes `/local`: wherever the type has one, unless the nodeset says no."""
    return hardware.nvme_count > 0 and nodeset.local_nvme is not False


def user_data(*, efa: bool, local_nvme: bool) -> str:
    """MIME text whose NodeConfig EKS merges with its own (which adds the cluster's name, endpoint and CA).

    No `maxPodsExpression`, although an `efa-only` interface on card 0 takes an ENI slot that kubelet counts as pod
    addresses: managed nodegroups override it (EKS user guide, "How maxPods is determined"), and GPU nodes run ten pods.
    """
    spec: dict[str, object] = {}
    if local_nvme:
        # Also puts kubelet's and containerd's folders on the array, so image layers unpack to NVMe.
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
        # Layers of the slurmd image (15 GB) are fetched and unpacked in parallel; worth it only on a disk as fast as
        # this.
        spec["featureGates"] = {"FastImagePull": True}
    if efa:
        spec["containerd"] = {
            "baseRuntimeSpec": {
                "process": {
                    "rlimits": [
                        {"type": "RLIMIT_NOFILE", "soft": NOFILE_SOFT, "hard": NOFILE_HARD},
                        {"type": "RLIMIT_MEMLOCK", "soft": MEMLOCK_BYTES, "hard": MEMLOCK_BYTES},
                    ]
                }
            }
        }
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    return "\n".join(
        (
            "MIME-Version: 1.0",
            'Content-Type: multipart/mixed; boundary="//"',
            "",
            "--//",
            "Content-Type: application/node.eks.aws",
            "",
            "---",
            f"{yaml.safe_dump(config, sort_keys=False)}",
            "--//--",
            "",
        )
    )


def plan_nodegroups(settings: Settings, network: NetworkPlan) -> tuple[GpuNodegroupPlan, ...]:
    """One nodegroup per nodeset, in the order of their names."""
    gpu_subnets = {s.zone_id: s.key for s in network.subnets if s.kind == "gpu"}
    return tuple(_nodegroup(settings, name, gpu_subnets) for name in sorted(settings.nodesets))


def _nodegroup(settings: Settings, name: str, gpu_subnets: Mapping[str, str]) -> GpuNodegroupPlan:
    nodeset = settings.nodesets[name]
    hardware = INSTANCE_TYPES[nodeset.instance_type]
    efa, local_nvme = uses_efa(nodeset, hardware), has_local_nvme(nodeset, hardware)
    zone_id = nodeset_zone(settings, name)
    return GpuNodegroupPlan(
        name=name,
        instance_type=nodeset.instance_type,
        ami_type=GPU_AMI_TYPE,
        nodes=nodeset.nodes,
        zone_id=zone_id,
        subnet_key=gpu_subnets[zone_id],
        efa=efa,
        interfaces=interfaces(hardware, efa=efa),
        placement=placement(nodeset, hardware),
        capacity=capacity(nodeset),
        labels={names.ROLE_LABEL: names.ROLE_GPU, names.NODESET_LABEL: name},
        taint=names.GPU_TAINT.for_eks(),
        root_volume_gib=nodeset.root_volume_gib,
        # With an instance store the root volume only boots the machine: gp3's included performance will do. Without
        # one, the 15 GB image is unpacked on it.
        root_volume_iops=3000 if local_nvme else 6000,
        root_volume_throughput_mibps=125 if local_nvme else 600,
        http_hop_limit=HTTP_HOP_LIMIT,
        user_data=user_data(efa=efa, local_nvme=local_nvme),
        tcp_established_timeout_seconds=TCP_ESTABLISHED_TIMEOUT_SECONDS if hardware.short_conntrack else None,
        max_unavailable=max(1, nodeset.nodes // 10),
        tags=tags(settings, component="EfaNodeGroup"),
    )
