"""The VPC's own ways to AWS services: gateway endpoints on its route tables, interface endpoints in its subnets.

Apart from `network.py`, which lays out the ways to the internet: these come and go without any of those changing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from components._links import NetworkIds
from plan.network import NetworkPlan


def endpoints(
    name: str,
    plan: NetworkPlan,
    opts: pulumi.ResourceOptions,
    network: NetworkIds,
    table_ids: Sequence[pulumi.Input[str]],
) -> None:
    """What the plan names, and for the interfaces a security group that lets nodes in."""

    def tags(role: str) -> dict[str, str]:
        return {**plan.tags, "Name": f"{name}-{role}"}

    for service in plan.gateway_endpoints:
        aws.ec2.VpcEndpoint(
            f"{name}-{service}",
            vpc_id=network.vpc_id,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{plan.region}.{service}",
            route_table_ids=list(table_ids),
            tags=tags(service),
            opts=opts,
        )
    if not plan.interface_endpoints:
        return
    group = aws.ec2.SecurityGroup(
        f"{name}-endpoints",
        description="HTTPS from the nodes to AWS service endpoints",
        vpc_id=network.vpc_id,
        tags=tags("endpoints"),
        opts=opts,
    )
    for cidr in plan.node_cidrs:
        aws.vpc.SecurityGroupIngressRule(
            f"{name}-endpoints-{cidr}",
            description="nodes",
            security_group_id=group.id,
            cidr_ipv4=cidr,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            tags=tags("endpoints"),
            opts=opts,
        )
    for service in plan.interface_endpoints:
        aws.ec2.VpcEndpoint(
            f"{name}-{service}",
            vpc_id=network.vpc_id,
            vpc_endpoint_type="Interface",
            service_name=f"com.amazonaws.{plan.region}.{service}",
            subnet_ids=[network.subnet_ids[key] for key in plan.endpoint_subnet_keys],
            security_group_ids=[group.id],
            private_dns_enabled=True,
            tags=tags(service),
            opts=opts,
        )
