"""Texts and numbers with a shape: what one value alone must look like, and how it is said when it does not.

Owns checks that need nothing but the value itself. What needs a second setting or a table of AWS stands in
`settings/rules.py`. A check raises `PydanticCustomError` with why and remedy, from which `settings/load.py` makes a
`Problem`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from ipaddress import IPv4Network
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from facts.versions import KUBERNETES_VERSION
from settings.problems import listed

# EKS versions whose accelerated AMI is AL2023's only (amazon-eks-ami changelog, 2026-07). AL2 ended with 1.32, and
# what is older than 1.33 runs on kernel 6.1.
KUBERNETES_VERSIONS: Final = ("1.33", "1.34", "1.35", "1.36")
# PutRetentionPolicy takes only these (CloudWatch Logs API reference).
LOG_RETENTION_DAYS: Final = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
_CRON_RANGES: Final = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("day of the week", 0, 6),
)
PUBLIC_KEY_TYPES: Final = (
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)


def refusal(why: str, remedy: str) -> PydanticCustomError:
    """The error of a value that has the right type and the wrong shape."""
    return PydanticCustomError("shape", "{why}; {remedy}", {"why": why, "remedy": remedy})


def _like(pattern: str, why: str, remedy: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if compiled.fullmatch(value) is None:
            raise refusal(why, remedy)
        return value

    return AfterValidator(check)


def _one_of(known: tuple[int, ...], why: str) -> Callable[[int], int]:
    def check(value: int) -> int:
        if value not in known:
            near = next((days for days in known if days > value), known[-1])
            raise refusal(why, f"use {near}")
        return value

    return check


def _cidr(value: str) -> str:
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}/\d{1,2}", value):
        what = "IPv6 is not supported, " if ":" in value else ""
        raise refusal(f"{what}it must be an IPv4 range", "write it like 203.0.113.7/32")
    try:
        loose = IPv4Network(value, strict=False)
    except ValueError:
        raise refusal("no address or prefix has such numbers", "write it like 203.0.113.7/32") from None
    address = value.partition("/")[0]
    if str(loose) != value:
        raise refusal(
            "it has bits set behind the prefix", f"write {loose} for the range or {address}/32 for the address"
        )
    return value


def _cron(value: str) -> str:
    """The five fields as Kubernetes' parser takes them (robfig/cron v3, ParseStandard): Sunday is 0 and never 7."""
    remedy = 'write it like "0 * * * *" (every hour) or "30 2 * * 0" (Sundays at 2:30 UTC)'
    fields = value.split(" ")
    if len(fields) != len(_CRON_RANGES):
        raise refusal("a schedule has five fields: minute, hour, day, month and day of the week", remedy)
    for field, (name, low, high) in zip(fields, _CRON_RANGES, strict=True):
        for part in field.split(","):
            match = re.fullmatch(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/([1-9]\d?))?", part)
            if match is None:
                raise refusal(f"{part!r} is no {name}", remedy)
            first, last = int(match[1] or low), int(match[2] or match[1] or high)
            if not low <= first <= last <= high:
                raise refusal(f"its {name} goes from {low} to {high}", remedy)
    return value


def _kubernetes_version(value: str) -> str:
    if value not in KUBERNETES_VERSIONS:
        why = "this release runs on versions with an AL2023 NVIDIA AMI and charts that were tried on them"
        raise refusal(why, f'use "{KUBERNETES_VERSION}" or one of {listed(KUBERNETES_VERSIONS)}')
    return value


def _wire_fields(body: str) -> list[bytes]:
    """The length-prefixed fields of an OpenSSH key (RFC 4253, section 6.6); [] when they do not fill it exactly."""
    try:
        blob = base64.b64decode(body, validate=True)
    except binascii.Error:
        return []
    fields: list[bytes] = []
    while blob:
        length = int.from_bytes(blob[:4], "big")
        field, rest = blob[4 : 4 + length], blob[4 + length :]
        if len(field) < length or len(blob) < 4:
            return []
        fields.append(field)
        blob = rest
    return fields


def _public_key(value: str) -> str:
    if "PRIVATE KEY" in value:
        why = "that is a private key, and whoever can read this file can now use it"
        raise refusal(why, "replace the key pair, and put the line of its .pub file here")
    kind, _, rest = value.partition(" ")
    body = rest.partition(" ")[0]
    remedy = "put in the one line of a .pub file, without options before it"
    if "\n" in value.strip():
        raise refusal("it must be one line per list item", remedy)
    if kind not in PUBLIC_KEY_TYPES:
        raise refusal(f"an OpenSSH public key begins with its type ({listed(PUBLIC_KEY_TYPES, 'or')})", remedy)
    fields = _wire_fields(body)
    if len(fields) < 2 or fields[0] != kind.encode():
        raise refusal(f"what follows {kind} is not such a key (cut off or wrapped when copied?)", remedy)
    return value


