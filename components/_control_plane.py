"""The EKS control plane with its key and log group: all that this program asks of the packaged component `pulumi_eks`.

Apart from `cluster.py`, which composes: what `pulumi_eks` would make besides, and is told not to, fills a page.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks

from components._links import NetworkIds
from plan.cluster import ClusterPlan

_ADMINISTRATOR = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


def control_plane(name: str, plan: ClusterPlan, opts: pulumi.ResourceOptions, network: NetworkIds) -> eks.Cluster:
    """Its role and the kubeconfig come with it; nodes, security groups and addons do not."""
    key = aws.kms.Key(
        name,
        description=f"Kubernetes secrets of EKS cluster {plan.name}",
        enable_key_rotation=True,
        tags=dict(plan.tags),
        opts=opts,
    )
    aws.kms.Alias(name, name=f"alias/eks/{plan.name}", target_key_id=key.key_id, opts=opts)
    logs = aws.cloudwatch.LogGroup(
        name,
        name=plan.log_group_name,
        retention_in_days=plan.log_retention_days,
        tags=dict(plan.tags),
        opts=opts,
    )
    return eks.Cluster(
        name,
        # EKS makes the log group itself, without retention, when the cluster is there first. `depends_on` of a
        # packaged component does not reach its children, so the order is in the name.
        name=logs.name.apply(lambda _: plan.name),
        version=plan.version,
        vpc_id=network.vpc_id,
        subnet_ids=[network.subnet_ids[key] for key in plan.subnet_keys],
        authentication_mode=eks.AuthenticationMode.API,
        access_entries={key: _administrator(role_arn, plan.tags) for key, role_arn in plan.access_entries.items()},
        endpoint_private_access=True,
        endpoint_public_access=bool(plan.public_access_cidrs),
        public_access_cidrs=list(plan.public_access_cidrs) or None,
        enabled_cluster_log_types=list(plan.log_types),
        encryption_config_key_arn=key.arn,
        deletion_protection=plan.deletion_protection,
        upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type="STANDARD"),
        # Nodes, security groups and addons are ours: two owners of one addon would undo each other's versions.
        skip_default_node_group=True,
        skip_default_security_groups=True,
        create_instance_role=False,
        create_oidc_provider=False,
        use_default_vpc_cni=True,
        bootstrap_self_managed_addons=False,
        kube_proxy_addon_options=eks.KubeProxyAddonOptionsArgs(enabled=False),
        coredns_addon_options=eks.CoreDnsAddonOptionsArgs(enabled=False),
        tags=dict(plan.tags),
        opts=opts,
    )


def _administrator(role_arn: str, tags: Mapping[str, str]) -> eks.AccessEntryArgs:
    everywhere = aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster")
    policy = eks.AccessPolicyAssociationArgs(policy_arn=_ADMINISTRATOR, access_scope=everywhere)
    return eks.AccessEntryArgs(principal_arn=role_arn, access_policies={"administrator": policy}, tags=dict(tags))
