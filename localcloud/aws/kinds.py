"""How one row of the table becomes create, read, update and delete: generic over types, by boto3's own models.

A property that no update operation takes forces a replacement; that is what AWS's API means, so no list is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import jmespath
import yaml
from botocore.exceptions import ClientError, ParamValidationError

from localcloud import sdk
from localcloud.aws import hooks
from localcloud.aws.convert import Names, Shape, drifted, from_aws, live_map, member_of, outputs, overlaid, to_aws
from localcloud.cloud import ACCOUNT, Cloud
from localcloud.provider import UNKNOWN, Failure, Properties, ProviderError, Value

Live = dict[str, Any]  # a piece of a boto3 answer, whose types only botocore's model knows
Templates = Mapping[str, object]


class AwsError(ProviderError):
    """AWS refused; `code` is its error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.is_absence = bool(re.search(r"NotFound|NoSuch|\.Unknown$", code))


@dataclass(frozen=True)
class Aws:
    """Calls in one region."""

    cloud: Cloud
    region: str
    default_tags: Properties

    def call(self, service: str, operation: str, members: Mapping[str, object]) -> Live:
        try:
            return getattr(self.cloud.client(service, self.region), operation)(**members)
        except ClientError as error:
            raise AwsError(error.response["Error"]["Code"], error.response["Error"]["Message"]) from error
        except ParamValidationError as error:
            raise ProviderError(str(error)) from error

    def shape(self, service: str, operation: str) -> Shape:
        meta = self.cloud.client(service, self.region).meta
        return meta.service_model.operation_model(meta.method_to_api_mapping[operation]).input_shape


@dataclass(frozen=True)
class Update:
    """An operation that changes properties of what exists; `each`: it takes one of them per call."""

    operation: str
    properties: str
    each: bool = False
    names: Names = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Tagging:
    """A service's operations on tags of what exists; `listing` where reading does not return them."""

    add: str
    remove: str
    key: Templates
    listing: str = ""
    gone: str = "TagKeys"  # the member of `remove` that takes the keys


_BY_ARN = {"resourceArn": "{arn}"}
_TAGGING = {
    "ec2": Tagging("create_tags", "delete_tags", {"Resources": ["{id}"]}, gone="Tags"),
    "eks": Tagging("tag_resource", "untag_resource", _BY_ARN, gone="tagKeys"),
    "efs": Tagging("tag_resource", "untag_resource", {"ResourceId": "{id}"}),
    "kms": Tagging("tag_resource", "untag_resource", {"KeyId": "{id}"}, "list_resource_tags"),
    "logs": Tagging("tag_resource", "untag_resource", _BY_ARN, "list_tags_for_resource", "tagKeys"),
    "ecr": Tagging("tag_resource", "untag_resource", _BY_ARN, "list_tags_for_resource", "tagKeys"),
    "rds": Tagging(
        "add_tags_to_resource", "remove_tags_from_resource", {"ResourceName": "{arn}"}, "list_tags_for_resource"
    ),
}

# Values that name something: whatever is referred to must exist. Id prefix or pattern -> the call that finds it.
_ID = r"({}-(?:[0-9a-f]{{8}}|[0-9a-f]{{17}}))"
_REFERENCES = (
    ("vpc", "ec2", "describe_vpcs", "VpcIds"),
    ("subnet", "ec2", "describe_subnets", "SubnetIds"),
    ("sg", "ec2", "describe_security_groups", "GroupIds"),
    ("rtb", "ec2", "describe_route_tables", "RouteTableIds"),
    ("igw", "ec2", "describe_internet_gateways", "InternetGatewayIds"),
    ("nat", "ec2", "describe_nat_gateways", "NatGatewayIds"),
    ("eipalloc", "ec2", "describe_addresses", "AllocationIds"),
    ("lt", "ec2", "describe_launch_templates", "LaunchTemplateIds"),
    ("cr", "ec2", "describe_capacity_reservations", "CapacityReservationIds"),
    ("fs", "efs", "describe_file_systems", "FileSystemId"),
    (r"arn:aws:iam::\d+:role/(?:.*/)?([^/]+)", "iam", "get_role", "RoleName"),
    (r"(arn:aws:iam::\w+:policy/.+)", "iam", "get_policy", "PolicyArn"),
    (r"(arn:aws:kms:.+:key/.+)", "kms", "describe_key", "KeyId"),
)


