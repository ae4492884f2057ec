"""Pulumi properties to botocore members and back, by name: `subnetIds` is `SubnetIds`, `Subnets` or `subnetIds`.

Both sides describe themselves (botocore's shapes, the SDK's type hints), so a new resource type needs only the names
that really differ. A nested property that the shape does not have is an error, never dropped.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
import typing
from collections.abc import Mapping

from pulumi import _types as sdk_types

from localcloud import sdk
from localcloud.provider import Properties, ProviderError, Value, join_path

Shape: typing.TypeAlias = typing.Any  # botocore's models carry no types
Names = Mapping[str, str]  # property path without indexes -> botocore member, where the names really differ


def bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@functools.cache
def member_of(shape: Shape, name: str) -> str | None:
    """The shape's member for a property: same letters, else the same word in singular or plural."""
    for same in (bare, lambda n: bare(n).rstrip("s")):
        for member in shape.members:
            if same(member) == same(name):
                return member
    return None


def tag_members(shape: Shape) -> tuple[str, str] | None:
    """The names of key and value, when `shape` is an AWS tag."""
    members = sorted(shape.members) if shape.type_name == "structure" else []
    return (
        (members[0], members[1]) if [bare(m) for m in members] in (["key", "value"], ["tagkey", "tagvalue"]) else None
    )


def to_aws(value: Value, shape: Shape, names: Names, path: str = "", *, strict: bool = True) -> object:
    """`value` as botocore wants it; `strict` refuses nested properties that the shape does not have."""
    if shape.type_name == "structure":
        if isinstance(value, list):
            value = value[0] if value else {}
        if not isinstance(value, dict):  # e.g. EC2's attribute values: {"Value": true}
            only = next(iter(shape.members))
            return {only: to_aws(value, shape.members[only], names, path)}
        result: dict[str, object] = {}
        for key, item in value.items():
            inner = join_path(path, key)
            member = member_of(shape, names.get(inner, key))
            if member is not None and item is not None:
                result[member] = to_aws(item, shape.members[member], names, inner, strict=strict)
            elif item is not None and strict:
                raise ProviderError(f"{inner}: the local cloud cannot set it ({shape.name} has no such member)")
        return result
    if shape.type_name == "list":
        if isinstance(value, dict) and (tag := tag_members(shape.member)):
            return [{tag[0]: k, tag[1]: v} for k, v in value.items()]
        items = value if isinstance(value, list) else [value]
        return [to_aws(i, shape.member, names, path, strict=strict) for i in items]
    if shape.type_name == "map":
        assert isinstance(value, dict)
        return {k: to_aws(v, shape.value, names, path) for k, v in value.items()}
    if shape.type_name == "boolean":
        return value if isinstance(value, bool) else str(value).lower() == "true"
    if shape.type_name in ("integer", "long"):
        return int(typing.cast(str, value))
    if shape.type_name == "string":
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def from_aws(live: object, hint: object, names: Names, path: str = "") -> Value:
    """What AWS answered, in the form that the SDK's output type `hint` has."""
    for kind in sdk.alternatives(hint):
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin and issubclass(origin, Mapping):
            return live_map(live)
        if origin and live is not None:
            items = live if isinstance(live, list) else [live]
            return [from_aws(i, inner[0], names, path) for i in typing.cast(list[object], items)]
        if isinstance(kind, type) and sdk_types.is_output_type(kind):
            first = (live[0] if live else None) if isinstance(live, list) else live
            return outputs(first, sdk_types.output_type_types(kind), names, path) if isinstance(first, dict) else None
        if isinstance(live, dict) and kind is str:
            return json.dumps(live)
        if isinstance(live, datetime.datetime):
            return live.isoformat()
        if isinstance(live, bool):
            return str(live).lower() if kind is str else live
        convert = {str: str, int: int}.get(typing.cast(type, kind))
        return typing.cast(Value, convert(typing.cast(str, live)) if convert and live is not None else live)
    return None


def outputs(live: Mapping[str, object], hints: Mapping[str, object], names: Names, path: str = "") -> Properties:
    """Every property of `hints` that `live` has something for."""
    found: Properties = {}
    by_letters = {bare(k): v for k, v in live.items()} | {bare(k).rstrip("s"): v for k, v in live.items()}
    for key, hint in hints.items():
        wanted = bare(names.get(join_path(path, key), key))
        value = by_letters.get(wanted, by_letters.get(wanted.rstrip("s")))
        converted = from_aws(value, hint, names, join_path(path, key)) if value is not None else None
        if converted is not None:
            found[key] = converted
    return found


def live_map(live: object) -> Properties:
    """A map, or a list of tags, as a map; what AWS itself tags with `aws:` is not ours."""
    if isinstance(live, list):
        pairs = [{bare(k): v for k, v in t.items()} for t in typing.cast(list[dict[str, Value]], live)]
        live = {str(p.get("key", p.get("tagkey"))): p.get("value", p.get("tagvalue")) for p in pairs}
    return {k: v for k, v in typing.cast(Properties, live or {}).items() if not k.startswith("aws:")}


def drifted(old: Value, live: Value) -> Value:
    """`old` as it stands in the cloud: the old value wherever the two mean the same, the live one where not."""
    if live is None or old == live:
        return old
    if isinstance(old, dict) and isinstance(live, dict):
        return {k: drifted(v, live.get(k)) for k, v in old.items()}
    if isinstance(old, list) and isinstance(live, list) and len(old) == len(live):
        if sorted(map(str, old)) == sorted(map(str, live)):
            return old
        return [drifted(o, n) for o, n in zip(old, live, strict=True)]
    if isinstance(old, str) and isinstance(live, str):
        try:
            return old if json.loads(old) == json.loads(live) else live
        except ValueError:
            return live
    return live


def overlaid(live: Value, known: Value) -> Value:
    """`known`, completed by what only `live` has, such as what AWS adds inside a block."""
    if isinstance(live, dict) and isinstance(known, dict):
        return {**live, **{k: overlaid(live.get(k), v) for k, v in known.items()}}
    if isinstance(live, list) and isinstance(known, list) and len(live) == len(known):
        return [overlaid(o, k) if isinstance(k, dict) else k for o, k in zip(live, known, strict=True)]
    return known
