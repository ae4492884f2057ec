"""What some components hand on together, typed for those who take it: no component imports another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkIds:
    """The VPC, and its subnets by the plan's keys. routed_subnet_ids: known once a subnet's way out exists too, hence
    for nodes; subnet_ids: for all that only has to be in there."""

    vpc_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    routed_subnet_ids: Mapping[str, pulumi.Input[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeIds:
    """What nodes join with, and are known by. cluster_name and role_arn: known once a node that joins would find
    network, identity and its role's policies, so that nodegroups need no other edge. security_group_id: of the group
    that all nodes (and so their pods) carry, whatever nodegroup they are of."""

    cluster_name: pulumi.Input[str]
    kubernetes_version: str
    security_group_id: pulumi.Input[str]
    role_arn: pulumi.Input[str]