@dataclass(frozen=True)
class Kind:
    """One row of table.yaml, which explains the fields."""

    token: str
    service: str
    create: str
    read: str
    found: str
    delete: str
    key: Templates
    id: str
    read_key: Templates | None = None
    delete_key: Templates = field(default_factory=dict[str, object])
    updates: Sequence[Update] = ()
    names: Names = field(default_factory=dict[str, str])
    facts: Mapping[str, str] = field(default_factory=dict[str, str])
    also: Sequence[Mapping[str, Any]] = ()
    texts: Mapping[str, str] = field(default_factory=dict[str, str])
    local: str = ""
    autoname: str = ""
    defaults: Properties = field(default_factory=dict[str, Value])
    tagged: str = ""
    tagging: Tagging | None = None
    changes: str = ""
    recomputed: str = ""
    hooks: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def schema(self) -> sdk.Schema:
        schema = sdk.resource(self.token)
        assert schema, self.token
        return schema

    def hook(self, name: str, *arguments: object) -> Any:
        return getattr(hooks, self.hooks[name])(*arguments) if name in self.hooks else None

    def can_change(self, path: str) -> bool:
        """Whether the property path can change in place."""
        if self.changes == "*":
            return path not in (self.autoname, f"{self.autoname}Prefix")
        takes = f"tags {self.local} {self.changes} " + " ".join(u.properties for u in self.updates)
        return any(re.match(rf"{re.escape(p)}(\W|$)", path) for p in takes.split())

    def not_modelled(self, aws: Aws, inputs: Properties) -> Iterable[Failure]:
        """Properties that the SDK has and no operation of the row takes; `prepare` may put them anywhere."""
        shape = aws.shape(self.service, self.create)
        for name in without(inputs, "tags region") if "prepare" not in self.hooks else ():
            if not member_of(shape, self.names.get(name, name)) and not self.can_change(name):
                yield Failure(name, f"{self.token} has it, and the local cloud does not model it")

    def create_one(self, aws: Aws, inputs: Properties) -> tuple[str, Properties]:
        properties = without(inputs, f"{self.local} region")
        tags = {**aws.default_tags, **live_map(inputs.get("tags"))}
        if tags and "tags" in self.schema.inputs:
            properties["tags"] = tags
        members, late = self.members(aws, self.hook("prepare", properties) or properties)
        answer = aws.call(self.service, self.create, members)
        id = str(fill(self.id, inputs) if "{" in self.id else jmespath.search(self.id, answer))
        try:
            self._run_updates(aws, id, inputs, late)
            self.hook("created", self, aws, id, {}, inputs)
            found = self.read_one(aws, id, inputs, inputs)
        except ProviderError:
            self.delete_one(aws, id, inputs)  # a half-made resource would be lost to the engine
            raise
        if found is None:
            raise ProviderError(f"{id} was created but cannot be found")
        return id, found[1]

    def members(self, aws: Aws, properties: Properties) -> tuple[dict[str, object], list[str]]:
        """The members of the create call, and the properties that only an update operation or a hook takes."""
        shape, late = aws.shape(self.service, self.create), list[str]()
        members: dict[str, object] = {}
        for name, value in properties.items():
            member = member_of(shape, self.names.get(name, name))
            if value is None:
                continue
            if name == "tags" and self.tagged:
                specification: Value = [{"resourceType": self.tagged, "tags": value}]
                members["TagSpecifications"] = to_aws(specification, shape.members["TagSpecifications"], {})
            elif member:
                members[member] = to_aws(value, shape.members[member], self.names, name)
            elif name != "tags" and self.can_change(name):
                late.append(name)
            else:
                raise ProviderError(f"{name}: the local cloud cannot set it ({self.create} has no such member)")
        return members, late

    def _run_updates(self, aws: Aws, id: str, inputs: Properties, changed: Sequence[str]) -> None:
        for update in self.updates:
            mine = [p for p in dict.fromkeys(re.split(r"\.\S+|\s+", update.properties)) if p and p in inputs]
            hit = [p for p in mine if p in changed]
            for group in [[p] for p in hit] if update.each else [mine] if hit else []:
                shape, names = aws.shape(self.service, update.operation), {**self.names, **update.names}
                members = self._key(aws, update.operation, id, inputs)
                for name in group:
                    member = member_of(shape, names.get(name, name))
                    assert member, f"{self.token}: {update.operation} has no member for {name}"
                    members[member] = to_aws(inputs[name], shape.members[member], names, name, strict=False)
                aws.call(self.service, update.operation, members)

    def _key(self, aws: Aws, operation: str, id: str, state: Properties) -> dict[str, object]:
        shape = aws.shape(self.service, operation)
        return {k: v for k, v in fill_all(self.key, {**state, "id": id}).items() if k in shape.members}

    def read_one(
        self, aws: Aws, id: str, inputs: Properties, state: Properties
    ) -> tuple[Properties, Properties] | None:
        """The inputs as they stand in the cloud, and the whole state; None when it is gone."""
        scope = {"account": ACCOUNT, "region": aws.region, **self._parts(id), **state, "id": id}
        key = self.key if self.read_key is None else self.read_key
        try:
            answer = aws.call(self.service, self.read, fill_all(key, scope))
            live: Live | None = jmespath.search(str(fill(self.found, scope)), answer)
            if live is None:
                return None
            found = self._outputs(aws, live, {**scope, **live})
        except AwsError as error:
            if error.is_absence:
                return None
            raise
        if not inputs:  # an import: everything that was found and can be asked for
            return {k: v for k, v in found.items() if k in self.schema.inputs}, found
        now = {k: drifted(v, found.get(k)) for k, v in inputs.items()}
        if found.get("tags") or inputs.get("tags"):
            now["tags"] = found.get("tags", {})
        known = {k: overlaid(found.get(k), v) for k, v in without(now).items()}
        return now, {**without(state), **found, **known}

    def _outputs(self, aws: Aws, live: Live, scope: Mapping[str, Any]) -> Properties:
        facts = {name: jmespath.search(path, live) for name, path in self.facts.items()}
        facts |= {name: fill(template, scope) for name, template in self.texts.items()}
        for more in self.also:
            answer = aws.call(self.service, more["operation"], fill_all(more["key"], scope))
            live = {**live, **(jmespath.search(more["all"], answer) if "all" in more else {})}
            facts |= {name: jmespath.search(path, answer) for name, path in more["facts"].items()}
        hints = self.schema.outputs
        found = {**self._parts(str(scope["id"])), **outputs(live, hints, self.names)}
        found |= {k: from_aws(v, hints[k], self.names, k) for k, v in facts.items()}
        if "tags" in self.schema.inputs:
            tagging = self.tagging or _TAGGING[self.service]
            if tagging.listing:
                listed = aws.call(self.service, tagging.listing, fill_all(tagging.key, {**scope, **found}))
                found["tags"] = live_map(next((v for k, v in listed.items() if k.lower() in ("tags", "taglist")), []))
            found["tagsAll"] = live_map(found.get("tags"))
            own = live_map(scope.get("tags"))
            defaults = {k: v for k, v in aws.default_tags.items() if k not in own}
            found["tags"] = {k: v for k, v in found["tagsAll"].items() if defaults.get(k) != v}
        return {k: v for k, v in {**found, "region": aws.region}.items() if v not in (None, [])}

    def _parts(self, id: str) -> Properties:
        """The properties that a composed id names, for reading what no state knows yet."""
        if "{" not in self.id:
            return {}
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(self.id))
        match = re.fullmatch(pattern, id)
        return dict(match.groupdict()) if match else {}

    def update_one(self, aws: Aws, id: str, old: Properties, state: Properties, news: Properties) -> Properties:
        old, news = without(old), without(news)
        changed = [k for k in old.keys() | news.keys() if old.get(k) != news.get(k)]
        self._run_updates(aws, id, news, changed)
        if set(changed) - {"tags"}:
            self.hook("change", self, aws, id, old, news)
        if "tags" in changed:
            self._retag(aws, id, state, live_map(old.get("tags")), live_map(news.get("tags")))
        kept = {k: v for k, v in state.items() if k in news or k not in old}
        found = self.read_one(aws, id, news, {**kept, **news})
        if found is None:
            raise ProviderError(f"{id} is gone")
        return found[1]

    def _retag(self, aws: Aws, id: str, state: Properties, old: Properties, new: Properties) -> None:
        tagging = self.tagging or _TAGGING[self.service]
        key = fill_all(tagging.key, {**state, "id": id})
        if gone := [k for k in old if k not in new]:
            keys: list[object] = [{"Key": k} for k in gone] if tagging.gone == "Tags" else list(gone)
            aws.call(self.service, tagging.remove, {**key, tagging.gone: keys})
        if changed := {k: v for k, v in new.items() if old.get(k) != v}:
            shape = aws.shape(self.service, tagging.add)
            member = member_of(shape, "tags")
            assert member
            aws.call(self.service, tagging.add, {**key, member: to_aws(changed, shape.members[member], {})})

    def delete_one(self, aws: Aws, id: str, state: Properties) -> None:
        shape = aws.shape(self.service, self.delete)
        further = {k: v for k, v in fill_all(self.delete_key, {**state, "id": id}).items() if v != ""}
        members = {k: to_aws(cast("Value", v), shape.members[k], {}) for k, v in further.items()}
        try:
            self.hook("deleting", self, aws, id, state, {})
            aws.call(self.service, self.delete, {**self._key(aws, self.delete, id, state), **members})
        except AwsError as error:
            if not error.is_absence:
                raise


