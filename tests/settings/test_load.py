"""The two ways in give the same settings, and the file is read as the Pulumi CLI reads it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from settings.load import SECTIONS, from_config, from_stack_file
from settings.problems import SettingsError
from settings.stack_file import read_yaml
from tests.settings.build import ROOT

FEWEST = """
config:
  aws:region: us-west-2
  slurm-eks:login: {allowed_cidrs: [203.0.113.7/32]}
  slurm-eks:nodesets:
    slinky: {instance_type: g6.12xlarge, nodes: 2}
"""
# Plain values of YAML and what `pulumi config --json` of CLI 3.274.1 says of them.
PLAIN_VALUES: dict[str, object] = {
    "24:00:00": "24:00:00",
    "7-00:00:00": "7-00:00:00",
    "1:30": "1:30",
    "yes": "yes",
    "NO": "NO",
    "on": "on",
    "y": "y",
    "true": True,
    "True": True,
    "tRue": "tRue",
    "~": None,
    "NULL": None,
    "0": 0,
    "1.36": 1.36,
    "1.30": 1.3,
    "2.0": 2,
    "1.": 1,
    ".5": 0.5,
    "1e3": 1000,
    "1e-2": 0.01,
    "017": 15,
    "08": 8,
    "0o17": 15,
    "0x10": 16,
    "-0x1F": -31,
    "0b11": 3,
    "+5": 5,
    "1_000": 1000,
    "685_230.15": 685230.15,
    "<<": "<<",
    "=": "=",
    '"2"': "2",
    "cr-0123456789abcdef0": "cr-0123456789abcdef0",
}


def written(folder: Path, text: str, stack: str = "dev") -> Path:
    path = folder / f"Pulumi.{stack}.yaml"
    path.write_text(text)
    return path


def problems_of(path: Path) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        from_stack_file(path, "dev")
    return [str(problem) for problem in raised.value.problems]


def as_the_engine_has_it(path: Path) -> dict[str, str]:
    """The stack's configuration as the CLI hands it to a program: texts, objects as JSON."""
    config = cast("dict[str, dict[str, object]]", read_yaml(path.read_text()))["config"]
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_the_file_and_the_engines_configuration_give_the_same_settings(stack: str) -> None:
    path = ROOT / f"Pulumi.{stack}.yaml"
    config = as_the_engine_has_it(path)
    region = config["aws:region"]
    from_engine = from_config(lambda key: config.get(f"slurm-eks:{key}"), region, stack, keys=config)
    assert from_engine == from_stack_file(path, stack)


def test_objects_that_were_parsed_already_are_taken_as_they_are(tmp_path: Path) -> None:
    path = written(tmp_path, FEWEST)
    config = cast("dict[str, dict[str, object]]", read_yaml(path.read_text()))["config"]
    parsed = from_config(lambda key: config.get(f"slurm-eks:{key}"), "us-west-2", "dev")
    assert parsed == from_stack_file(path, "dev")


def test_what_the_project_file_declares_as_a_default_changes_nothing(tmp_path: Path) -> None:
    """The CLI adds the defaults of Pulumi.yaml to a stack's configuration; who reads the file without it has none."""
    project = cast("dict[str, Any]", yaml.safe_load((ROOT / "Pulumi.yaml").read_text()))
    defaults = {key: declared["default"] for key, declared in project["config"].items() if "default" in declared}
    path = written(tmp_path, FEWEST)
    config = as_the_engine_has_it(path)
    for key, value in defaults.items():
        config.setdefault(f"slurm-eks:{key}", value if isinstance(value, str) else json.dumps(value))
    assert from_config(lambda key: config.get(f"slurm-eks:{key}"), "us-west-2", "dev") == from_stack_file(path, "dev")


def test_the_project_file_declares_every_section_and_no_other() -> None:
    project = cast("dict[str, Any]", yaml.safe_load((ROOT / "Pulumi.yaml").read_text()))
    assert set(project["config"]) == set(SECTIONS)


@pytest.mark.parametrize("plain", PLAIN_VALUES)
def test_plain_values_are_read_as_the_cli_reads_them(plain: str) -> None:
    read = cast("dict[str, object]", read_yaml(f"value: {plain}"))["value"]
    assert (read, type(read)) == (PLAIN_VALUES[plain], type(PLAIN_VALUES[plain]))


