"""The facts that jobs, judges and other teams rely on: one object, made from the same plan as the cluster itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names, versions
from facts.hardware import INSTANCE_TYPES
from plan.fabric import job_environment
from settings.models import Settings
from settings.placement import uses_efa

CONTRACT_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class NodesetContract:
    """One nodeset as a job sees it. gres: what a whole node offers and `--gres` takes (`gpu:nvidia_l4:4`).

    job_environment: the NCCL and libfabric variables of the instance family (empty where none should be set).
    """

    name: str
    partition: str
    is_default: bool
    instance_type: str
    nodes: int
    gpus_per_node: int
    gres: str
    efa_interfaces: int
    network_gbps: float
    cuda_arch: str
    max_time: str
    job_environment: Mapping[str, str]

    @property
    def node_names(self) -> tuple[str, ...]:
        """Slurm's names of the nodes, as the operator gives them: key and ordinal."""
        return tuple(f"{self.name}-{i}" for i in range(self.nodes))


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterContract:
    """version grows when a field changes its meaning; consumers refuse a version that they do not know."""

    version: int
    cluster_name: str
    slurm_version: str
    namespace: str
    shared_path: str
    home_path: str
    local_path: str
    accounting: bool
    nodesets: tuple[NodesetContract, ...]


def _nodeset(settings: Settings, name: str) -> NodesetContract:
    nodeset = settings.nodesets[name]
    hardware = INSTANCE_TYPES[nodeset.instance_type]
    efa = uses_efa(nodeset, hardware)
    return NodesetContract(
        name=name,
        partition=name,
        is_default=nodeset.partition.default or len(settings.nodesets) == 1,
        instance_type=nodeset.instance_type,
        nodes=nodeset.nodes,
        gpus_per_node=hardware.gpus,
        gres=hardware.gres or "",
        efa_interfaces=hardware.efa_interfaces if efa else 0,
        network_gbps=hardware.network_gbps,
        cuda_arch=hardware.cuda_arch or "",
        max_time=nodeset.partition.max_time,
        job_environment=job_environment(hardware, efa=efa),
    )


def plan_contract(settings: Settings) -> ClusterContract:
    prebuilt_version = settings.image.slurm_version if settings.image.prebuilt is not None else None
    return ClusterContract(
        version=CONTRACT_VERSION,
        cluster_name=settings.name,
        slurm_version=prebuilt_version or versions.SLURM_PATCH,
        namespace=names.NAMESPACE_SLURM,
        shared_path=names.SHARED_MOUNT,
        home_path=names.HOME_MOUNT,
        local_path=names.LOCAL_MOUNT,
        accounting=settings.accounting.enabled,
        nodesets=tuple(_nodeset(settings, name) for name in sorted(settings.nodesets)),
    )
