"""A stand-in as the engine meets it, over gRPC: what it made is on record until the engine deletes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from localcloud import provider
from localcloud.ledger import ledger_at
from localcloud.provider import Diff, Properties, ProviderError, Urn, to_struct

URN = "urn:pulumi:dev::p::keeper:index:Thing::thing"


class Transient(provider.Provider):
    """Makes what lives in the engine's state only."""

    package, version = "keeper", "1.0.0"

    def create(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        if inputs.get("refused"):
            raise ProviderError("refused: so it is")
        return "" if preview else "id-1", inputs

    def diff_config(self, old_inputs: Properties, news: Properties) -> Diff:
        return Diff(["place", "taste"], ["place"])


class Keeper(Transient):
    """Makes what has to be deleted."""

    def delete(self, urn: Urn, id: str, state: Properties) -> None:
        pass


class Engine:
    def __init__(self, stub: Any) -> None:
        self.stub = stub
        stub.Configure(provider_pb2.ConfigureRequest(args=to_struct({"place": "here"})))

    def create(self, preview: bool = False, **inputs: bool) -> Any:
        return self.stub.Create(provider_pb2.CreateRequest(urn=URN, properties=to_struct(inputs), preview=preview))


@pytest.fixture
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    server, port = provider.serve(provider.Servicer(getattr(request, "param", Keeper)(tmp_path)))
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Engine(provider_pb2_grpc.ResourceProviderStub(channel))
    server.stop(None)


def on_record(state: Path) -> list[tuple[str, str, object]]:
    return [(m.id, m.package, m.config) for m in ledger_at(state).unheard_of("urn:pulumi:dev::p", set())]


def test_a_create_is_on_record_until_its_delete(engine: Engine, tmp_path: Path) -> None:
    assert engine.create().id == "id-1"
    assert on_record(tmp_path) == [("id-1", "keeper", {"place": "here"})]
    engine.stub.Delete(provider_pb2.DeleteRequest(urn=URN, id="id-1"))
    assert on_record(tmp_path) == []


def test_neither_a_preview_nor_a_refusal_is_on_record(engine: Engine, tmp_path: Path) -> None:
    engine.create(preview=True)
    with pytest.raises(grpc.RpcError, match="refused: so it is"):
        engine.create(refused=True)
    assert on_record(tmp_path) == []


@pytest.mark.parametrize("engine", [Transient], indirect=True)
def test_what_needs_no_delete_is_not_on_record(engine: Engine, tmp_path: Path) -> None:
    engine.create()
    assert on_record(tmp_path) == []


def test_a_change_of_the_provider_that_replaces_it_is_told_as_one(engine: Engine) -> None:
    old, new = to_struct({"place": "here", "taste": "sweet"}), to_struct({"place": "there", "taste": "sour"})
    diff = engine.stub.DiffConfig(provider_pb2.DiffRequest(urn=URN, old_inputs=old, news=new))
    kinds = provider_pb2.PropertyDiff.Kind
    assert diff.changes == provider_pb2.DiffResponse.DIFF_SOME
    assert list(diff.replaces) == ["place"]
    assert {path: kinds.Name(d.kind) for path, d in diff.detailedDiff.items()} == {
        "place": "UPDATE_REPLACE",
        "taste": "UPDATE",
    }
