"""The made-up image that the tests of this room share."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator

import pytest

from tests.images import tree
from tests.images.tree import Compiled, Tree


@pytest.fixture(scope="package")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile the libraries of the made-up image")
    if platform.machine() != "x86_64":
        pytest.skip("the image is for x86_64, this machine's compiler is not")
    return Compiled(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="package")
def made(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    return tree.image(tmp_path_factory.mktemp("image") / "root", compiled)


@pytest.fixture
def image(made: Tree) -> Iterator[Tree]:
    """The good image; what a test changes is put back."""
    with made.restored() as restored:
        yield restored