@pytest.mark.engine
def test_the_cli_itself_reads_plain_values_so(cli: Path, tmp_path: Path) -> None:
    (tmp_path / "Pulumi.yaml").write_text("name: slurm-eks\nruntime: python\n")
    (tmp_path / "state").mkdir()
    values = "".join(f"    v{i}: {plain}\n" for i, plain in enumerate(PLAIN_VALUES))
    environment = {
        **os.environ,
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}/state",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "1",
    }

    def pulumi(*arguments: str) -> str:
        return subprocess.run(
            [str(cli), *arguments], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout

    pulumi("stack", "init", "dev", "--non-interactive")
    written(tmp_path, f"config:\n  slurm-eks:tags:\n{values}")
    read = json.loads(pulumi("config", "--json"))["slurm-eks:tags"]["objectValue"]
    assert [read[f"v{i}"] for i in range(len(PLAIN_VALUES))] == list(PLAIN_VALUES.values())


def test_the_name_is_made_of_the_stacks_name_unless_it_is_given(tmp_path: Path) -> None:
    assert from_stack_file(written(tmp_path, FEWEST), "dev").name == "slurm-dev"
    assert from_stack_file(written(tmp_path, f"{FEWEST}  slurm-eks:name: ml\n"), "dev").name == "ml"
    assert from_stack_file(written(tmp_path, f'{FEWEST}  slurm-eks:name: ""\n'), "dev").name == "slurm-dev"


@pytest.mark.parametrize("stack", ["My.Stack", "feature-that-takes-a-rather-long-time"])
def test_a_stack_whose_name_makes_no_cluster_name_is_told_to_give_one(tmp_path: Path, stack: str) -> None:
    with pytest.raises(SettingsError, match=f"name: got 'slurm-{stack}'; .*; set slurm-eks:name, whose default"):
        from_stack_file(written(tmp_path, FEWEST), stack)
    assert from_stack_file(written(tmp_path, f"{FEWEST}  slurm-eks:name: ml\n"), stack).name == "ml"


def test_empty_sections_are_as_if_they_were_not_there(tmp_path: Path) -> None:
    path = written(tmp_path, f"{FEWEST}  slurm-eks:network:\n  slurm-eks:cluster: ~\n  slurm-eks:slurm: {{}}\n")
    assert from_stack_file(path, "dev") == from_stack_file(written(tmp_path, FEWEST), "dev")
    empty = {"network": "", "cluster": ""}  # what the CLI makes of them
    config = as_the_engine_has_it(written(tmp_path, FEWEST))
    parsed = from_config(lambda key: empty.get(key, config.get(f"slurm-eks:{key}")), "us-west-2", "dev")
    assert parsed == from_stack_file(tmp_path / "Pulumi.dev.yaml", "dev")


def test_keys_of_other_namespaces_are_other_programs_business(tmp_path: Path) -> None:
    path = written(tmp_path, f"{FEWEST}  aws:profile: me\n  pulumi:tags: {{a: b}}\n  other:nodset: 1\n")
    assert from_stack_file(path, "dev").region == "us-west-2"


def test_an_unknown_section_is_refused_on_both_ways(tmp_path: Path) -> None:
    path = written(tmp_path, f"{FEWEST}  slurm-eks:nodset: {{}}\n")
    (from_file,) = problems_of(path)
    assert from_file.startswith(
        "nodset: got an empty object; the settings have no key 'nodset'; did you mean nodesets?"
    )
    config = as_the_engine_has_it(path)
    with pytest.raises(SettingsError) as raised:
        from_config(lambda key: config.get(f"slurm-eks:{key}"), "us-west-2", "dev", keys=config)
    assert [str(problem) for problem in raised.value.problems] == [from_file]


def test_an_encrypted_value_is_refused_on_both_ways_because_nobody_could_review_it(tmp_path: Path) -> None:
    text = FEWEST.replace("nodes: 2", "nodes: {secure: AAABAEl5Y2lwaGVydGV4dA==}")
    (problem,) = problems_of(written(tmp_path, text))
    assert problem.startswith("nodesets.slinky.nodes: got an encrypted value; no setting is a secret,")
    assert problem.endswith("write it in plain text; keys and passwords of the cluster are made by the program itself")
    (problem,) = problems_of(written(tmp_path, FEWEST.replace("203.0.113.7/32", "{secure: AAABAEl5}")))
    assert problem.startswith("login.allowed_cidrs[0]: got an encrypted value;")
    config = as_the_engine_has_it(written(tmp_path, FEWEST))
    with pytest.raises(SettingsError, match="login: got an encrypted value"):
        from_config(
            lambda key: config.get(f"slurm-eks:{key}"), "us-west-2", "dev", keys=config, secret_keys=["slurm-eks:login"]
        )


def test_a_stack_without_a_region_is_told_where_it_stands(tmp_path: Path) -> None:
    (problem,) = problems_of(written(tmp_path, FEWEST.replace("  aws:region: us-west-2\n", "")))
    assert problem.startswith("aws:region: got nothing;")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("config:\n  - a\n", "Pulumi.dev.yaml: got no config; settings stand below `config:`"),
        ("- a\n", "Pulumi.dev.yaml: got no config; settings stand below `config:`"),
        ("config:\n  nodesets: {}\n", "config.nodesets: got a key; a key without a namespace is"),
        (f"{FEWEST}  slurm-eks:tags: {{a: x, a: y}}\n", "Pulumi.dev.yaml:7: got no valid YAML; the key 'a' stands"),
        (
            f"{FEWEST}  slurm-eks:tags: {{until: 2027-01-31}}\n",
            "Pulumi.dev.yaml:7: got no valid YAML; 2027-01-31 is read",
        ),
        ("config: [\n", "Pulumi.dev.yaml:2: got no valid YAML;"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_line(tmp_path: Path, text: str, problem: str) -> None:
    (found,) = problems_of(written(tmp_path, text))
    assert found.startswith(problem)


def test_a_stack_without_a_file_is_told_so(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path / "Pulumi.dev.yaml")
    assert problem.startswith("Pulumi.dev.yaml: got no file;")


def test_a_section_that_is_no_json_is_refused_as_what_it_is() -> None:
    given = {"nodesets": "slinky", "login": '{"allowed_cidrs": ["203.0.113.7/32"]}'}
    with pytest.raises(SettingsError, match=r"nodesets: got 'slinky'; it must be an object"):
        from_config(given.get, "us-west-2", "dev")
