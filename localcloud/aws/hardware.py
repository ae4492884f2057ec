"""What an instance type is, asked of moto's copy of the EC2 API's own answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES


def efa_problem(type_name: str, interfaces: Sequence[Mapping[str, Any]]) -> str | None:
    """Why an instance of this type cannot have these launch template interfaces, whichever way members are spelled."""
    facts: Mapping[str, Any] | None = INSTANCE_TYPES.get(type_name)
    if facts is None:
        return f"EC2 has no instance type {type_name}"
    flat = [{k[0].lower() + k[1:]: v for k, v in i.items()} for i in interfaces]
    efa = [i for i in flat if str(i.get("interfaceType", "")).startswith("efa")]
    most = facts["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    if len(efa) > most:
        return f"{len(efa)} EFA interfaces asked for, and {type_name} has {most}"
    cards = len(facts["NetworkInfo"]["NetworkCards"])
    if high := [i["networkCardIndex"] for i in flat if int(i.get("networkCardIndex") or 0) >= cards]:
        return f"network card {high[0]} asked for, and {type_name} has {cards} (counted from 0)"
    return None
