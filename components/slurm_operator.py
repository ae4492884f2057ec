"""The operators that a Slurm cluster stands on: cert-manager, Slinky's CRDs and operator, device plugins, the AWS Load
Balancer Controller with its IAM role.

Does not own: order and values (`plan/charts.py` says which release comes after which), the Slurm cluster itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components._helm import release
from components._links import NetworkIds, NodeIds
from facts.names import TOKEN_PREFIX
from plan import trust
from plan.charts import OperatorPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmOperatorArgs:
    """network: its VPC is where the load balancer controller works, whose pods may not ask the node's metadata."""

    plan: OperatorPlan
    network: NetworkIds
    nodes: NodeIds


class SlurmOperator(pulumi.ComponentResource):
    """Has no outputs: what comes after needs all of it up, and depends on the whole component."""

    def __init__(self, name: str, args: SlurmOperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:SlurmOperator", name, None, opts)
        plan = args.plan
        identity = self._load_balancer_identity(name, args)
        releases: dict[str, kubernetes.helm.v3.Release] = {}
        for r in plan.releases:
            is_load_balancer = r.name == plan.load_balancer_release
            after: list[pulumi.Resource] = [releases[earlier] for earlier in r.after]
            if is_load_balancer:
                after.append(identity)
            releases[r.name] = release(
                f"{name}-{r.name}",
                r,
                # The plan's edges: what a webhook admits comes after the webhook, and goes before it. The identity:
                # pods get credentials only if the association exists when they start.
                pulumi.ResourceOptions(parent=self, depends_on=after),
                values={**r.values, "vpcId": args.network.vpc_id} if is_load_balancer else None,
            )
        self.register_outputs({})

    def _load_balancer_identity(self, name: str, args: SlurmOperatorArgs) -> aws.eks.PodIdentityAssociation:
        plan, mine = args.plan, pulumi.ResourceOptions(parent=self)
        role_name = f"{name}-load-balancer"  # short: IAM takes 64 characters, a stack's name may have 32
        role = aws.iam.Role(role_name, assume_role_policy=trust.PODS, tags=dict(plan.tags), opts=mine)
        policy = aws.iam.RolePolicy(role_name, role=role.name, policy=plan.load_balancer_policy, opts=mine)
        return aws.eks.PodIdentityAssociation(
            role_name,
            cluster_name=args.nodes.cluster_name,
            namespace=plan.load_balancer_namespace,
            service_account=plan.load_balancer_service_account,
            role_arn=role.arn,
            tags=dict(plan.tags),
            # On the way down the controller still deletes load balancers: its policy must be the last to go.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
