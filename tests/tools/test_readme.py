"""The README's tables against the code."""

from __future__ import annotations

import re

from jobs.checks import checks
from tools.readme import README, rendered


def test_the_tables_of_settings_outputs_costs_and_checks_are_what_the_code_says() -> None:
    text = README.read_text()
    assert text == rendered(text), "run `python -m tools.readme`"


def test_only_checks_that_a_test_runs_on_the_real_slurm_are_said_to_have_run_there() -> None:
    tests = (README.parent / "tests" / "slurm" / "test_jobs.py").read_text()
    run = {
        name for call in re.findall(r"lab\.check\(tmp_path, ([^)]*)\)", tests) for name in re.findall(r'"(.+?)"', call)
    }
    assert {check.name for check in checks(backend="nccl") if check.seen.startswith("real Slurm lab")} == run
