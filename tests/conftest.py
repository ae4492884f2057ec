"""Fixtures that any room's tests may ask for."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.engine.harness import Stack
from tools import pulumi_cli

# The SDKs and moto are a million objects as old as the process; by default they are looked through again and again.
gc.set_threshold(200_000, 50, 100)
# A profile of the developer's would send moto to files of theirs. The engine drops the same (tools/engine.py).
for name in [name for name in os.environ if name.startswith("AWS_")]:
    del os.environ[name]


def pytest_sessionfinish() -> None:
    """Looking through everything once more, when pytest and then Python end, took 6 s and found nothing."""
    gc.freeze()


class ByWhatIsShared(LoadScopeScheduling):
    """A file stays on one of several workers (`pytest -n 2`); these rooms do too, each for what it names."""

    SHARED: ClassVar = {
        "components": "record of the program",
        "contract": "record of the program",
        "program": "record of the program",
        "images": "compiled image",
        "localcloud": "moto, which takes a second to load",
        "slurm": "ports",
    }

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return self.SHARED.get(file.split("/")[1], file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByWhatIsShared:
    config.option.loadscopereorder = False  # it would begin the slow files, which have few tests, last
    return ByWhatIsShared(config, log)


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
