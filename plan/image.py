"""The slurmd image: built and pushed to ECR, or a digest that somebody else built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import versions
from plan.tags import tags
from settings.models import Settings

CONTEXT: Final = "images/slurmd"
PLATFORM: Final = "linux/amd64"  # every GPU type here is x86_64; a build on an arm laptop must not decide otherwise
# PyTorch 2.9, Python 3.12, CUDA 13.0, NCCL, EFA user space and the OFI plugin; the public gallery needs no login.
# Source: the deep-learning-containers list of available images, tag as public Dockerfiles of 2026 name it.
DLC_IMAGE: Final = "public.ecr.aws/deep-learning-containers/pytorch-training:2.9.0-gpu-py312-cu130-ubuntu22.04-ec2"
UNTAGGED_IMAGE_DAYS: Final = 14
KEPT_IMAGES: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ImagePlan:
    """prebuilt `<repository>@sha256:...` excludes the rest. build_args: of the Dockerfile. lifecycle_policy: ECR
    JSON."""

    prebuilt: str | None
    repository_name: str
    tag: str
    context: str
    platform: str
    build_args: Mapping[str, str]
    lifecycle_policy: str
    tags: Mapping[str, str]


def lifecycle_policy() -> str:
    """Old builds go; tags are immutable, so nodes that run are always among the newest that are kept."""

    def rule(priority: int, description: str, selection: dict[str, str | int]) -> dict[str, object]:
        return {
            "rulePriority": priority,
            "description": description,
            "selection": selection,
            "action": {"type": "expire"},
        }

    untagged = {
        "tagStatus": "untagged",
        "countType": "sinceImagePushed",
        "countUnit": "days",
        "countNumber": UNTAGGED_IMAGE_DAYS,
    }
    newest = {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": KEPT_IMAGES}
    rules = [
        rule(1, f"untagged images after {UNTAGGED_IMAGE_DAYS} days", untagged),
        rule(2, f"all but the newest {KEPT_IMAGES} images", newest),
    ]
    return json.dumps({"rules": rules}, sort_keys=True)


def build_args(settings: Settings) -> dict[str, str]:
    """The two bases, by digest when given (a tag can move between two builds), and the Slurm that the build must
    find."""

    def pinned(image: str, digest: str | None) -> str:
        return image if digest is None else f"{image}@{digest}"

    slurmd = f"{versions.SLINKY_IMAGES}/slurmd:{versions.SLINKY_IMAGE_TAG}"
    return {
        "SLURMD_IMAGE": pinned(slurmd, settings.image.base_digest),
        "DLC_IMAGE": pinned(DLC_IMAGE, settings.image.dlc_digest),
        "SLURM_SERIES": versions.SLURM_SERIES,
    }


def plan_image(settings: Settings) -> ImagePlan:
    return ImagePlan(
        prebuilt=settings.image.prebuilt,
        repository_name=f"{settings.name}-slurmd",
        tag=settings.image.tag,
        context=CONTEXT,
        platform=PLATFORM,
        build_args=build_args(settings),
        lifecycle_policy=lifecycle_policy(),
        tags=tags(settings, component="SlurmdImage"),
    )
