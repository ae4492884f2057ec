"""What a stand-in provider is: plain Python values in, plain Python values out; this module owns the gRPC around it.

Not here: any knowledge of a package. The SDK's own CRUD server is bypassed because it cannot answer Handshake and
misreads DiffConfig; the generated servicer is used directly.
Secrets, resource references and output values are declined in Handshake, so the engine sends plain values and marks
secrets again itself. Unknown values stay the engine's sentinel string, which travels both ways unchanged.
"""

from __future__ import annotations

import hashlib
import re
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

import grpc
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc

from localcloud.ledger import Made, ledger_at

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
Properties: TypeAlias = dict[str, Value]

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_T = TypeVar("_T")
_MESSAGE_BYTES = 400 * 1024 * 1024


class ProviderError(Exception):
    """The cloud refused; the text is what the user reads."""


@dataclass(frozen=True)
class Failure:
    """One property that Check refuses; `property` is its path in Pulumi's spelling."""

    property: str
    reason: str


@dataclass(frozen=True)
class Urn:
    """A resource's name for the engine, taken apart. `seed` is only filled during Check."""

    text: str
    seed: bytes = b""

    @property
    def type(self) -> str:
        return self.text.split("::")[2].rsplit("$", 1)[-1]

    @property
    def name(self) -> str:
        return self.text.split("::", 3)[3]

    def autoname(self, digits: int = 7) -> str:
        """The physical name of a resource that was given none: logical name, dash, digits of the engine's seed."""
        return f"{self.name}-{hashlib.sha256(self.seed or self.text.encode()).hexdigest()[:digits]}"


@dataclass
class Diff:
    """Property paths that differ, and those among them that force a replacement."""

    changes: list[str] = field(default_factory=list[str])
    replaces: list[str] = field(default_factory=list[str])
    delete_before_replace: bool = False


