"""One nodegroup of GPU nodes with EFA: security group, placement group, launch template, nodegroup in one subnet.

Does not own: the subnet, the node role, what interfaces or placement a type gets (`plan/nodegroups.py`).
Own launch template and not the option of `pulumi_eks`: that one always makes a placement group (which a capacity
reservation refuses), knows no reservation, and puts the interfaces into the cluster's security group only.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components import _nodes
from components._links import NetworkIds, NodeIds
from facts.names import TOKEN_PREFIX
from plan.fabric import InterfacePlan
from plan.nodegroups import GpuNodegroupPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class EfaNodeGroupArgs:
    """nodes: their security group lets them talk to the control plane; EKS adds it only to templates without groups of
    their own, so it is listed on every interface."""

    plan: GpuNodegroupPlan
    network: NetworkIds
    nodes: NodeIds


class EfaNodeGroup(pulumi.ComponentResource):
    """The nodegroup behind one Slurm nodeset."""

    nodegroup_arn: pulumi.Output[str]
    security_group_id: pulumi.Output[str]

    def __init__(self, name: str, args: EfaNodeGroupArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:EfaNodeGroup", name, None, opts)
        self._name, self._plan, self._tags = name, args.plan, {**args.plan.tags, "Name": name}
        self._mine = pulumi.ResourceOptions(parent=self)

        group, rules = self._security_group(args.network.vpc_id)
        template = self._launch_template([args.nodes.security_group_id, group.id])
        plan = args.plan
        nodegroup = aws.eks.NodeGroup(
            plan.name,  # short: EKS takes 63 characters, and the cluster is the name's scope
            cluster_name=args.nodes.cluster_name,
            version=args.nodes.kubernetes_version,
            node_role_arn=args.nodes.role_arn,
            subnet_ids=[args.network.routed_subnet_ids[plan.subnet_key]],  # exactly one: EFA does not cross zones
            ami_type=plan.ami_type,
            # A Capacity Block takes the type from the template, and EKS refuses it in both places.
            instance_types=None if plan.capacity.market_type else [plan.instance_type],
            capacity_type=plan.capacity.capacity_type,
            launch_template=_nodes.newest(template),
            scaling_config=_nodes.fixed(plan.nodes),
            # MINIMAL: old nodes end before new ones start, because no spare capacity can be counted on.
            update_config={"max_unavailable": plan.max_unavailable, "update_strategy": "MINIMAL"},
            labels=dict(plan.labels),
            taints=[{"key": plan.taint["key"], "value": plan.taint["value"], "effect": plan.taint["effect"]}],
            tags=self._tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=rules,  # a node that starts without the rules has an EFA that reaches nobody
                delete_before_replace=plan.capacity.reservation_id is not None,  # no room for two generations
                # Large GPU nodes take many minutes each to start, and an update replaces them batch by batch.
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="180m", delete="60m"),
            ),
        )
        self.nodegroup_arn = nodegroup.arn
        self.security_group_id = group.id
        self.register_outputs({"nodegroup_arn": self.nodegroup_arn, "security_group_id": self.security_group_id})

    def _security_group(self, vpc_id: pulumi.Input[str]) -> tuple[aws.ec2.SecurityGroup, list[pulumi.Resource]]:
        group = aws.ec2.SecurityGroup(
            self._name,
            description="EFA: all traffic between the nodes of the group, in and out",
            vpc_id=vpc_id,
            tags=self._tags,
            opts=self._mine,
        )
        # OS-bypass traffic is matched against group references only: a rule for 0.0.0.0/0 does not let it out.
        inward = aws.vpc.SecurityGroupIngressRule(
            self._name,
            description="EFA from the group itself",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol="-1",
            tags=self._tags,
            opts=self._mine,
        )
        outward = aws.vpc.SecurityGroupEgressRule(
            self._name,
            description="EFA to the group itself",
            security_group_id=group.id,
            referenced_security_group_id=group.id,
            ip_protocol="-1",
            tags=self._tags,
            opts=self._mine,
        )
        return group, [inward, outward]

    def _launch_template(self, security_groups: list[pulumi.Input[str]]) -> aws.ec2.LaunchTemplate:
        plan = self._plan
        placement_group = plan.placement.existing_name
        if plan.placement.create:
            placement_group = aws.ec2.PlacementGroup(
                self._name, strategy="cluster", tags=self._tags, opts=self._mine
            ).name
        block, reservation = plan.capacity.market_type, plan.capacity.reservation_id
        return aws.ec2.LaunchTemplate(
            self._name,
            update_default_version=True,
            instance_type=plan.instance_type if block else None,
            instance_market_options={"market_type": block} if block else None,
            capacity_reservation_specification={"capacity_reservation_target": {"capacity_reservation_id": reservation}}
            if reservation
            else None,
            placement={"group_name": placement_group} if placement_group else None,
            network_interfaces=[self._interface(i, security_groups) for i in plan.interfaces],
            block_device_mappings=_nodes.root_volume(
                plan.root_volume_gib, iops=plan.root_volume_iops, throughput_mibps=plan.root_volume_throughput_mibps
            ),
            metadata_options=_nodes.metadata_service(plan.http_hop_limit),
            user_data=base64.b64encode(plan.user_data.encode()).decode(),
            tag_specifications=_nodes.tags_of_instances(self._tags),
            tags=self._tags,
            opts=self._mine,
        )

    def _interface(
        self, i: InterfacePlan, groups: list[pulumi.Input[str]]
    ) -> aws.ec2.LaunchTemplateNetworkInterfaceArgsDict:
        interface: aws.ec2.LaunchTemplateNetworkInterfaceArgsDict = {
            "network_card_index": i.network_card,
            "device_index": i.device_index,
            "interface_type": i.interface_type,
            "security_groups": groups,
            "delete_on_termination": "true",
            # No public address is asked for or refused: EC2 takes that choice only for a single interface.
        }
        seconds = self._plan.tcp_established_timeout_seconds
        if seconds and i.interface_type != "efa-only":  # that one carries no IP traffic, so there is nothing to track
            interface["connection_tracking_specification"] = {"tcp_established_timeout": seconds}
        return interface
