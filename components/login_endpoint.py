"""Where users ssh to: a security group that names them, and a network load balancer in front of the login pods.

Does not own: the login pods and their inner Service (slurm chart), the controller that makes the load balancer.
A Service of our own and not the chart's: the operator would undo what the controller writes into it, its address would
be no output of the stack, and nothing would order its removal before the controller's.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
from pulumi_kubernetes.core.v1.outputs import ServiceStatus

from components._links import NetworkIds, NodeIds
from facts.names import TOKEN_PREFIX
from plan.login import LoginPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginEndpointArgs:
    """nodes: their security group is what the load balancer connects to, as the login pods carry it too."""

    plan: LoginPlan
    network: NetworkIds
    nodes: NodeIds


class LoginEndpoint(pulumi.ComponentResource):
    """endpoint: DNS name of the load balancer. command: what a user types."""

    endpoint: pulumi.Output[str]
    command: pulumi.Output[str]

    def __init__(self, name: str, args: LoginEndpointArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:LoginEndpoint", name, None, opts)
        plan, tags, mine = args.plan, {**args.plan.tags, "Name": name}, pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(
            name,
            description="SSH to the login load balancer, from the listed ranges only",
            vpc_id=args.network.vpc_id,
            tags=tags,
            opts=mine,
        )
        for cidr in plan.allowed_cidrs:
            aws.vpc.SecurityGroupIngressRule(
                f"{name}-{cidr}",
                description="SSH",
                security_group_id=group.id,
                cidr_ipv4=cidr,
                ip_protocol="tcp",
                from_port=plan.port,
                to_port=plan.port,
                tags=tags,
                opts=mine,
            )
        aws.vpc.SecurityGroupEgressRule(
            name,
            description="SSH to the login pods, and health checks",
            security_group_id=group.id,
            referenced_security_group_id=args.nodes.security_group_id,
            ip_protocol="tcp",
            from_port=plan.port,
            to_port=plan.port,
            tags=tags,
            opts=mine,
        )
        service = kubernetes.core.v1.Service(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=plan.service_name,
                namespace=plan.namespace,
                annotations={**plan.annotations, plan.security_group_annotation: group.id},
            ),
            spec=kubernetes.core.v1.ServiceSpecArgs(
                type="LoadBalancer",
                load_balancer_class=plan.load_balancer_class,
                selector=plan.selector,
                ports=[
                    kubernetes.core.v1.ServicePortArgs(
                        name="ssh", protocol="TCP", port=plan.port, target_port=plan.target_port
                    )
                ],
            ),
            opts=mine,
        )
        self.endpoint = service.status.apply(_hostname)
        self.command = pulumi.Output.concat("ssh ", plan.user, "@", self.endpoint)
        self.register_outputs({"endpoint": self.endpoint, "command": self.command})


def _hostname(status: ServiceStatus | None) -> str:
    balancer = status.load_balancer if status else None
    # The provider waits for the address; none means that waiting was switched off, and then there is nothing to show.
    return (balancer.ingress[0].hostname if balancer and balancer.ingress else None) or ""
