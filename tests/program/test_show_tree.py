from __future__ import annotations

import pytest

from tests.recorder import program
from tools import show_tree


def test_the_tree_shows_every_component_and_counts_every_resource(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["show_tree", "dev"])
    assert show_tree.main() == 0
    shown = capsys.readouterr().out
    record = program("dev")
    components = [r for r in record.resources if not r.custom and r.type.startswith("slurm-eks:")]
    assert f"stack dev: {sum(r.custom for r in record.resources)} resources" in shown
    assert [r.name for r in components if f"{r.type.rpartition(':')[2]} {r.name}" not in shown] == []


def test_wrong_settings_are_listed_instead_of_a_tree(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["show_tree", "dev"])
    monkeypatch.setattr("tools.recording.stack_config", lambda stack: {"aws:region": "us-west-2"})
    assert show_tree.main() == show_tree.EXIT_SETTINGS
    captured = capsys.readouterr()
    assert "login" in captured.err and captured.out == ""
