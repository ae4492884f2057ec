"""What must be in Kubernetes before anything else: the namespaces and the default StorageClass.

Not each component its own namespace: storage puts claims where Slurm runs, monitoring watches all of them, and the one
that made the namespace would have to come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from facts.names import TOKEN_PREFIX
from plan import FoundationPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundationArgs:
    """plan: namespaces with their labels, parameters of the encrypted gp3 class."""

    plan: FoundationPlan


class Foundation(pulumi.ComponentResource):
    """Has no outputs: others know the names from their plans and depend on the whole component."""

    def __init__(self, name: str, args: FoundationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:Foundation", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        for namespace, labels in args.plan.namespaces.items():
            kubernetes.core.v1.Namespace(
                f"{name}-{namespace}",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=namespace, labels=labels),
                opts=mine,
            )
        kubernetes.storage.v1.StorageClass(
            f"{name}-{args.plan.storage_class_name}",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=args.plan.storage_class_name,
                # EKS brings no default class since 1.30; claims of charts that name none would stay Pending.
                annotations={"storageclass.kubernetes.io/is-default-class": "true"},
            ),
            provisioner="ebs.csi.aws.com",
            parameters=args.plan.storage_class_parameters,
            volume_binding_mode="WaitForFirstConsumer",  # an EBS volume lives in one zone: the pod's, not a random one
            allow_volume_expansion=True,
            opts=mine,
        )
        self.register_outputs({})
