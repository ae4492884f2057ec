"""Runs a Pulumi program without an engine and keeps everything it asked for, as the engine would hear it.

Owns: Pulumi's mocks with a monitor that records whole registrations (the mocks alone hide dependencies, providers,
protection and ignored properties), and the few outputs that our components read and a mock has to invent.
Does not own: what is expected of the record (tests), how it is shown (`tools/show_tree.py`).
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pulumi
import yaml
from google.protobuf import json_format
from pulumi.runtime import mocks, rpc
from pulumi.runtime.proto import resource_pb2
from pulumi.runtime.stack import Stack

from facts.names import PROJECT

ROOT: Final = Path(__file__).parents[1]
SECRET_SIGNATURE: Final = "1b47061264138c4ac30d75fd1eb44270"
_SIGNATURE_KEY: Final = "4dabf18193072939515e22adb298388d"
ACCOUNT: Final = "123456789012"
REGION: Final = "us-west-2"

# What the cloud would answer and our components read. {name} is the resource's logical name.
_OUTPUTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "eks:index:Cluster": {"kubeconfigJson": '{"kind": "Config"}', "clusterSecurityGroupId": "sg-cluster"},
    "aws:ecr/repository:Repository": {
        "repositoryUrl": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{{name}}",
        "registryId": ACCOUNT,
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": 1},
    "aws:rds/instance:Instance": {"address": "{name}.database.invalid"},
    "docker:index/image:Image": {"repoDigest": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/{{name}}@sha256:{'0' * 64}"},
    "kubernetes:core/v1:Service": {"status": {"loadBalancer": {"ingress": [{"hostname": "{name}.elb.invalid"}]}}},
    "random:index/randomBytes:RandomBytes": {"base64": "cmFuZG9tIG9mIHtuYW1lfQ=="},
    "random:index/randomPassword:RandomPassword": {"result": "password of {name}"},
    "tls:index/privateKey:PrivateKey": {
        "privateKeyOpenssh": "private key of {name}\n",
        "publicKeyOpenssh": "ssh-mock key-of-{name}\n",
        "publicKeyFingerprintSha256": "SHA256:{name}",
    },
}
_SECRET_OUTPUTS: Final = frozenset({"base64", "result", "privateKeyOpenssh"})
_INVOKES: Final[Mapping[str, Mapping[str, Any]]] = {
    "aws:ecr/getAuthorizationToken:getAuthorizationToken": {"userName": "AWS", "password": "a registry token"},
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """One registration. inputs: as the engine gets them (camelCase), unwrapped; secret_paths: those wrapped."""

    urn: str
    type: str
    name: str
    inputs: Mapping[str, Any]
    parent: str
    provider: str
    depends_on: frozenset[str]
    custom: bool = True
    secret_paths: frozenset[str] = frozenset()
    protect: bool = False
    delete_before_replace: bool = False
    ignore_changes: tuple[str, ...] = ()
    create_timeout: str = ""


@dataclass
class Record:
    """Everything a program registered, read and exported."""

    resources: list[Recorded] = field(default_factory=list)
    reads: list[Recorded] = field(default_factory=list)
    outputs: dict[str, Any] = field(default_factory=dict)
    secret_outputs: set[str] = field(default_factory=set)

    def of(self, type_: str) -> list[Recorded]:
        return sorted((r for r in self.resources if r.type == type_), key=lambda r: r.name)

    def one(self, type_: str, name: str | None = None) -> Recorded:
        found = [r for r in self.of(type_) if name is None or r.name == name]
        if len(found) != 1:
            raise LookupError(f"{len(found)} resources of type {type_} and name {name}: {[r.name for r in found]}")
        return found[0]

    def by_urn(self, urn: str) -> Recorded:
        return next(r for r in self.resources if r.urn == urn)

    def before(self, resource: Recorded) -> set[str]:
        """URNs of all that the engine makes before the resource and removes after it, however indirectly."""
        known = {r.urn: r for r in self.resources}
        seen: set[str] = set()
        waiting = [resource.urn]
        while waiting:
            r = known.get(waiting.pop())
            if r is None:
                continue
            provider = r.provider.rpartition("::")[0]
            for urn in {*r.depends_on, r.parent, provider} & known.keys() - seen:
                seen.add(urn)
                waiting.append(urn)
        return seen


class _Mocks(mocks.Mocks):
    def __init__(self, *, preview: bool) -> None:
        self._preview = preview

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        if self._preview:
            return None, dict(args.inputs)  # no id: all that the cloud would compute stays unknown
        answer = {
            "arn": f"arn:aws:mock::{ACCOUNT}:{args.name}",
            "name": args.name,  # what has no name of its own is named by the engine
            **{
                key: rpc.wrap_rpc_secret(value) if key in _SECRET_OUTPUTS else value
                for key, value in _named(_OUTPUTS.get(args.typ, {}), args.name).items()
            },
        }
        return f"{args.name}-id", {**answer, **args.inputs}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[Any, Any], list[tuple[str, str]]]:
        if args.token not in _INVOKES:
            raise LookupError(f"{args.token}: the program asks a provider for something that no mock answers")
        return dict(_INVOKES[args.token]), []


def _named(value: Any, name: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _named(item, name) for key, item in value.items()}
    if isinstance(value, list):
        return [_named(item, name) for item in value]
    return value.replace("{name}", name) if isinstance(value, str) else value


class _Monitor(mocks.MockMonitor):
    def __init__(self, answers: _Mocks, made: Record) -> None:
        super().__init__(answers)
        self._record = made
        self._urns: set[str] = set()

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> Any:
        if request.type != "pulumi:pulumi:Stack":
            secrets: set[str] = set()
            self._record.resources.append(
                Recorded(
                    urn=self._urn(request),
                    type=request.type,
                    name=request.name,
                    inputs=_plain(json_format.MessageToDict(request.object), "", secrets),
                    parent=request.parent,
                    provider=request.provider,
                    depends_on=frozenset(request.dependencies),
                    custom=request.custom,
                    secret_paths=frozenset(secrets),
                    protect=request.protect,
                    delete_before_replace=request.deleteBeforeReplace,
                    ignore_changes=tuple(request.ignoreChanges),
                    create_timeout=request.customTimeouts.create,
                )
            )
        return super().RegisterResource(request)

    def ReadResource(self, request: resource_pb2.ReadResourceRequest) -> Any:
        self._record.reads.append(
            Recorded(
                urn=self._urn(request),
                type=request.type,
                name=request.name,
                inputs={"id": request.id},
                parent=request.parent,
                provider=request.provider,
                depends_on=frozenset(request.dependencies),
            )
        )
        return super().ReadResource(request)

    def _urn(self, request: resource_pb2.RegisterResourceRequest | resource_pb2.ReadResourceRequest) -> str:
        urn = str(self.make_urn(request.parent, request.type, request.name))
        if urn in self._urns:
            raise LookupError(f"{urn}: registered twice; the engine would refuse the second")
        self._urns.add(urn)
        return urn


def _plain(value: Any, path: str, secrets: set[str]) -> Any:
    """Secrets unwrapped (their paths kept), whole numbers as int again."""
    if isinstance(value, Mapping):
        if value.get(_SIGNATURE_KEY) == SECRET_SIGNATURE:
            secrets.add(path)
            return _plain(value["value"], path, secrets)
        return {key: _plain(item, f"{path}.{key}" if path else key, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, f"{path}[{i}]", secrets) for i, item in enumerate(value)]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def record(program: Callable[[], object], *, stack: str = "test", preview: bool = False) -> Record:
    """Run the program to its end, all registrations included, and return what it asked for."""
    try:
        asyncio.get_event_loop()
    except RuntimeError:  # Python 3.14 makes none by itself, and the mocks want one
        asyncio.set_event_loop(asyncio.new_event_loop())
    made, answers = Record(), _Mocks(preview=preview)
    pulumi.runtime.set_mocks(answers, project=PROJECT, stack=stack, preview=preview, monitor=_Monitor(answers, made))
    root = pulumi.runtime.get_root_resource()
    assert isinstance(root, Stack)
    root.outputs.clear()  # the stack is made once per process, its outputs would be those of all programs

    def run() -> Awaitable[None]:
        program()
        return _exports(dict(root.outputs), made)

    pulumi.runtime.test(run)()
    return made


async def _exports(exported: Mapping[str, Any], made: Record) -> None:
    for key, value in exported.items():
        output = pulumi.Output.from_input(value)
        made.outputs[key] = await output.future()
        if await output.is_secret():
            made.secret_outputs.add(key)


def stack_config(stack: str) -> dict[str, str]:
    """The configuration as the CLI hands it to the program: Pulumi.yaml's defaults, then the stack's file; objects as
    JSON. Put it into the environment variable PULUMI_CONFIG."""
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    given = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text())
    values = {key: declared["default"] for key, declared in project.get("config", {}).items() if "default" in declared}
    values.update(given.get("config", {}))
    return {
        key if ":" in key else f"{PROJECT}:{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
    }


def record_stack(stack: str, *, preview: bool = False, config: Mapping[str, str] | None = None) -> Record:
    """The whole program for a stack (or for another configuration under its name), run afresh."""
    before = os.environ.get("PULUMI_CONFIG")
    os.environ["PULUMI_CONFIG"] = json.dumps(dict(stack_config(stack) if config is None else config))
    try:
        return record(
            lambda: runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__"), stack=stack, preview=preview
        )
    finally:
        del os.environ["PULUMI_CONFIG"]
        if before is not None:
            os.environ["PULUMI_CONFIG"] = before
