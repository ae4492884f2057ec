"""Rules of tags, access, image, charts, database and storage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Final

from facts.versions import (
    ALL_CHARTS,
    DCGM_EXPORTER,
    KUBE_PROMETHEUS_STACK,
    SLURM,
    SLURM_PATCH,
    SLURM_SERIES,
)
from settings.models import GPU_NODES_FOR_LARGE, Settings
from settings.problems import Problem, listed, shown
from settings.rules_network import is_private

# Nobody's own range is wider; two /1 are the whole world in two halves.
WIDEST_ACCESS_PREFIX: Final = 8
MOST_API_CIDRS: Final = 40  # EKS service quotas, "Public endpoint access CIDR ranges per cluster"
MOST_LOGIN_CIDRS: Final = 60  # VPC quotas, "Inbound or outbound rules per security group"
# Tagging: 50 per resource, of which the product sets these (plan/tags.py) and a name.
MOST_TAGS: Final = 40
OWN_TAG_KEYS: Final = ("project", "cluster", "component", "managed-by")
# The next smaller classes have 4 GiB at most, and slurmdbd asks for a buffer pool of 4 GiB.
SMALL_DATABASE_SIZES: Final = ("micro", "small", "medium")


def tags_are_allowed(settings: Settings) -> Iterator[Problem]:
    if len(settings.tags) > MOST_TAGS:
        why = "AWS takes 50 tags per resource, and some are set by the product and by AWS"
        yield Problem(path="tags", given=f"{len(settings.tags)} tags", why=why, remedy=f"give {MOST_TAGS} or fewer")
    for key, value in settings.tags.items():
        path = f"tags.{key}"
        if key.startswith("kubernetes.io/cluster/"):
            why = "the load balancer controller stops when a second security group of a node has this tag"
            remedy = "leave it out"
        elif key.lower().startswith("aws:"):
            why, remedy = "keys that begin with aws: are AWS's own", "use another key"
        elif key in OWN_TAG_KEYS:
            why, remedy = "the product sets this key itself", f"use a key other than {listed(OWN_TAG_KEYS)}"
        elif not re.fullmatch(r"[\w\s+=.:/@-]{1,128}", key) or not re.fullmatch(r"[\w\s+=.:/@-]{0,256}", value):
            why = "a key has 1 to 128 and a value at most 256 letters, digits, spaces and + - = . _ : / @"
            remedy = "change the key or the value"
        else:
            continue
        yield Problem(path=path, given=shown(value, path), why=why, remedy=remedy)


def _access(path: str, cidrs: tuple[str, ...], most: int, what: str) -> Iterator[Problem]:
    for index, cidr in enumerate(cidrs):
        if IPv4Network(cidr).prefixlen < WIDEST_ACCESS_PREFIX:
            yield Problem(
                path=f"{path}[{index}]",
                given=shown(cidr, ""),
                why=f"it opens {what} to the whole world, or to most of it",
                remedy="give the addresses of your users, such as 203.0.113.7/32",
            )
    for cidr in sorted({cidr for cidr in cidrs if cidrs.count(cidr) > 1}):
        why, remedy = "it stands there twice, and AWS refuses the second rule", "keep it once"
        yield Problem(path=path, given=shown(cidr, ""), why=why, remedy=remedy)
    if len(cidrs) > most:
        why = f"AWS takes {most} ranges here"
        yield Problem(path=path, given=f"{len(cidrs)} ranges", why=why, remedy="combine neighbouring ranges")


def login_is_not_for_everybody(settings: Settings) -> Iterator[Problem]:
    path = "login.allowed_cidrs"
    yield from _access(path, settings.login.allowed_cidrs, MOST_LOGIN_CIDRS, "SSH")
    for index, cidr in enumerate(settings.login.allowed_cidrs):
        if is_private(cidr) and settings.cluster.api_allowed_cidrs is not None:
            yield Problem(
                path=f"{path}[{index}]",
                given=shown(cidr, ""),
                why="the load balancer faces the internet, and no packet from there has a private source address",
                remedy="give the public address that your users come from",
                fatal=False,
            )


def api_is_not_for_everybody(settings: Settings) -> Iterator[Problem]:
    given = settings.cluster.api_allowed_cidrs
    path = "login.allowed_cidrs" if given is None else "cluster.api_allowed_cidrs"
    cidrs = settings.login.allowed_cidrs if given is None else given
    if given is not None:
        yield from _access(path, given, MOST_API_CIDRS, "the Kubernetes API")
    elif len(cidrs) > MOST_API_CIDRS:
        yield Problem(
            path="cluster.api_allowed_cidrs",
            given=f"nothing, so the {len(cidrs)} ranges of login.allowed_cidrs",
            why=f"EKS takes {MOST_API_CIDRS} ranges for its public endpoint",
            remedy="name the ranges that need the Kubernetes API",
        )
    for index, cidr in enumerate(cidrs):
        if is_private(cidr):
            yield Problem(
                path=f"{path}[{index}]",
                given=shown(cidr, ""),
                why="EKS refuses private ranges for its public endpoint (inside the VPC the private endpoint serves)",
                remedy="give public addresses" + (", or set cluster.api_allowed_cidrs" if given is None else ""),
            )


def admin_roles_are_distinct(settings: Settings) -> Iterator[Problem]:
    arns = settings.cluster.admin_role_arns
    for arn in sorted({arn for arn in arns if arns.count(arn) > 1}):
        yield Problem(
            path="cluster.admin_role_arns",
            given=shown(arn, ""),
            why="it stands there twice, and EKS has one access entry per role",
            remedy="keep it once",
        )


def _series(version: str) -> str:
    return ".".join(version.split(".")[:2])


def image_belongs_to_the_chart(settings: Settings) -> Iterator[Problem]:
    image, chart = settings.image, f"chart {SLURM.version} (Slurm {SLURM_SERIES})"
    if image.prebuilt is None:
        found = re.match(r"\d{2}\.\d{2}(?:\.\d+)?", image.tag)
        if found is None or _series(found[0]) != SLURM_SERIES:
            what = f"slurmd image {found[0]}" if found else "a tag that does not begin with its Slurm version"
            yield Problem(
                path="image.tag",
                given=shown(image.tag, ""),
                why=f"{what} does not belong to {chart}: workers end in ImagePullBackOff or cannot register",
                remedy=f"begin the tag with {SLURM_PATCH}",
            )
        if image.slurm_version is not None:
            yield Problem(
                path="image.slurm_version",
                given=f"{shown(image.slurm_version, '')} without image.prebuilt",
                why=f"the image that is built holds Slurm {SLURM_PATCH}",
                remedy="leave it out, or give image.prebuilt",
            )
        return
    if image.slurm_version is None:
        yield Problem(
            path="image.slurm_version",
            given="nothing beside image.prebuilt",
            why=f"a digest does not tell whether the Slurm inside belongs to {chart}",
            remedy=f'give the version inside, such as "{SLURM_PATCH}"',
        )
    elif _series(image.slurm_version) != SLURM_SERIES:
        yield Problem(
            path="image.slurm_version",
            given=shown(image.slurm_version, ""),
            why=f"slurmd image {image.slurm_version} does not belong to {chart}",
            remedy=f"use an image with Slurm {SLURM_SERIES}",
        )
    for key in ("tag", "base_digest", "dlc_digest"):
        if key in image.model_fields_set:
            yield Problem(
                path=f"image.{key}",
                given=f"{shown(getattr(image, key), key)} beside image.prebuilt",
                why="it is for an image that is built, and with prebuilt none is",
                remedy="leave out one of the two",
            )


def prebuilt_image_is_a_digest(settings: Settings) -> Iterator[Problem]:
    given, path = settings.image.prebuilt, "image.prebuilt"
    if given is None:
        return
    found = re.fullmatch(r"(?P<repository>[\w.:-]+(?:/[\w.-]+)*?)(?P<tag>:[\w.-]+)?@sha256:[0-9a-f]{64}", given)
    if found is None:
        yield Problem(
            path=path,
            given=shown(given, path),
            why="only a digest always means the same image; under a tag two nodes can run different ones",
            remedy="write <repository>@sha256:<64 hex digits> (docker buildx imagetools inspect shows the digest)",
        )
    elif found["tag"] and "/" in given:
        yield Problem(
            path=path,
            given=shown(given, path),
            why="beside a digest the tag says nothing",
            remedy=f"leave out {found['tag']}, and put the Slurm version into image.slurm_version",
        )
    registry = re.match(r"\d{12}\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/", given)
    if registry and registry["region"] != settings.region:
        yield Problem(
            path=path,
            given=f"a repository in {registry['region']}",
            why=f"every node pulls 15 GB from there to {settings.region}, slowly and for the price of that transfer",
            remedy=f"replicate the image to {settings.region}",
            fatal=False,
        )


def charts_have_one_source(settings: Settings) -> Iterator[Problem]:
    if settings.charts.mirror is not None and settings.charts.folder is not None:
        yield Problem(
            path="charts",
            given="mirror and folder",
            why="a chart can come from one of them only",
            remedy="leave out one of the two",
        )


def chart_archives(settings: Settings, root: Path) -> Iterator[Problem]:
    """Not among the rules, because it looks at the disk. root: what a relative folder is relative to."""
    folder = settings.charts.folder
    if folder is None:
        return
    path, place = "charts.folder", root / folder
    if not place.is_dir():
        why = "there is no such folder"
        yield Problem(
            path=path, given=shown(folder, path), why=why, remedy="make it with the archives of all charts in it"
        )
        return
    skipped = () if settings.observability.enabled else (KUBE_PROMETHEUS_STACK, DCGM_EXPORTER)
    needed = [f"{chart.name}-{chart.version}.tgz" for chart in ALL_CHARTS if chart not in skipped]
    missing = [archive for archive in needed if not (place / archive).is_file()]
    if missing:
        yield Problem(
            path=path,
            given=shown(folder, path),
            why=f"it lacks {listed(missing)}",
            remedy="put them there (helm pull <chart> --version <version>)",
        )


def database_is_large_enough(settings: Settings) -> Iterator[Problem]:
    given = settings.accounting.instance_class
    if settings.accounting.enabled and given.rpartition(".")[2] in SMALL_DATABASE_SIZES:
        yield Problem(
            path="accounting.instance_class",
            given=shown(given, ""),
            why="slurmdbd asks for a buffer pool of 4 GiB, and this class has no more than that in all",
            remedy="use db.m7g.large or larger",
        )


def storage_keeps_up(settings: Settings) -> Iterator[Problem]:
    nodes = sum(nodeset.nodes for nodeset in settings.nodesets.values())
    if settings.storage.throughput == "bursting" and nodes >= GPU_NODES_FOR_LARGE:
        yield Problem(
            path="storage.throughput",
            given=f"'bursting' for {nodes} GPU nodes",
            why="its throughput follows what is stored, and an almost empty file system has little for so many nodes",
            remedy="use elastic",
            fatal=False,
        )


PLATFORM_RULES: Final = (
    tags_are_allowed,
    login_is_not_for_everybody,
    api_is_not_for_everybody,
    admin_roles_are_distinct,
    image_belongs_to_the_chart,
    prebuilt_image_is_a_digest,
    charts_have_one_source,
    database_is_large_enough,
    storage_keeps_up,
)
