"""The EKS control plane, its addons and the core nodes that follow from the settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Final

from facts import names
from facts.addons import ADDONS, NODE_POLICY_ARNS
from plan.network import CNI_MINIMUM_IP_TARGET, CNI_WARM_IP_TARGET, NetworkPlan
from plan.tags import tags
from settings.models import Settings

LOG_TYPES: Final = ("api", "audit", "authenticator", "controllerManager", "scheduler")
CORE_AMI_TYPE: Final = "AL2023_x86_64_STANDARD"
CORE_ROOT_VOLUME_GIB: Final = 100
NODES_PER_DNS_REPLICA: Final = 16  # the node half of the rule EKS uses for CoreDNS (user guide, "Scale CoreDNS Pods")

# User jobs run in slurmd pods: with one hop, no pod without the host's network reaches the node's credentials. So
# controllers get theirs by Pod Identity, and region and VPC as settings.
HTTP_HOP_LIMIT: Final = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class AddonPlan:
    """One EKS addon. configuration: JSON text or None. service_account and policy_arns: the role it gets by Pod
    Identity (None, () = none). before_nodes: must be there when the first node boots (network, identity); others need
    nodes."""

    name: str
    version: str
    configuration: str | None
    service_account: str | None
    policy_arns: tuple[str, ...]
    before_nodes: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class CoreNodegroupPlan:
    """The untainted nodes of the control software. http_hop_limit 1 keeps pods off the node role."""

    name: str
    instance_type: str
    nodes: int
    ami_type: str
    subnet_keys: tuple[str, ...]
    labels: Mapping[str, str]
    root_volume_gib: int
    http_hop_limit: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterPlan:
    """log_group_name and names are physical: EKS writes to `/aws/eks/<name>/cluster` whether or not we made it.

    access_entries: {key: role ARN} of cluster administrators. node_policy_arns: managed policies of the node role.
    """

    name: str
    region: str
    version: str
    subnet_keys: tuple[str, ...]
    public_access_cidrs: tuple[str, ...]
    access_entries: Mapping[str, str]
    log_types: tuple[str, ...]
    log_group_name: str
    log_retention_days: int
    deletion_protection: bool
    addons: tuple[AddonPlan, ...]
    node_policy_arns: tuple[str, ...]
    core: CoreNodegroupPlan
    tags: Mapping[str, str]


def access_entry_key(role_arn: str) -> str:
    """`123456789012-platform-admin`: account and role, so that like-named roles of two accounts stay apart."""
    _, _, _, _, account, resource = role_arn.split(":", 5)
    return "-".join((account, *resource.split("/")[1:]))


def _configurations(settings: Settings) -> dict[str, dict[str, object]]:
    """What differs from an addon's defaults. Keys checked against the sources named; EKS refuses one that it does not
    know."""
    nodes = settings.cluster.core.nodes + sum(nodeset.nodes for nodeset in settings.nodesets.values())
    on_core = {"nodeSelector": {names.ROLE_LABEL: names.ROLE_CORE}}
    return {
        # Strings, as the addon's schema has them (amazon-vpc-cni-k8s v1.23, charts/aws-vpc-cni/values.yaml).
        "vpc-cni": {
            "enableNetworkPolicy": "true",
            "env": {"MINIMUM_IP_TARGET": str(CNI_MINIMUM_IP_TARGET), "WARM_IP_TARGET": str(CNI_WARM_IP_TARGET)},
        },
        # A fixed number, not the addon's autoscaler: that also counts cores, and 128 GPU nodes have 24,576 of them.
        "coredns": {"replicaCount": max(2, ceil(nodes / NODES_PER_DNS_REPLICA))},
        "aws-ebs-csi-driver": {"controller": on_core},
        "aws-efs-csi-driver": {"controller": on_core},
        # The DCGM host engine tolerates nothing by default. Missing on a tainted GPU node, it makes the agent report a
        # failed accelerator, and node repair then reboots and replaces healthy nodes (eks-node-monitoring-agent
        # v1.7.0).
        "eks-node-monitoring-agent": {"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}},
    }


_BEFORE_NODES: Final = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")


def _addons(settings: Settings) -> tuple[AddonPlan, ...]:
    configurations = _configurations(settings)
    return tuple(
        AddonPlan(
            name=name,
            version=addon.versions[settings.cluster.version],
            configuration=json.dumps(configurations[name], sort_keys=True) if name in configurations else None,
            service_account=addon.service_account,
            policy_arns=() if addon.policy_arn is None else (addon.policy_arn,),
            before_nodes=name in _BEFORE_NODES,
        )
        for name, addon in ADDONS.items()
    )


def plan_cluster(settings: Settings, network: NetworkPlan) -> ClusterPlan:
    cluster = settings.cluster
    subnet_keys = network.keys_of("private")
    return ClusterPlan(
        name=settings.name,
        region=settings.region,
        version=cluster.version,
        subnet_keys=subnet_keys,
        public_access_cidrs=cluster.api_allowed_cidrs or settings.login.allowed_cidrs,
        access_entries={access_entry_key(arn): arn for arn in sorted(cluster.admin_role_arns)},
        log_types=LOG_TYPES,
        log_group_name=f"/aws/eks/{settings.name}/cluster",
        log_retention_days=cluster.log_retention_days,
        deletion_protection=cluster.deletion_protection,
        addons=_addons(settings),
        node_policy_arns=NODE_POLICY_ARNS,
        core=CoreNodegroupPlan(
            name=names.ROLE_CORE,
            instance_type=cluster.core.instance_type,
            nodes=cluster.core.nodes,
            ami_type=CORE_AMI_TYPE,
            subnet_keys=subnet_keys,
            labels={names.ROLE_LABEL: names.ROLE_CORE},
            root_volume_gib=CORE_ROOT_VOLUME_GIB,
            http_hop_limit=HTTP_HOP_LIMIT,
        ),
        tags=tags(settings, component="Cluster"),
    )
