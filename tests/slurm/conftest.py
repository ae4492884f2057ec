"""One lab for all tests of this folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.slurm.lab import DAEMONS, Lab, Unavailable


@pytest.fixture(scope="session")
def _lab() -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="slurm-lab-") as folder:
        Path(folder).chmod(0o755)  # the daemons have users of their own; pytest's folders are closed to them
        lab = Lab(Path(folder))
        try:
            lab.up()
            yield lab
        except Unavailable as reason:
            pytest.skip(str(reason))
        finally:
            lab.down()


@pytest.fixture
def lab(_lab: Lab) -> Iterator[Lab]:
    """The lab as it should be: what a test changed is put right after it."""
    conf, gres = _lab.conf.read_text(), (_lab.folder / "etc" / "gres.conf").read_text()
    yield _lab
    _lab.run("scancel --user=root")
    if _lab.conf.read_text() != conf or (_lab.folder / "etc" / "gres.conf").read_text() != gres:
        _lab.conf.write_text(conf)
        (_lab.folder / "etc" / "gres.conf").write_text(gres)
        _lab.restart(*DAEMONS)
    _lab.start(*DAEMONS)
    for node in _lab.nodeset.node_names:
        _lab.run(f"scontrol update nodename={node} state=resume")
        _lab.until(node, "idle|mix|alloc")
