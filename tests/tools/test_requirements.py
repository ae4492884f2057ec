"""The pinned requirements."""

from __future__ import annotations

import re

from tools.engine import ROOT


def pins(name: str) -> dict[str, str]:
    """Package (with its marker) to everything that its entry says."""
    text = (ROOT / name).read_text()
    assert "://" not in text, "an address of a registry would bind everyone to it"
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip() and not entry.startswith("#")]
    return {entry.partition(" \\")[0]: entry.strip() for entry in entries}


def test_everything_is_pinned_to_one_version_with_its_hashes() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        for package, entry in pins(name).items():
            assert re.match(r"[a-z0-9.-]+(\[[a-z,]+\])?==\S+( ; .+)?$", package), f"{name}: {package}"
            assert "--hash=sha256:" in entry, f"{name}: {package}"


def test_development_adds_to_the_programs_requirements_and_changes_none() -> None:
    assert pins("requirements.txt").items() <= pins("requirements-dev.txt").items()


def test_the_program_needs_nothing_of_the_local_cloud_or_the_linters() -> None:
    names = {package.partition("==")[0] for package in pins("requirements.txt")}
    assert {"pulumi", "pulumi-aws", "pydantic"} <= names
    assert not {"moto", "boto3", "pytest", "ruff"} & names