def _role_arn(value: str) -> str:
    remedy = "give the role's own ARN, like arn:aws:iam::123456789012:role/platform-admin"
    if ":assumed-role/" in value:
        raise refusal("that is a session of a role, which EKS does not know", remedy)
    if re.fullmatch(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,576}", value) is None:
        raise refusal("an access entry needs the ARN of an IAM role", remedy)
    return value


def _placement_group(value: str) -> str:
    remedy = "use auto, none or the name of a group that exists"
    if value.lower() in ("auto", "none") and value not in ("auto", "none"):
        raise refusal("the words are written in lower case", f"write {value.lower()}")
    if value in ("cluster", "partition", "spread"):
        raise refusal("that is a strategy, not the name of a group", "use auto for a cluster group of our own")
    if not value.isascii() or not value.isprintable() or value.strip() != value or not 1 <= len(value) <= 255:
        raise refusal("no placement group can have that name", remedy)
    return value


Name: TypeAlias = Annotated[
    str,
    _like(
        r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?",
        "it becomes a part of DNS, AWS and Slurm names",
        "use 1 to 32 lower-case letters, digits and hyphens, with a letter first and no hyphen last",
    ),
]
ZoneId: TypeAlias = Annotated[
    str,
    _like(
        r"[a-z]{2,5}\d+-az\d+",
        "zones are named by their id, because the letter of a zone means another zone in every account",
        "write it like usw2-az1 (aws ec2 describe-availability-zones lists the ids)",
    ),
]
Cidr: TypeAlias = Annotated[str, AfterValidator(_cidr)]
VpcId: TypeAlias = Annotated[
    str, _like(r"vpc-[0-9a-f]{8,17}", "that is no VPC id", "write it like vpc-0123456789abcdef0")
]
SubnetId: TypeAlias = Annotated[
    str, _like(r"subnet-[0-9a-f]{8,17}", "that is no subnet id", "write it like subnet-0123456789abcdef0")
]
ReservationId: TypeAlias = Annotated[
    str,
    _like(r"cr-[0-9a-f]{8,17}", "that is no capacity reservation id", "write it like cr-0123456789abcdef0"),
]
Digest: TypeAlias = Annotated[
    str,
    _like(r"sha256:[0-9a-f]{64}", "only a digest always means the same image", "write sha256: and 64 hex digits"),
]
SlurmVersion: TypeAlias = Annotated[
    str, _like(r"\d{2}\.\d{2}(\.\d+)?", "that is no Slurm version", 'write it like "26.05.2"')
]
ImageTag: TypeAlias = Annotated[
    str,
    _like(r"\w[\w.-]{0,127}", "no registry takes such a tag", "use letters, digits, dots, hyphens and _, 128 at most"),
]
MaxTime: TypeAlias = Annotated[
    str,
    _like(
        r"UNLIMITED|(\d+-)?\d+(:\d{2}){0,2}",
        "Slurm does not read it as a time",
        "write it like 24:00:00 (hours), 7-00:00:00 (days), 90 in quotes (minutes) or UNLIMITED",
    ),
]
DatabaseClass: TypeAlias = Annotated[
    str, _like(r"db\.[a-z0-9-]+\.[a-z0-9]+", "that is no RDS instance class", "write it like db.m7g.large")
]
OciPrefix: TypeAlias = Annotated[
    str,
    _like(
        r"oci://[^/\s]+(/[^/\s]+)*",
        "a mirror is an OCI registry with the prefix that all charts have in it",
        "write it like oci://registry.example/charts, without a slash at the end",
    ),
]
FolderPath: TypeAlias = Annotated[
    str,
    _like(
        r"(?!.*://)[^\x00-\x1f]{1,200}",
        "that is no path of a folder",
        "write it like charts or /srv/charts (an OCI registry goes in charts.mirror)",
    ),
]
KubernetesVersion: TypeAlias = Annotated[str, AfterValidator(_kubernetes_version)]
LogRetentionDays: TypeAlias = Annotated[
    int, AfterValidator(_one_of(LOG_RETENTION_DAYS, "CloudWatch Logs keeps logs only for certain numbers of days"))
]
CronSchedule: TypeAlias = Annotated[str, AfterValidator(_cron)]
PublicKey: TypeAlias = Annotated[str, AfterValidator(_public_key)]
RoleArn: TypeAlias = Annotated[str, AfterValidator(_role_arn)]
PlacementGroup: TypeAlias = Annotated[str, AfterValidator(_placement_group)]
