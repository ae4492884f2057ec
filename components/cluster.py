"""The EKS control plane, its addons, the core nodes, and the one kubernetes provider of the stack.

Does not own: GPU nodes (`efa_nodegroup.py`), anything inside Kubernetes but the addons.
`pulumi_eks.Cluster` makes the control plane, its role and the kubeconfig; addons and nodegroups are plain `aws.eks`
resources, because the component's own come with versions that move and launch templates that cannot be shaped.
Whatever uses `kubernetes` comes after the core nodes and all addons, and is destroyed before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as kubernetes

from facts.names import TOKEN_PREFIX
from plan import trust
from plan.cluster import AddonPlan, ClusterPlan

_ADMINISTRATOR = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterArgs:
    """subnet_ids: for the control plane's interfaces; routed_subnet_ids: for nodes (see `network.py`). Both by key."""

    plan: ClusterPlan
    vpc_id: pulumi.Input[str]
    subnet_ids: Mapping[str, pulumi.Input[str]]
    routed_subnet_ids: Mapping[str, pulumi.Input[str]]


class Cluster(pulumi.ComponentResource):
    """name and node_role_arn: known once a node that joins would find network, identity and its role's policies, so
    that nodegroups need no other edge."""

    name: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    security_group_id: pulumi.Output[str]
    node_role_arn: pulumi.Output[str]
    kubernetes: kubernetes.Provider

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:Cluster", name, None, opts)
        self._name, self._plan = name, args.plan
        self._mine = pulumi.ResourceOptions(parent=self)

        control_plane = self._control_plane(args)
        self.security_group_id = control_plane.cluster_security_group_id
        self.kubeconfig = pulumi.Output.secret(control_plane.kubeconfig_json)
        # The cluster's name as a value of the cluster itself, which orders everything that takes it behind the cluster.
        cluster_name = self.security_group_id.apply(lambda _: args.plan.name)

        role, attachments = self._role("node", trust.NODES, args.plan.node_policy_arns)
        # Nodes that join without their role's policies stay NotReady until their nodegroup's creation fails.
        self.node_role_arn = pulumi.Output.all(role.arn, *[a.id for a in attachments]).apply(lambda ids: str(ids[0]))
        before = [self._addon(a, cluster_name, self._mine) for a in args.plan.addons if a.before_nodes]
        self.name = pulumi.Output.all(cluster_name, *[a.arn for a in before]).apply(lambda values: str(values[0]))

        core = self._core_nodegroup(args)
        # These addons have Deployments: without a node they are never ACTIVE and their creation times out.
        on_nodes = pulumi.ResourceOptions(parent=self, depends_on=[core])
        after = [self._addon(a, cluster_name, on_nodes) for a in args.plan.addons if not a.before_nodes]

        self.kubernetes = kubernetes.Provider(
            name,
            kubeconfig=self.kubeconfig,
            # Without this a ConfigMap is deleted and made anew for each change, under the pods that mount it.
            enable_config_map_mutable=True,
            # All that lives in Kubernetes needs nodes, DNS and volumes while it is made, and again while it is removed.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[core, *after]),
        )
        self.register_outputs(
            {
                "name": self.name,
                "kubeconfig": self.kubeconfig,
                "security_group_id": self.security_group_id,
                "node_role_arn": self.node_role_arn,
            }
        )

    def _control_plane(self, args: ClusterArgs) -> eks.Cluster:
        plan = args.plan
        key = aws.kms.Key(
            self._name,
            description=f"Kubernetes secrets of EKS cluster {plan.name}",
            enable_key_rotation=True,
            tags=dict(plan.tags),
            opts=self._mine,
        )
        aws.kms.Alias(self._name, name=f"alias/eks/{plan.name}", target_key_id=key.key_id, opts=self._mine)
        logs = aws.cloudwatch.LogGroup(
            self._name,
            name=plan.log_group_name,
            retention_in_days=plan.log_retention_days,
            tags=dict(plan.tags),
            opts=self._mine,
        )
        return eks.Cluster(
            self._name,
            # EKS makes the log group itself, without retention, when the cluster is there first. `depends_on` of a
            # packaged component does not reach its children, so the order is in the name.
            name=logs.name.apply(lambda _: plan.name),
            version=plan.version,
            vpc_id=args.vpc_id,
            subnet_ids=[args.subnet_ids[key] for key in plan.subnet_keys],
            authentication_mode=eks.AuthenticationMode.API,
            access_entries={
                entry: eks.AccessEntryArgs(
                    principal_arn=role_arn,
                    access_policies={
                        "administrator": eks.AccessPolicyAssociationArgs(
                            policy_arn=_ADMINISTRATOR,
                            access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                        )
                    },
                    tags=dict(plan.tags),
                )
                for entry, role_arn in plan.access_entries.items()
            },
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
            opts=self._mine,
        )

    def _role(
        self, role: str, trusted: str, policy_arns: Sequence[str]
    ) -> tuple[aws.iam.Role, list[aws.iam.RolePolicyAttachment]]:
        name = f"{self._name}-{role}"
        made = aws.iam.Role(name, assume_role_policy=trusted, tags=dict(self._plan.tags), opts=self._mine)
        return made, [
            aws.iam.RolePolicyAttachment(
                f"{name}-{arn.rsplit('/', 1)[-1]}", role=made.name, policy_arn=arn, opts=self._mine
            )
            for arn in policy_arns
        ]

    def _addon(self, addon: AddonPlan, cluster_name: pulumi.Output[str], opts: pulumi.ResourceOptions) -> aws.eks.Addon:
        identity: list[aws.eks.AddonPodIdentityAssociationArgs] = []
        if addon.service_account is not None:
            # Short: IAM takes 64 characters, a stack's name may have 32.
            role, attachments = self._role(addon.name.removeprefix("aws-"), trust.PODS, addon.policy_arns)
            # The addon's pods call AWS at once; a role without its policies makes them crash and the addon DEGRADED.
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=attachments))
            identity.append(
                aws.eks.AddonPodIdentityAssociationArgs(role_arn=role.arn, service_account=addon.service_account)
            )
        return aws.eks.Addon(
            f"{self._name}-{addon.name}",
            cluster_name=cluster_name,
            addon_name=addon.name,
            addon_version=addon.version,
            configuration_values=addon.configuration,
            pod_identity_associations=identity or None,
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="OVERWRITE",
            tags=dict(self._plan.tags),
            opts=opts,
        )

    def _core_nodegroup(self, args: ClusterArgs) -> aws.eks.NodeGroup:
        core = args.plan.core
        name = f"{self._name}-{core.name}"
        template = aws.ec2.LaunchTemplate(
            name,
            update_default_version=True,
            block_device_mappings=[
                aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                    device_name="/dev/xvda",
                    ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                        volume_size=core.root_volume_gib, volume_type="gp3", encrypted="true"
                    ),
                )
            ],
            metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=core.http_hop_limit
            ),
            tag_specifications=[
                aws.ec2.LaunchTemplateTagSpecificationArgs(
                    resource_type=kind, tags={**args.plan.tags, "Name": f"{args.plan.name}-{core.name}"}
                )
                for kind in ("instance", "volume", "network-interface")
            ],
            tags=dict(args.plan.tags),
            opts=self._mine,
        )
        return aws.eks.NodeGroup(
            name,
            cluster_name=self.name,
            version=args.plan.version,
            node_role_arn=self.node_role_arn,
            subnet_ids=[args.routed_subnet_ids[key] for key in core.subnet_keys],
            ami_type=core.ami_type,
            instance_types=[core.instance_type],
            launch_template=aws.eks.NodeGroupLaunchTemplateArgs(
                id=template.id, version=template.latest_version.apply(str)
            ),
            # Not `ignore_changes` on the desired size: nothing here scales, and an ignored size below a raised minimum
            # is refused by EKS.
            scaling_config=aws.eks.NodeGroupScalingConfigArgs(
                min_size=core.nodes, max_size=core.nodes, desired_size=core.nodes
            ),
            labels=dict(core.labels),
            tags=dict(args.plan.tags),
            opts=self._mine,
        )
