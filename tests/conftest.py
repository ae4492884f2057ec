"""Fixtures that any room's tests may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.engine.harness import Stack
from tools import pulumi_cli


class ByRoom(LoadScopeScheduling):
    """What shares a port, moto's one state or an expensive record stays on one of several workers (`pytest -n 2`)."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        room = file.split("/")[1]
        if room == "engine":  # each file has its own stack
            return file
        return "on pulumi" if room in ("components", "contract", "program") else room


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByRoom:
    config.option.loadscopereorder = False  # it would begin the slow rooms, which have few tests, last
    return ByRoom(config, log)


@pytest.fixture(scope="session")
def cli() -> Path:
    """The Pulumi CLI, got by the first way that works here."""
    try:
        return pulumi_cli.obtain()
    except pulumi_cli.Unobtainable as reason:
        pytest.skip("; ".join(line.strip() for line in str(reason).splitlines()))


@pytest.fixture(scope="session")
def make_stack(cli: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Stack]]:
    """Makes stacks, each on a local cloud of its own in a temporary folder; all are stopped at the end."""
    made: list[Stack] = []

    def make(*, like: str = "dev", project: Path | None = None) -> Stack:
        made.append(Stack(cli, tmp_path_factory.mktemp("cloud"), like, project))
        return made[-1]

    yield make
    for stack in made:
        stack.stop()