class Provider:
    """Base of every stand-in; one instance serves one launcher, i.e. one provider resource of one engine run."""

    package = ""
    version = ""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.directory = Path()  # what relative paths are seen from: the project's

    def configure(self, config: Properties) -> None:
        """Take the provider resource's inputs; they may hold UNKNOWN at preview."""

    def check(self, urn: Urn, olds: Properties, news: Properties) -> tuple[Properties, list[Failure]]:
        return news, []

    def diff(self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties) -> Diff:
        return Diff(changed_paths(old_inputs, news))

    def diff_config(self, old_inputs: Properties, news: Properties) -> Diff:
        """What a change of the provider resource itself means for all that it made."""
        return Diff(changed_paths(old_inputs, news))

    def create(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        raise ProviderError(f"{urn.type}: {self.package} stand-in cannot create it")

    def read(self, urn: Urn, id: str, inputs: Properties, state: Properties) -> tuple[Properties, Properties] | None:
        return inputs, state

    def update(
        self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties, preview: bool
    ) -> Properties:
        raise ProviderError(f"{urn.type}: {self.package} stand-in cannot update it")

    def delete(self, urn: Urn, id: str, state: Properties) -> None:
        """Remove it; already gone is not an error."""

    def invoke(self, token: str, args: Properties) -> Properties:
        raise ProviderError(f"{token}: {self.package} stand-in does not know this function")


def has_unknown(value: Value) -> bool:
    if isinstance(value, dict):
        return any(has_unknown(v) for v in value.values())
    if isinstance(value, list):
        return any(has_unknown(v) for v in value)
    return value == UNKNOWN


def changed_paths(old: Value, new: Value, path: str = "") -> list[str]:
    """The property paths where two values differ, as deep as both sides have the same shape."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys())
        return [p for k in keys for p in changed_paths(old.get(k), new.get(k), join_path(path, k))]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [p for i, (a, b) in enumerate(zip(old, new, strict=True)) for p in changed_paths(a, b, f"{path}[{i}]")]
    return [] if old == new and isinstance(old, bool) == isinstance(new, bool) else [path]


def join_path(path: str, key: str) -> str:
    """`a` + `b` = `a.b`; a key that is no plain word is quoted in brackets, as the engine writes it."""
    if not re.fullmatch(r"[A-Za-z_$][\w$]*", key):
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def to_python(value: struct_pb2.Value) -> Value:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "struct_value":
        return _unwrap({k: to_python(v) for k, v in value.struct_value.fields.items()})
    if kind == "list_value":
        return [to_python(v) for v in value.list_value.values]
    return None if kind in (None, "null_value") else cast(Value, getattr(value, kind))


def to_dict(struct: struct_pb2.Struct) -> Properties:
    return {k: to_python(v) for k, v in struct.fields.items()}


def to_struct(values: Mapping[str, Value]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    struct.update(values)
    return struct


def _unwrap(value: Properties) -> Value:
    """Configuration may still hold secrets and output values although they were declined."""
    if value.get(_SIGNATURE) in (_SECRET, _OUTPUT):
        return value.get("value", UNKNOWN)
    return value


def _present(values: Value, path: str) -> bool:
    for quoted, word, index in re.findall(r'\["([^"]*)"\]|([\w$]+)|\[(\d+)\]', path):
        if index and isinstance(values, list):
            values = values[int(index)] if int(index) < len(values) else None
        elif isinstance(values, dict):
            values = values.get(quoted or word)
        else:
            return False
    return values is not None


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Translates the engine's calls for one Provider."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.config: Properties = {}
        self.ledger = ledger_at(provider.state_dir)
        self.leaves_something = type(provider).delete is not Provider.delete

    def Handshake(self, request, context):
        return provider_pb2.ProviderHandshakeResponse()

    def GetPluginInfo(self, request, context):
        return plugin_pb2.PluginInfo(version=self.provider.version)

    def Attach(self, request, context):
        return empty_pb2.Empty()

    def Cancel(self, request, context):
        return empty_pb2.Empty()

    def CheckConfig(self, request, context):
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request, context):
        old, new = to_dict(request.old_inputs), to_dict(request.news)
        diff = self._guard(context, request.urn, lambda: self.provider.diff_config(old, new))
        return _diff_response(diff, old, new)

    def Configure(self, request, context):
        self.config = to_dict(request.args)
        self._guard(context, "configure", lambda: self.provider.configure(self.config))
        return provider_pb2.ConfigureResponse(supportsPreview=True)

    def Check(self, request, context):
        urn = Urn(request.urn, bytes(request.randomSeed))
        inputs, failures = self._guard(
            context, urn.text, lambda: self.provider.check(urn, to_dict(request.olds), to_dict(request.news))
        )
        return provider_pb2.CheckResponse(
            inputs=to_struct(inputs),
            failures=[provider_pb2.CheckFailure(property=f.property, reason=f.reason) for f in failures],
        )

    def Diff(self, request, context):
        urn, old, new = Urn(request.urn), to_dict(request.old_inputs), to_dict(request.news)
        diff = self._guard(
            context, urn.text, lambda: self.provider.diff(urn, request.id, old, to_dict(request.olds), new)
        )
        return _diff_response(diff, old, new)

    def Create(self, request, context):
        urn, inputs = Urn(request.urn), to_dict(request.properties)
        create = self._create_on_record if not request.preview and self.leaves_something else self.provider.create
        id, state = self._guard(context, urn.text, lambda: create(urn, inputs, request.preview))
        return provider_pb2.CreateResponse(id=id, properties=to_struct(state))

    def Read(self, request, context):
        urn, inputs, state = Urn(request.urn), to_dict(request.inputs), to_dict(request.properties)
        found = self._guard(context, urn.text, lambda: self.provider.read(urn, request.id, inputs, state))
        if found is None:
            return provider_pb2.ReadResponse()
        return provider_pb2.ReadResponse(id=request.id, inputs=to_struct(found[0]), properties=to_struct(found[1]))

    def Update(self, request, context):
        urn, old, new = Urn(request.urn), to_dict(request.old_inputs), to_dict(request.news)
        state = self._guard(
            context,
            urn.text,
            lambda: self.provider.update(urn, request.id, old, to_dict(request.olds), new, request.preview),
        )
        return provider_pb2.UpdateResponse(properties=to_struct(state))

    def Delete(self, request, context):
        urn = Urn(request.urn)
        self._guard(context, urn.text, lambda: self.provider.delete(urn, request.id, to_dict(request.properties)))
        self.ledger.settled(urn.text, request.id)
        return empty_pb2.Empty()

    def Invoke(self, request, context):
        result = self._guard(context, request.tok, lambda: self.provider.invoke(request.tok, to_dict(request.args)))
        response = provider_pb2.InvokeResponse()
        getattr(response, "return").CopyFrom(to_struct(result))
        return response

    def _create_on_record(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        def create() -> Made:
            id, state = self.provider.create(urn, inputs, preview)
            return Made(urn.text, id, self.provider.package, self.config, state)

        made = self.ledger.create(urn.text, create)
        return made.id, made.state

    def _guard(self, context: grpc.ServicerContext, what: str, call: Callable[[], _T]) -> _T:
        """Run `call`; a refusal becomes a status with its text, anything else one with the traceback (our own bug)."""
        try:
            return call()
        except ProviderError as error:
            context.abort(grpc.StatusCode.UNKNOWN, str(error))
        except Exception as error:  # the engine must hear of it, whatever it is
            text = f"{self.provider.package} stand-in failed on {what}: {error}\n{traceback.format_exc()}"
            context.abort(grpc.StatusCode.UNKNOWN, text)


def _diff_response(diff: Diff, old: Properties, new: Properties) -> provider_pb2.DiffResponse:
    kinds = provider_pb2.PropertyDiff
    detailed: dict[str, provider_pb2.PropertyDiff] = {}
    for path in diff.changes:
        kind = "UPDATE" if _present(old, path) and _present(new, path) else "ADD" if _present(new, path) else "DELETE"
        replace = "_REPLACE" if path in diff.replaces else ""
        detailed[path] = provider_pb2.PropertyDiff(kind=kinds.Kind.Value(kind + replace), inputDiff=True)
    response = provider_pb2.DiffResponse
    return provider_pb2.DiffResponse(
        changes=response.DIFF_SOME if diff.changes else response.DIFF_NONE,
        diffs=sorted({re.split(r"[.\[]", p)[0] for p in diff.changes}),
        replaces=diff.replaces,
        deleteBeforeReplace=diff.delete_before_replace,
        detailedDiff=detailed,
        hasDetailedDiff=True,
    )


def serve(servicer: provider_pb2_grpc.ResourceProviderServicer) -> tuple[grpc.Server, str]:
    """A started server and its port, a free one on loopback."""
    sizes = [("grpc.max_receive_message_length", _MESSAGE_BYTES), ("grpc.max_send_message_length", _MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=sizes)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, str(port)
