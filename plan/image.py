"""The slurmd image: built and pushed to ECR, or a digest that somebody else built."""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Iterator, Mapping
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
_CONTEXT_FOLDER: Final = pathlib.Path(__file__).parent.parent / CONTEXT
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


def image_tag(settings: Settings) -> str:
    """`image.tag`, then a digest of what is built from. ECR refuses to move a tag, so that no node runs another image
    than its neighbour under one name; a changed file or base therefore needs a tag of its own, or the push fails."""
    digest = hashlib.sha256(json.dumps(build_args(settings), sort_keys=True).encode())
    for path in sorted(_built_from()):
        digest.update(f"\0{path.relative_to(_CONTEXT_FOLDER).as_posix()}\0".encode())
        digest.update(path.read_bytes())
    return f"{settings.image.tag}-{digest.hexdigest()[:8]}"


def _built_from() -> Iterator[pathlib.Path]:
    """The Dockerfile and what .dockerignore lets through (it ignores all but the names after `!`)."""
    yield _CONTEXT_FOLDER / "Dockerfile"
    for line in (_CONTEXT_FOLDER / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            path = _CONTEXT_FOLDER / line[1:]
            yield from (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else (path,)


def plan_image(settings: Settings) -> ImagePlan:
    return ImagePlan(
        prebuilt=settings.image.prebuilt,
        repository_name=f"{settings.name}-slurmd",
        tag=image_tag(settings),
        context=CONTEXT,
        platform=PLATFORM,
        build_args=build_args(settings),
        lifecycle_policy=lifecycle_policy(),
        tags=tags(settings, component="SlurmdImage"),
    )
