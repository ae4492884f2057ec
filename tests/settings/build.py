"""Small stacks for tests: a good one, and what a change to it is told."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

from settings.load import parse
from settings.models import Settings
from settings.problems import SettingsError

ROOT = Path(__file__).resolve().parents[2]
Changes = Mapping[str, Any]

GOOD: Changes = {
    "region": "us-west-2",
    "name": "slurm-test",
    "nodesets": {"slinky": {"instance_type": "g6.12xlarge", "nodes": 2}},
    "login": {"allowed_cidrs": ["203.0.113.7/32"]},
}


OWN_NETWORK: Changes = {
    "vpc_id": "vpc-01234567",
    "private_subnet_ids": {"usw2-az1": "subnet-01234567", "usw2-az2": "subnet-11234567"},
    "public_subnet_ids": {"usw2-az1": "subnet-21234567"},
}


def public_key(kind: str = "ssh-ed25519", comment: str = "user@example") -> str:
    """A well-formed public key that nobody has the other half of."""
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind.encode(), b"k" * 32))
    return f"{kind} {base64.b64encode(blob).decode()} {comment}"


def changed(changes: Changes) -> dict[str, Any]:
    """The good stack with the changes laid over it; a value of `...` takes its key out."""
    return _laid(deepcopy(dict(GOOD)), changes)


def _laid(base: dict[str, Any], changes: Changes) -> dict[str, Any]:
    for key, value in changes.items():
        if value is ...:
            base.pop(key)
        elif isinstance(value, Mapping) and isinstance(base.get(key), dict):
            base[key] = _laid(base[key], cast("Changes", value))
        else:
            base[key] = value
    return base


def settings(changes: Changes) -> Settings:
    return parse(changed(changes))


def told(changes: Changes, *, root: Path = ROOT) -> list[str]:
    """Every problem of the changed stack as its user reads it; [] when it is good."""
    return told_of(changed(changes), root=root)


def told_of(stack: Changes, *, root: Path = ROOT) -> list[str]:
    try:
        parse(stack, root=root)
    except SettingsError as error:
        return [str(problem) for problem in error.problems]
    return []


def unchecked(changes: Changes) -> Settings:
    """The changed stack as the models take it, before any rule has looked at it."""
    return Settings.model_validate_json(json.dumps(changed(changes)))
