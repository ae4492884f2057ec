"""The `aws` stand-in: Pulumi's calls, answered from the table of types by boto3 against moto.

Three judges refuse before moto does: the SDK's own types (at Check), botocore's models (at every call), and the rule
that whatever a property names must exist. Every refusal says which resource and which property.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import jmespath
import yaml

from localcloud import provider, sdk
from localcloud.aws import moto_gaps
from localcloud.aws.convert import overlaid
from localcloud.aws.kinds import KINDS, Aws, AwsError, Kind, fill_all, leaves, missing_references, without
from localcloud.cloud import cloud_at
from localcloud.provider import UNKNOWN, Diff, Failure, Properties, ProviderError, Urn, Value, changed_paths

moto_gaps.install()  # before any journal is replayed

_T = TypeVar("_T")
_FUNCTIONS = yaml.safe_load(Path(__file__).with_name("functions.yaml").read_text())
_SERVICES = ("ec2", "iam", "eks", "efs", "kms", "logs", "ecr", "rds", "sts")


class Provider(provider.Provider):
    package = "aws"

    def __init__(self, state_dir: Path) -> None:
        super().__init__(state_dir)
        self.version = sdk.package_version("aws")
        self.cloud = cloud_at(state_dir)
        self.config: Properties = {}

    def configure(self, config: Properties) -> None:
        self.config = config
        if not config.get("region"):
            raise ProviderError("aws:region is not set; set it in the stack's configuration")

    def warm(self, region: str = "us-west-2") -> None:
        """Load what a first call would load, so that no command waits for it."""
        for service in _SERVICES:
            self.cloud.client(service, region)
        self.cloud.client("ec2", region).describe_vpcs()
        self.cloud.client("iam", region).list_roles()
        for kind in KINDS.values():
            assert kind.schema.inputs

    def check(self, urn: Urn, olds: Properties, news: Properties) -> tuple[Properties, list[Failure]]:
        failures = sdk.check_inputs(urn.type, news)
        kind = KINDS.get(urn.type)
        if kind is None:
            return news, failures or [Failure("", f"{urn.type} is a type that the local cloud does not model")]
        inputs = without(news)
        filled: Properties = {k: v for k, v in kind.defaults.items() if k not in inputs}
        name, before = kind.autoname, olds.get("__defaults") or []
        if name and name not in inputs:
            prefix = inputs.get(f"{name}Prefix")
            kept = olds.get(name) if isinstance(before, list) and name in before else None
            filled[name] = kept or (f"{prefix}{urn.autoname()[-7:]}" if prefix else urn.autoname())
        marked: list[Value] = [*sorted(filled)]
        inputs |= {**filled, "__defaults": marked}
        if not failures:
            failures += [*kind.not_modelled(self._aws(inputs), inputs), *(kind.hook("check", inputs) or ())]
        return inputs, failures

    def diff(self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties) -> Diff:
        kind = self._kind(urn)
        changes = changed_paths(without(old_inputs), without(news))
        named = bool(kind.autoname) and kind.autoname not in cast("list[str]", news.get("__defaults") or [])
        return Diff(changes, [p for p in changes if not kind.can_change(p)], delete_before_replace=named)

    def create(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        kind, aws = self._kind(urn), self._aws(inputs)
        if preview:
            computed: Properties = dict.fromkeys(kind.schema.outputs, UNKNOWN)
            return "", {**computed, "region": aws.region, **without(inputs)}
        return self._blamed(urn, inputs, lambda: kind.create_one(aws, inputs))

    def read(self, urn: Urn, id: str, inputs: Properties, state: Properties) -> tuple[Properties, Properties] | None:
        return self._kind(urn).read_one(self._aws(state), id, inputs, state)

    def update(
        self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties, preview: bool
    ) -> Properties:
        kind, aws = self._kind(urn), self._aws(news)
        if preview:
            changed = {p.split(".")[0] for p in changed_paths(old_inputs, news)} - {"tags", "__defaults"}
            moving = kind.recomputed.split() if changed else []
            known = {k: overlaid(state.get(k), v) for k, v in without(news).items()}
            return {**state, **known, **dict.fromkeys(moving, UNKNOWN)}
        return self._blamed(urn, news, lambda: kind.update_one(aws, id, old_inputs, state, news))

    def delete(self, urn: Urn, id: str, state: Properties) -> None:
        self._blamed(urn, {}, lambda: self._kind(urn).delete_one(self._aws(state), id, state))

    def invoke(self, token: str, args: Properties) -> Properties:
        aws = self._aws(args)
        if token not in _FUNCTIONS:
            raise ProviderError(f"{token} is a function that the local cloud does not model")
        row = _FUNCTIONS[token]
        service, operation = row.get("call", ("", ""))
        key = fill_all(row.get("key", {}), args)
        answer = aws.call(service, operation, key) if operation else {"region": aws.region}
        result = {name: jmespath.search(path, answer) for name, path in row["facts"].items()}
        if None in result.values():
            raise ProviderError(f"{token}: nothing found for {json.dumps(args)}")
        return {**args, **result}

    def _kind(self, urn: Urn) -> Kind:
        if urn.type not in KINDS:
            raise ProviderError(f"{urn.type} is a type that the local cloud does not model")
        return KINDS[urn.type]

    def _aws(self, properties: Properties) -> Aws:
        region = properties.get("region") or self.config.get("region")
        defaults = self.config.get("defaultTags")
        tags = defaults.get("tags") if isinstance(defaults, dict) else None
        return Aws(self.cloud, str(region), tags if isinstance(tags, dict) else {})

    def _blamed(self, urn: Urn, inputs: Properties, call: Callable[[], _T]) -> _T:
        """`call`, whose refusal is told with the resource and the property that it is about."""
        problems = [f"{f.property}: {f.reason}" for f in missing_references(self._aws(inputs), inputs)]
        if problems:
            raise ProviderError(f"{urn.type} {urn.name}: {'; '.join(problems)}")
        try:
            return call()
        except AwsError as error:
            text = str(error)  # it names the property, or holds its value
            about = [(p in text, len(v), p) for p, v in leaves(inputs) if p in text or (len(v) > 3 and v in text)]
            raise ProviderError(f"{urn.type} {urn.name}: {f'{max(about)[2]}: ' if about else ''}{text}") from error
        except ProviderError as error:
            raise ProviderError(f"{urn.type} {urn.name}: {error}") from error
