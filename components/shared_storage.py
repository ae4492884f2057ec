"""EFS behind the shared directories: file system, mount targets, access points, static volumes and claims.

Does not own: the CSI driver (an addon of the cluster), who mounts what (chart values).
Static volumes and not a StorageClass: `/shared` must be the same tree for every pod and outlive each claim, and the
access points squash nobody, because Slurm's users are told apart by their own uids.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components._links import NetworkIds, NodeIds
from facts.names import NAMESPACE_SLURM, PORT_NFS, TOKEN_PREFIX
from plan.storage import ClaimPlan, StoragePlan

_NOMINAL_CAPACITY = "1Ti"  # Kubernetes wants a number to match claim and volume by; EFS has no size


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedStorageArgs:
    """nodes: their security group is the only one that may mount."""

    plan: StoragePlan
    network: NetworkIds
    nodes: NodeIds


class SharedStorage(pulumi.ComponentResource):
    """The claims are found by the names in the plan."""

    file_system_id: pulumi.Output[str]

    def __init__(self, name: str, args: SharedStorageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:SharedStorage", name, None, opts)
        plan = args.plan
        self._name, self._plan, self._tags = name, plan, {**plan.tags, "Name": name}
        self._mine = pulumi.ResourceOptions(parent=self)

        self._file_system = aws.efs.FileSystem(
            name,
            encrypted=True,
            throughput_mode=plan.throughput_mode,
            performance_mode="generalPurpose",
            tags=self._tags,
            # protect: the data of all users; a replacement or a destroy must be asked for twice.
            opts=pulumi.ResourceOptions(parent=self, protect=plan.protect),
        )
        self.file_system_id = self._file_system.id
        if plan.backup:
            aws.efs.BackupPolicy(
                name,
                file_system_id=self._file_system.id,
                backup_policy=aws.efs.BackupPolicyBackupPolicyArgs(status="ENABLED"),
                opts=self._mine,
            )
        targets = self._mount_targets(args)
        for claim in plan.claims:
            self._claim(claim, targets)
        self.register_outputs({"file_system_id": self.file_system_id})

    def _mount_targets(self, args: SharedStorageArgs) -> list[aws.efs.MountTarget]:
        group = aws.ec2.SecurityGroup(
            self._name,
            description="NFS from the nodes to the shared file system",
            vpc_id=args.network.vpc_id,
            tags=self._tags,
            opts=self._mine,
        )
        aws.vpc.SecurityGroupIngressRule(
            self._name,
            description="NFS from the nodes",
            security_group_id=group.id,
            referenced_security_group_id=args.nodes.security_group_id,
            ip_protocol="tcp",
            from_port=PORT_NFS,
            to_port=PORT_NFS,
            tags=self._tags,
            opts=self._mine,
        )
        return [
            aws.efs.MountTarget(
                f"{self._name}-{zone_id}",
                file_system_id=self._file_system.id,
                subnet_id=args.network.subnet_ids[subnet_key],
                security_groups=[group.id],
                opts=self._mine,
            )
            for zone_id, subnet_key in self._plan.mount_targets.items()
        ]

    def _claim(self, claim: ClaimPlan, targets: list[aws.efs.MountTarget]) -> None:
        name = f"{self._name}-{claim.name}"
        volume_name = f"{NAMESPACE_SLURM}-{claim.name}"  # volumes have no namespace
        access_point = aws.efs.AccessPoint(
            name,
            file_system_id=self._file_system.id,
            root_directory=aws.efs.AccessPointRootDirectoryArgs(
                path=claim.path,
                creation_info=aws.efs.AccessPointRootDirectoryCreationInfoArgs(
                    owner_uid=0, owner_gid=0, permissions=claim.mode
                ),
            ),
            tags={**self._tags, "Name": name},
            opts=self._mine,
        )
        volume = kubernetes.core.v1.PersistentVolume(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=volume_name),
            spec=kubernetes.core.v1.PersistentVolumeSpecArgs(
                capacity={"storage": _NOMINAL_CAPACITY},
                access_modes=["ReadWriteMany"],
                persistent_volume_reclaim_policy="Retain",
                storage_class_name="",  # and not unset: the default class would take the claim away from its volume
                mount_options=list(self._plan.mount_options),
                claim_ref=kubernetes.core.v1.ObjectReferenceArgs(
                    api_version="v1", kind="PersistentVolumeClaim", namespace=NAMESPACE_SLURM, name=claim.name
                ),
                csi=kubernetes.core.v1.CSIPersistentVolumeSourceArgs(
                    driver="efs.csi.aws.com",
                    volume_handle=pulumi.Output.concat(self._file_system.id, "::", access_point.id),
                ),
            ),
            # A pod that mounts before its zone has a mount target hangs in ContainerCreating on name resolution.
            opts=pulumi.ResourceOptions(parent=self, depends_on=targets),
        )
        kubernetes.core.v1.PersistentVolumeClaim(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=claim.name, namespace=NAMESPACE_SLURM),
            spec=kubernetes.core.v1.PersistentVolumeClaimSpecArgs(
                access_modes=["ReadWriteMany"],
                storage_class_name="",
                volume_name=volume_name,
                resources=kubernetes.core.v1.VolumeResourceRequirementsArgs(requests={"storage": _NOMINAL_CAPACITY}),
            ),
            # Known by name alone, so that a preview can show it; without its volume a claim waits until time is up.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[volume]),
        )
