"""Container images that charts must be told about, because their own default floats or lives in another region.

Sources, 2026-12: registry accounts from awslabs/amazon-eks-ami, nodeadm/internal/aws/ecr/ecr.go (the table that the
nodes themselves use; commercial regions only). The helper image is the one that the slurm chart 1.2.1 uses as
`alpine:latest`; tag and digest are those of the multi-platform index as public Dockerfiles pin it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

EKS_REGISTRY_ACCOUNT: Final = "602401143452"
EKS_REGISTRY_ACCOUNT_OF_REGION: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Regions that must be opted in to have an account of their own; all others share the one above.
        "af-south-1": "877085696533",
        "ap-east-1": "800184023465",
        "ap-south-2": "900889452093",
        "ap-southeast-3": "296578399912",
        "ap-southeast-4": "491585149902",
        "ap-southeast-5": "151610086707",
        "ca-west-1": "761377655185",
        "eu-central-2": "900612956339",
        "eu-south-1": "590381155156",
        "eu-south-2": "455263428931",
        "il-central-1": "066635153087",
        "me-central-1": "759879836304",
        "me-south-1": "558608220178",
    }
)

HELPER_REPOSITORY: Final = "docker.io/library/alpine"
HELPER_TAG: Final = "3.23.5"
HELPER_DIGEST: Final = "sha256:fd791d74b68913cbb027c6546007b3f0d3bc45125f797758156952bc2d6daf40"
