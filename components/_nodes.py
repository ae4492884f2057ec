"""What all nodes have, whichever component makes them: an encrypted root volume, a guarded metadata service, tags on
all that EC2 makes for them, and a fixed number.

Parts and not one function that makes a nodegroup: what is left to core and GPU nodes has little in common.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi_aws as aws


def root_volume(
    gib: int, *, iops: int | None = None, throughput_mibps: int | None = None
) -> list[aws.ec2.LaunchTemplateBlockDeviceMappingArgs]:
    volume = aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
        volume_type="gp3",
        volume_size=gib,
        iops=iops,
        throughput=throughput_mibps,
        encrypted="true",
        delete_on_termination="true",
    )
    return [aws.ec2.LaunchTemplateBlockDeviceMappingArgs(device_name="/dev/xvda", ebs=volume)]  # AL2023's root device


def metadata_service(hop_limit: int) -> aws.ec2.LaunchTemplateMetadataOptionsArgs:
    return aws.ec2.LaunchTemplateMetadataOptionsArgs(
        http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=hop_limit
    )


def tags_of_instances(tags: Mapping[str, str]) -> list[aws.ec2.LaunchTemplateTagSpecificationArgs]:
    """EKS passes the tags of a nodegroup on to none of these."""
    kinds = ("instance", "volume", "network-interface")
    return [aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=dict(tags)) for kind in kinds]


def newest(template: aws.ec2.LaunchTemplate) -> aws.eks.NodeGroupLaunchTemplateArgs:
    """By number, so that a new version is a change of the nodegroup, which then replaces its nodes."""
    return aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str))


def fixed(nodes: int) -> aws.eks.NodeGroupScalingConfigArgs:
    """Not `ignore_changes` on the desired size: nothing here scales, and an ignored size below a raised minimum is
    refused by EKS."""
    return aws.eks.NodeGroupScalingConfigArgs(min_size=nodes, max_size=nodes, desired_size=nodes)
