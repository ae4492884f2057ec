"""Nothing stays in the cloud that no engine knows of: neither after the engine was killed, nor after the cloud was."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from moto.core.base_backend import BackendDict

from localcloud import kubernetes, ledger
from localcloud.cloud import Cloud
from localcloud.kubernetes import EksCluster
from localcloud.ledger import Ledger, Made
from localcloud.provider import Urn

STACK = "urn:pulumi:dev::p"


def made(name: str, stack: str = STACK) -> Made:
    return Made(f"{stack}::t::{name}", f"id-{name}", "aws", {"region": "us-west-2"}, {"a": [1]})


def make(book: Ledger, *names: str, stack: str = STACK) -> None:
    for name in names:
        book.create(made(name, stack).urn, lambda n=name: made(n, stack))


@contextlib.contextmanager
def under_way(book: Ledger, name: str, call: Callable[[], object]) -> Generator[threading.Event]:
    """A create that has made something and does not end before the event is set."""
    done, end = threading.Event(), threading.Event()

    def create() -> Made:
        call()
        done.set()
        end.wait()
        return made(name)

    thread = threading.Thread(target=lambda: book.create(made(name).urn, create))
    thread.start()
    done.wait()
    try:
        yield end
    finally:
        end.set()
        thread.join()


def test_what_was_made_and_is_not_on_the_engines_record_is_told_newest_first(tmp_path: Path) -> None:
    book = Ledger(tmp_path)
    make(book, "vpc", "subnet", "role")
    make(book, "other", stack="urn:pulumi:dev2::p")
    assert book.unheard_of(STACK, {(made("vpc").urn, "id-vpc"), (made("role").urn, "another")}) == [
        made("role"),
        made("subnet"),
    ]


def test_what_the_engine_once_had_on_record_is_its_own_affair(tmp_path: Path) -> None:
    book = Ledger(tmp_path)
    make(book, "vpc")
    assert book.unheard_of(STACK, {(made("vpc").urn, "id-vpc")}) == []
    assert book.unheard_of(STACK, set()) == []


def test_what_failed_or_was_deleted_is_not_told(tmp_path: Path) -> None:
    book = Ledger(tmp_path)
    make(book, "vpc", "role")
    book.settled(made("vpc").urn, "id-vpc")

    def fail() -> Made:
        raise ValueError

    with pytest.raises(ValueError):
        book.create(made("subnet").urn, fail)
    assert book.unheard_of(STACK, set()) == [made("role")]
    assert Ledger(tmp_path).lost == {}


def test_a_restart_forgets_nothing_but_a_torn_line(tmp_path: Path) -> None:
    book = Ledger(tmp_path)
    make(book, "vpc", "role")
    book.settled(made("role").urn, "id-role")
    with (tmp_path / "creates.jsonl").open("a") as file:
        file.write('{"create": "1", "ur')
    assert Ledger(tmp_path).unheard_of(STACK, set()) == [made("vpc")]


def test_a_create_under_way_is_waited_for(tmp_path: Path) -> None:
    book = Ledger(tmp_path)
    with under_way(book, "vpc", lambda: None) as end:
        threading.Timer(0.1, end.set).start()
        started = time.monotonic()
        assert book.unheard_of("urn:pulumi:other::p", set()) == []
        assert time.monotonic() - started < 0.1, "it is not that stack's"
        assert book.unheard_of(STACK, set()) == [made("vpc")]


def test_what_a_killed_create_did_to_the_cloud_is_undone_and_all_else_stays(tmp_path: Path) -> None:
    def vpc(cidr: str) -> Callable[[], Any]:
        return lambda: cloud.client("ec2", "us-west-2").create_vpc(CidrBlock=cidr)

    def vpcs(cloud: Cloud) -> dict[str, str]:
        return {v["CidrBlock"]: v["VpcId"] for v in cloud.client("ec2", "us-west-2").describe_vpcs()["Vpcs"]}

    BackendDict.reset()
    cloud, book = Cloud(tmp_path), ledger.ledger_at(tmp_path)
    vpc("10.0.0.0/16")()
    with under_way(book, "vpc", vpc("10.1.0.0/16")):
        vpc("10.2.0.0/16")()
        before = vpcs(cloud)
        for _ in range(2):  # the second time it knows of the killed create from the file that the first wrote
            BackendDict.reset()
            ledger.ledger_at.cache_clear()
            assert vpcs(Cloud(tmp_path)) == {cidr: id for cidr, id in before.items() if cidr != "10.1.0.0/16"}
    assert "10.1.0.0/16" in before


def test_what_a_killed_create_did_to_a_cluster_is_undone_and_all_else_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "eks_cluster", lambda *_: EksCluster("demo", "us-west-2", "1.36", "1"))
    urn = Urn(f"{STACK}::kubernetes:core/v1:Namespace::n")

    def namespace(name: str) -> Callable[[], object]:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        return lambda: kubernetes.Provider(tmp_path).create(urn, body, False)

    def is_there(name: str) -> bool:
        return kubernetes.Provider(tmp_path).read(urn, name, {}, {}) is not None

    namespace("kept")()
    with under_way(ledger.ledger_at(tmp_path), "n", namespace("torn")):
        assert is_there("torn")
        ledger.ledger_at.cache_clear()
        assert is_there("kept") and not is_there("torn")
        namespace("torn")()
        assert is_there("torn")
