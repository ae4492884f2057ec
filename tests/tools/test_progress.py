"""Commands that are watched while they run."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tools import progress
from tools.progress import CommandFailed, moving, run


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(CommandFailed, match="ended after 0 s: sh -c"):
        run("waiting", ["sh", "-c", f"(sleep 0.4; touch {tmp_path}/alive) & sleep 60"], limit_seconds=0.1)
    time.sleep(max(0.0, 0.5 - (time.monotonic() - started)))
    assert not (tmp_path / "alive").exists()


def test_a_failure_shows_the_command_its_exit_code_and_its_last_words() -> None:
    with pytest.raises(CommandFailed) as caught:
        run("failing", ["sh", "-c", "seq 1000; echo the reason >&2; exit 3"], limit_seconds=10)
    text = str(caught.value)
    assert text.startswith("exit 3: sh -c")
    assert text.endswith("the reason")
    assert len(text.splitlines()) == progress.LAST_LINES + 1


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(CommandFailed, match="no-such-program cannot be started"):
        run("starting", ["no-such-program"], limit_seconds=1)


def test_a_quick_step_says_nothing_and_a_slow_one_shows_that_it_moves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("quick", ["echo", "done"], limit_seconds=10) == "done\n"
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0)
    monkeypatch.setattr(progress, "DOT_SECONDS", 0.05)
    monkeypatch.setattr(progress, "POLL_SECONDS", 0.02)
    run("slow", ["sleep", "0.3"], limit_seconds=10)
    assert capsys.readouterr().err.startswith("slow ...")
    with pytest.raises(ValueError, match="broken"), moving("work of our own"):
        time.sleep(0.3)
        raise ValueError("broken")
    said = capsys.readouterr().err
    assert said.startswith("work of our own ...")
    assert said.endswith("failed\n")
