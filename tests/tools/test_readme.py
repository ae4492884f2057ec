"""The README's tables against the code."""

from __future__ import annotations

from tools.readme import README, rendered


def test_the_tables_of_settings_outputs_and_costs_are_what_the_code_says() -> None:
    text = README.read_text()
    assert text == rendered(text), "run `python -m tools.readme`"
