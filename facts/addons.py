"""EKS addons: versions per Kubernetes version, service accounts of their controllers, and the policies these need.

Not checked against the EKS API (`describe-addon-versions` needs an account). Every version was found in public records
of what that API answered or of clusters that run it; of the CSI drivers and the node monitoring agent it is the version
whose sources were read for what is said about them here and in plan/cluster.py. EKS refuses a version that it no longer
serves and says which it has. Before a first deployment ask:
`aws eks describe-addon-versions --kubernetes-version 1.36 --addon-name <name>`. `seen` says where a version is from:

- `upgrade log`: a cluster taken from 1.31 to 1.36 on 2026-09-23, these versions ACTIVE at each step;
- `default`: the default of 1.36 by `describe-addon-versions` on 2026-08-27; on 1.33 to 1.35 an assumption, as these
  addons are built once for all Kubernetes versions in support;
- `pins`: those that a script wrote from the same call for a 1.35 cluster in August 2026; an assumption elsewhere.

vpc-cni: 1.18.5 or later is needed for `efa-only` interfaces (EKS user guide, "Run machine learning training with EFA").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

KUBERNETES_VERSIONS: Final = ("1.33", "1.34", "1.35", "1.36")


@dataclass(frozen=True, kw_only=True, slots=True)
class Addon:
    """versions: by Kubernetes version. service_account, policy_arn: the identity of its pods (None = none needed)."""

    versions: Mapping[str, str]
    seen: Literal["upgrade log", "default", "pins"]
    service_account: str | None = None
    policy_arn: str | None = None


def _everywhere(version: str) -> Mapping[str, str]:
    return MappingProxyType(dict.fromkeys(KUBERNETES_VERSIONS, version))


_MANAGED: Final = "arn:aws:iam::aws:policy"

# Policies: moto's copy of all AWS managed policies has these ARNs. Of the EBS driver the older one is named: the EKS
# user guide and that copy disagree on the path of its successor (AmazonEBSCSIDriverPolicyV2).
ADDONS: Final[Mapping[str, Addon]] = MappingProxyType(
    {
        "vpc-cni": Addon(
            versions=_everywhere("v1.22.4-eksbuild.3"),
            seen="upgrade log",
            service_account="aws-node",
            policy_arn=f"{_MANAGED}/AmazonEKS_CNI_Policy",
        ),
        "kube-proxy": Addon(
            versions=MappingProxyType(
                {
                    "1.33": "v1.33.10-eksbuild.29",
                    "1.34": "v1.34.6-eksbuild.29",
                    "1.35": "v1.35.3-eksbuild.29",
                    "1.36": "v1.36.0-eksbuild.25",
                }
            ),
            seen="upgrade log",
        ),
        "eks-pod-identity-agent": Addon(versions=_everywhere("v1.3.10-eksbuild.3"), seen="default"),
        "coredns": Addon(
            versions=MappingProxyType(
                {
                    "1.33": "v1.12.4-eksbuild.38",
                    "1.34": "v1.12.4-eksbuild.38",
                    "1.35": "v1.13.2-eksbuild.31",
                    "1.36": "v1.14.3-eksbuild.23",
                }
            ),
            seen="upgrade log",
        ),
        "aws-ebs-csi-driver": Addon(
            versions=_everywhere("v1.64.0-eksbuild.1"),
            seen="default",
            service_account="ebs-csi-controller-sa",
            policy_arn=f"{_MANAGED}/service-role/AmazonEBSCSIDriverPolicy",
        ),
        "aws-efs-csi-driver": Addon(
            versions=_everywhere("v3.4.1-eksbuild.1"),
            seen="pins",
            service_account="efs-csi-controller-sa",
            policy_arn=f"{_MANAGED}/service-role/AmazonEFSCSIDriverPolicy",
        ),
        "eks-node-monitoring-agent": Addon(versions=_everywhere("v1.7.0-eksbuild.1"), seen="pins"),
    }
)

NODE_POLICY_ARNS: Final = (
    # Not AmazonEKSWorkerNodeMinimalPolicy: nodeadm names the node after its private DNS name, for which it asks EC2.
    f"{_MANAGED}/AmazonEKSWorkerNodePolicy",
    f"{_MANAGED}/AmazonEC2ContainerRegistryPullOnly",
    f"{_MANAGED}/AmazonSSMManagedInstanceCore",
)
