"""The whole plan: what the examples become, how it is printed, and that only plain values are in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from facts import names
from plan import make_plan
from plan.__main__ import EXIT_SETTINGS, main, releases, to_json
from tests.plan.build import ROOT, example, nodeset, stack

GOLDEN = ROOT / "tests" / "golden" / "dev" / "aws.json"
# Their own authors keep golden files of these, or they are other texts' texts.
ELSEWHERE = ("operators", "slurm", "observability", "validation", "validation_metrics")


@pytest.fixture
def in_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_aws_part_of_the_dev_plan_is_the_reviewed_one() -> None:
    """A difference here is a difference in somebody's account. `UPDATE_GOLDEN=1` writes the file anew."""
    plan = to_json(make_plan(example("dev")))
    assert isinstance(plan, dict)
    text = json.dumps({part: value for part, value in plan.items() if part not in ELSEWHERE}, indent=1) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_same_settings_always_make_the_same_plan(name: str) -> None:
    assert make_plan(example(name)) == make_plan(example(name))


def test_the_order_in_which_nodesets_are_written_changes_nothing() -> None:
    a, b = nodeset("g6.12xlarge"), nodeset("p5.48xlarge", zone_id="usw2-az2")
    assert to_json(make_plan(stack({"a": a, "b": b}))) == to_json(make_plan(stack({"b": b, "a": a})))


def test_the_plan_does_not_grow_with_the_number_of_nodes() -> None:
    small = json.dumps(to_json(make_plan(stack({"a": nodeset("p5.48xlarge", 16, zone_id="usw2-az2")}))))
    large = json.dumps(to_json(make_plan(stack({"a": nodeset("p5.48xlarge", 300, zone_id="usw2-az2")}))))
    assert len(large) < len(small) + 200


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_workers_may_be_privileged_where_they_run(name: str) -> None:
    namespaces = make_plan(example(name)).foundation.namespaces
    assert namespaces[names.NAMESPACE_SLURM] == {"pod-security.kubernetes.io/enforce": "privileged"}
    assert names.NAMESPACE_SYSTEM not in namespaces, "EKS made it"


def test_releases_are_printed_behind_those_that_they_need() -> None:
    seen: set[str] = set()
    ordered = releases(make_plan(example("dev")))
    known = {release.name for release in ordered}
    for release in ordered:
        assert known.intersection(release.after) <= seen
        seen.add(release.name)


@pytest.mark.usefixtures("in_project")
@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_printed_plan_shows_what_was_derived(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([name]) == 0
    printed = capsys.readouterr().out
    expected = {
        "dev": (
            "gpu:nvidia_l4:4",
            "1 efa-only on card 0",
            "8,187",
            "FI_EFA_USE_DEVICE_RDMA=0",
            "nvidia.com/gpu=present",
        ),
        "prod": ("32 efa-only on cards 0-31", "cr-0123456789abcdef0", "MariaDB", "ecr.dkr", "used or not"),
    }
    for text in expected[name]:
        assert text in printed


@pytest.mark.usefixtures("in_project")
def test_the_whole_plan_is_there_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dev", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["nodegroups"][0]["interfaces"][1] == {
        "network_card": 0,
        "device_index": 1,
        "interface_type": "efa-only",
    }
    assert plan["contract"]["nodesets"][0]["gres"] == "gpu:nvidia_l4:4"


def test_wrong_settings_are_listed_and_nothing_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("Pulumi.bad.yaml").write_text(
        "config:\n"
        "  aws:region: us-west-2\n"
        "  slurm-eks:login:\n    allowed_cidrs: [203.0.113.7/32]\n"
        "  slurm-eks:nodesets:\n    a:\n      instance_type: g6.12xlarge\n      nodes: two\n      colour: red\n"
    )
    assert main(["bad"]) == EXIT_SETTINGS
    said = capsys.readouterr()
    assert said.out == ""
    assert "nodesets.a.nodes" in said.err and "nodesets.a.colour" in said.err


def test_a_stack_without_a_file_is_answered_with_those_that_have_one(
    capsys: pytest.CaptureFixture[str], in_project: None
) -> None:
    assert main(["nowhere"]) == EXIT_SETTINGS
    assert "dev" in capsys.readouterr().err


def test_planning_never_imports_pulumi() -> None:
    code = "import sys, plan, plan.__main__; print([m for m in sys.modules if m.partition('.')[0] == 'pulumi'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
