"""The VPC of the cluster: subnets, NAT, routes and endpoints, or the ids of a network that exists.

Does not own: any workload's security group; addresses, zones and sizes (`plan/network.py`).
Two maps of subnet ids: `subnet_ids` as soon as a subnet exists (control plane, databases, mount targets), and
`routed_subnet_ids` once its way out exists too. A node that boots before its route finds neither registry nor control
plane and its nodegroup fails after twenty minutes, so nodes take the second; no `depends_on` can then be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components._endpoints import endpoints
from components._links import NetworkIds
from facts.names import TOKEN_PREFIX
from plan.network import NetworkPlan, SubnetPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkArgs:
    """plan: what is built, or the existing ids."""

    plan: NetworkPlan


class Network(pulumi.ComponentResource):
    """ids: of the VPC and, by key, of its subnets."""

    ids: NetworkIds

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:Network", name, None, opts)
        self._name, self._plan = name, args.plan
        self._mine = pulumi.ResourceOptions(parent=self)

        if args.plan.existing_vpc_id is None:
            self.ids = self._build(args.plan)
        else:
            existing = {s.key: s.existing_id for s in args.plan.subnets if s.existing_id is not None}
            self.ids = NetworkIds(vpc_id=args.plan.existing_vpc_id, subnet_ids=existing, routed_subnet_ids=existing)
        self.register_outputs({"vpc_id": self.ids.vpc_id, "subnet_ids": self.ids.subnet_ids})

    def _build(self, plan: NetworkPlan) -> NetworkIds:
        vpc = aws.ec2.Vpc(
            self._name,
            cidr_block=plan.vpc_cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,  # private names of EFS mount targets and interface endpoints need both
            tags=self._tags(self._name),
            opts=self._mine,
        )
        subnets = {s.key: self._subnet(vpc, s) for s in plan.subnets}

        internet = aws.ec2.InternetGateway(self._name, vpc_id=vpc.id, tags=self._tags(self._name), opts=self._mine)
        public = self._route_table(vpc, "public")
        to_internet = aws.ec2.Route(
            f"{self._name}-public",
            route_table_id=public.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=internet.id,
            opts=self._mine,
        )
        tables = {"public": public}
        ways_out = {"public": to_internet}
        for zone_id in plan.nat_zone_ids:
            tables[zone_id] = self._route_table(vpc, f"private-{zone_id}")
            ways_out[zone_id] = self._nat_route(zone_id, subnets[f"public-{zone_id}"], tables[zone_id], to_internet)

        routed: dict[str, pulumi.Output[str]] = {}
        for s in plan.subnets:
            way = "public" if s.kind == "public" else str(s.nat_zone_id)
            association = aws.ec2.RouteTableAssociation(
                f"{self._name}-{s.key}",
                subnet_id=subnets[s.key].id,
                route_table_id=tables[way].id,
                opts=self._mine,
            )
            routed[s.key] = pulumi.Output.all(subnets[s.key].id, association.id, ways_out[way].id).apply(
                lambda ids: str(ids[0])
            )
        ids = NetworkIds(vpc_id=vpc.id, subnet_ids={key: s.id for key, s in subnets.items()}, routed_subnet_ids=routed)
        endpoints(self._name, plan, self._mine, ids, [table.id for table in tables.values()])
        return ids

    def _subnet(self, vpc: aws.ec2.Vpc, s: SubnetPlan) -> aws.ec2.Subnet:
        return aws.ec2.Subnet(
            f"{self._name}-{s.key}",
            vpc_id=vpc.id,
            cidr_block=s.cidr,
            availability_zone_id=s.zone_id,
            tags=self._tags(f"{self._name}-{s.key}", s.tags),
            opts=self._mine,
        )

    def _route_table(self, vpc: aws.ec2.Vpc, role: str) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(
            f"{self._name}-{role}", vpc_id=vpc.id, tags=self._tags(f"{self._name}-{role}"), opts=self._mine
        )

    def _nat_route(
        self, zone_id: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable, to_internet: aws.ec2.Route
    ) -> aws.ec2.Route:
        name = f"{self._name}-nat-{zone_id}"
        # A NAT gateway without a way to the internet fails to come up, and an address cannot be released while the
        # internet gateway is being detached: both need an order that no property expresses.
        after_internet = pulumi.ResourceOptions(parent=self, depends_on=[to_internet])
        address = aws.ec2.Eip(name, domain="vpc", tags=self._tags(name), opts=after_internet)
        gateway = aws.ec2.NatGateway(
            name, allocation_id=address.id, subnet_id=subnet.id, tags=self._tags(name), opts=after_internet
        )
        return aws.ec2.Route(
            name,
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            nat_gateway_id=gateway.id,
            opts=self._mine,
        )

    def _tags(self, name: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {**self._plan.tags, "Name": name, **(more or {})}
