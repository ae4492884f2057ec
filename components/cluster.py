"""The EKS control plane, its addons, the core nodes, and the one kubernetes provider of the stack.

Does not own: GPU nodes (`efa_nodegroup.py`), anything inside Kubernetes but the addons.
`pulumi_eks.Cluster` makes the control plane, its role and the kubeconfig; addons and nodegroups are plain `aws.eks`
resources, because the component's own come with versions that move and launch templates that cannot be shaped.
Whatever uses `kubernetes` comes after the core nodes and all addons, and is destroyed before them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components import _nodes
from components._control_plane import control_plane
from components._links import NetworkIds, NodeIds
from facts.names import TOKEN_PREFIX
from plan import trust
from plan.cluster import AddonPlan, ClusterPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterArgs:
    """network: what control plane and core nodes are put into."""

    plan: ClusterPlan
    network: NetworkIds


class Cluster(pulumi.ComponentResource):
    """nodes: for those who make more of them. kubernetes: the provider of all that lives in the cluster."""

    kubeconfig: pulumi.Output[str]
    nodes: NodeIds
    kubernetes: kubernetes.Provider

    def __init__(self, name: str, args: ClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:Cluster", name, None, opts)
        self._name, self._plan = name, args.plan
        self._mine = pulumi.ResourceOptions(parent=self)

        made = control_plane(name, args.plan, self._mine, args.network)
        self.kubeconfig = pulumi.Output.secret(made.kubeconfig_json)
        # The cluster's name as a value of the cluster itself, which orders everything that takes it behind the cluster.
        cluster_name = made.cluster_security_group_id.apply(lambda _: args.plan.name)

        role, attachments = self._role("node", trust.NODES, args.plan.node_policy_arns)
        before = [self._addon(a, cluster_name, self._mine) for a in args.plan.addons if a.before_nodes]
        self.nodes = NodeIds(
            cluster_name=pulumi.Output.all(cluster_name, *[a.arn for a in before]).apply(lambda of: str(of[0])),
            kubernetes_version=args.plan.version,
            security_group_id=made.cluster_security_group_id,
            # Nodes that join without their role's policies stay NotReady until their nodegroup's creation fails.
            role_arn=pulumi.Output.all(role.arn, *[a.id for a in attachments]).apply(lambda of: str(of[0])),
        )
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
                "name": self.nodes.cluster_name,
                "kubeconfig": self.kubeconfig,
                "security_group_id": self.nodes.security_group_id,
                "node_role_arn": self.nodes.role_arn,
            }
        )

    def on_kubernetes(self, *after: pulumi.Resource | None) -> pulumi.ResourceOptions:
        """Options of what lives in the cluster. after: what must be there first and go last, and is known by name."""
        return pulumi.ResourceOptions(providers=[self.kubernetes], depends_on=[r for r in after if r is not None])

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
        core, tags = args.plan.core, dict(args.plan.tags)
        name = f"{self._name}-{core.name}"
        template = aws.ec2.LaunchTemplate(
            name,
            update_default_version=True,
            block_device_mappings=_nodes.root_volume(core.root_volume_gib),
            metadata_options=_nodes.metadata_service(core.http_hop_limit),
            tag_specifications=_nodes.tags_of_instances({**tags, "Name": f"{args.plan.name}-{core.name}"}),
            tags=tags,
            opts=self._mine,
        )
        return aws.eks.NodeGroup(
            name,
            cluster_name=self.nodes.cluster_name,
            version=args.plan.version,
            node_role_arn=self.nodes.role_arn,
            subnet_ids=[args.network.routed_subnet_ids[key] for key in core.subnet_keys],
            ami_type=core.ami_type,
            instance_types=[core.instance_type],
            launch_template=_nodes.newest(template),
            scaling_config=_nodes.fixed(core.nodes),
            labels=dict(core.labels),
            tags=tags,
            opts=self._mine,
        )