def missing_references(aws: Aws, inputs: Properties) -> Iterable[Failure]:
    """The values in `inputs` that name something which does not exist."""
    for path, value in leaves(inputs):
        for pattern, service, operation, member in _REFERENCES:
            match = re.fullmatch(_ID.format(pattern) if pattern.isalpha() else pattern, value)
            if match and aws.cloud.seen.get((aws.region, value)) != aws.cloud.removals:
                removals = aws.cloud.removals
                try:
                    answer = aws.call(service, operation, {member: [match[1]] if member.endswith("Ids") else match[1]})
                    found = any(v for k, v in answer.items() if k != "ResponseMetadata")
                except AwsError:
                    found = False
                if found:
                    aws.cloud.seen[aws.region, value] = removals
                else:
                    yield Failure(path, f"{value} does not exist")


def leaves(value: Value, path: str = "") -> Iterable[tuple[str, str]]:
    """Every text in `value` with its property path."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in ("tags", "__defaults"):
                yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif isinstance(value, str) and value != UNKNOWN:
        yield path, value


def fill(template: object, scope: Mapping[str, object]) -> object:
    """`template` with its "{property}" parts filled in, at any depth."""
    if isinstance(template, list):
        return [fill(t, scope) for t in template]
    if isinstance(template, dict):
        return fill_all(template, scope)
    if not isinstance(template, str):
        return template
    return re.sub(r"\{(\w+)\}", lambda m: str(scope.get(m.group(1), "")), template)


def fill_all(template: Templates, scope: Mapping[str, object]) -> dict[str, object]:
    return {k: fill(v, scope) for k, v in template.items()}


def without(properties: Properties, names: str = "") -> Properties:
    """`properties` that are set, without those named and without the mark of what was filled in."""
    return {k: v for k, v in properties.items() if k not in {"__defaults", *names.split()} and v is not None}


def _row(token: str, row: Mapping[str, Any]) -> Kind:
    updates = [Update(**u) for u in row.get("updates", ())]
    tagging = Tagging(**row["tagging"]) if "tagging" in row else None
    return Kind(token=token, **{**row, "updates": updates, "tagging": tagging})


KINDS = {t: _row(t, r) for t, r in yaml.safe_load(Path(__file__).with_name("table.yaml").read_text()).items()}
