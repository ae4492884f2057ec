"""The schema of a package, read out of the pinned Python SDK itself: what the SDK does not have, a stand-in refuses.

Not a copy of Pulumi's schema files: those come with the provider plugins, which are what is being stood in for. The
SDK's generated classes carry the same names, types and required marks in their annotations.
"""

from __future__ import annotations

import collections.abc
import difflib
import functools
import importlib
import importlib.util
import inspect
import json
import re
import types
import typing
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pulumi import _types as sdk_types
from pulumi.output import Output

from localcloud.control import package_version as package_version
from localcloud.provider import UNKNOWN, Failure, Properties, Value, join_path


@dataclass(frozen=True)
class Schema:
    """Properties in Pulumi's spelling with the SDK's type hints."""

    inputs: dict[str, object]
    required: frozenset[str]
    outputs: dict[str, object]


@functools.cache
def _classes(package: str) -> dict[str, tuple[str, str]]:
    """Token -> (module, class) of every resource, from the table that the SDK registers when it is imported."""
    spec = importlib.util.find_spec(f"pulumi_{package}")
    if spec is None or spec.origin is None:
        return {}
    table = re.search(r'resource_modules="""(.*?)"""', Path(spec.origin).read_text(), re.DOTALL)
    modules = json.loads(table.group(1)) if table else []
    return {token: (m["fqn"], name) for m in modules for token, name in m["classes"].items()}


@functools.cache
def resource(token: str) -> Schema | None:
    """The schema of a resource type, or None when the SDK has no such type."""
    found = _classes(token.split(":")[0]).get(token)
    if found is None:
        return None
    with warnings.catch_warnings(action="ignore"):  # about types that the SDK deprecates, whoever asks for a neighbour
        module = importlib.import_module(found[0])
        cls = getattr(module, found[1])
        args = getattr(module, f"{found[1]}InitArgs", None) or getattr(module, f"{found[1]}Args")
    inputs, required = _input_type(args)
    return Schema(inputs, required, dict(sdk_types.resource_types(cls)))


def check_inputs(token: str, news: Properties) -> list[Failure]:
    """Everything about `news` that the SDK's types do not allow, at any depth, each with its property path."""
    schema = resource(token)
    if schema is None:
        package = token.split(":")[0]
        return [Failure("", f"pulumi_{package} {package_version(package)} has no resource type {token}")]
    return list(_object_failures(schema.inputs, schema.required, news, "", token))


@functools.cache
def _input_type(cls: type) -> tuple[dict[str, object], frozenset[str]]:
    names = sdk_types.input_type_py_to_pulumi_names(cls)
    parameters = inspect.signature(cls.__init__).parameters
    required = frozenset(
        names[n] for n in names if n in parameters and parameters[n].default is inspect.Parameter.empty
    )
    return dict(sdk_types.input_type_types(cls)), required


def _object_failures(
    hints: dict[str, object], required: frozenset[str], value: Properties, path: str, owner: str
) -> Iterator[Failure]:
    for key in sorted(value.keys() - hints.keys()):
        near = difflib.get_close_matches(key, hints, 3) or sorted(hints)
        yield Failure(join_path(path, key), f"{owner} has no property {key}; it has {', '.join(near)}")
    for key in sorted(k for k in required if value.get(k) is None):
        yield Failure(join_path(path, key), f"{owner} needs {key}, and it is not set")
    for key in sorted(value.keys() & hints.keys()):
        yield from value_failures(hints[key], value[key], join_path(path, key))


def value_failures(hint: object, value: Value, path: str) -> Iterator[Failure]:
    """What is wrong with `value` where the SDK declares `hint`; unknown and absent values are never wrong."""
    if value is None or value == UNKNOWN:
        return
    members = list(alternatives(hint))
    if any(_same_kind(m, value) for m in members if not isinstance(m, type) or not sdk_types.is_input_type(m)):
        for member in members:
            inner = typing.get_args(member)
            if isinstance(value, list) and typing.get_origin(member) in (list, collections.abc.Sequence):
                for index, item in enumerate(value):
                    yield from value_failures(inner[0], item, f"{path}[{index}]")
            elif isinstance(value, dict) and typing.get_origin(member) in (dict, collections.abc.Mapping):
                for key, item in value.items():
                    yield from value_failures(inner[1], item, join_path(path, key))
        return
    for member in members:
        if isinstance(value, dict) and isinstance(member, type) and sdk_types.is_input_type(member):
            yield from _object_failures(*_input_type(member), value, path, member.__name__.removesuffix("Args"))
            return
    wanted = " or ".join(sorted({_kind_name(m) for m in members}))
    yield Failure(path, f"{json.dumps(value)} is a {type(value).__name__}, not a {wanted}")


def alternatives(hint: object) -> Iterator[object]:
    """The types that a hint allows, without the wrappers that an Input carries."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for arg in typing.get_args(hint):
            yield from alternatives(arg)
    elif isinstance(hint, typing.ForwardRef) or typing.is_typeddict(hint) or hint is type(None):
        return
    elif typing.get_origin(hint) not in (collections.abc.Awaitable, Output) and hint is not Output:
        yield hint


def _kind_name(member: object) -> str:
    if typing.get_origin(member) is typing.Literal:
        return " or ".join(json.dumps(a) for a in typing.get_args(member))
    return getattr(member, "__name__", str(member)).removesuffix("Args")


def _same_kind(member: object, value: Value) -> bool:
    origin = typing.get_origin(member)
    if origin is typing.Literal:
        return value in typing.get_args(member)
    if origin in (list, collections.abc.Sequence):
        return isinstance(value, list)
    if origin in (dict, collections.abc.Mapping):
        return isinstance(value, dict)
    if member is bool or isinstance(value, bool):
        return member is typing.Any or (member is bool and isinstance(value, bool))
    if member is float:
        return isinstance(value, (int, float))
    if isinstance(member, type) and issubclass(member, Enum):
        return value in [m.value for m in member]
    if member in (int, str):
        return isinstance(value, typing.cast(type, member))
    return True  # Any, assets, archives: nothing that can be judged from outside
