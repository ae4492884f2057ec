"""Fixtures that any room's tests may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.engine.harness import Stack
from tools import pulumi_cli


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
