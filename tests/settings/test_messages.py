"""The whole report for a stack with everything wrong: all at once, in the order of the file, and never a secret in it."""

# One line of the report a line here.
# ruff: noqa: E501

from __future__ import annotations

import re
from pathlib import Path

import pytest

from settings.load import from_stack_file
from settings.problems import Problem, SettingsError, listed, nearest, shown
from tests.settings.build import GOOD, told, told_of

EVERYTHING_WRONG = """
config:
  aws:region: us-west2
  slurm-eks:nam: ml
  slurm-eks:tags:
    kubernetes.io/cluster/ml: owned
  slurm-eks:network:
    vpc_cidr: 10.0.0.1/16
    nat: singel
  slurm-eks:cluster:
    version: 1.30
    core: {nodes: 1}
  slurm-eks:nodesets:
    slinky:
      instance_type: g6.12xlarg
      nodes: "2"
    h100:
      instance_type: p5.48xlarge
      nodes: 128
      zone: usw2-az2
      gres: gpu:h200:4
      placement_group: mine
      capacity: {reservation_id: cr-0123456789abcdef0, kind: block}
      partition: {default: true}
  slurm-eks:image:
    tag: 25.05.3-torch2.9
  slurm-eks:slurm:
    extra_conf:
      GresTypes: [craynetwork]
      AccountingStorageEnforce: associations
    extra_cgroup_conf:
      ConstrainDevices: "no"
  slurm-eks:login:
    allowed_cidrs: [0.0.0.0/0]
    authorized_keys: [-----BEGIN OPENSSH PRIVATE KEY----- hunter2]
    password: hunter2
"""
REPORT = """\
20 problems in the settings:
  aws:region: got 'us-west2'; it is no region that offers a GPU type of facts/hardware.py; did you mean us-west-2?
  tags.kubernetes.io/cluster/ml: got 'owned'; the load balancer controller stops when a second security group of a node has this tag; leave it out
  network.vpc_cidr: got '10.0.0.1/16'; it has bits set behind the prefix; write 10.0.0.0/16 for the range or 10.0.0.1/32 for the address
  network.nat: got 'singel'; NAT gateways: one, or one per core zone (derived: single below 16 GPU nodes); did you mean single? use 'single' or 'per_zone'
  cluster.version: got 1.3; it must be a text, and YAML reads a version such as 1.30 as the number 1.3; put it in quotes, like "1.36"
  cluster.core.nodes: got 1; count over all zones, so that one may fail; give 2 to 60
  nodesets.slinky.nodes: got '2'; it must be a whole number; leave out the quotes
  nodesets.h100.zone: got 'usw2-az2'; nodesets.h100 has no key 'zone'; did you mean zone_id? the keys are instance_type, nodes, zone_id, efa, placement_group, capacity, gres, partition, root_volume_gib, local_nvme and shm_gib
  nodesets.slinky.instance_type: got 'g6.12xlarg'; facts/hardware.py has no such instance type, and nothing is deployed whose numbers are not known; did you mean g6.12xlarge?
  nodesets.h100.gres: got 'gpu:h200:4'; three numbers must agree: gres says 4, the worker's nvidia.com/gpu limit is 8 and p5.48xlarge has 8 GPUs (more makes slurmd invalid, fewer leaves GPUs unused); leave it out, gpu:nvidia_h100_80gb_hbm3:8 is derived
  nodesets.h100.gres: got 'gpu:h200:4'; GRES type 'h200' cannot match the NVIDIA H100 80GB HBM3 of p5.48xlarge, and slurmd drops it; use 'nvidia_h100_80gb_hbm3' or leave gres out
  nodesets.h100.placement_group: got 'mine' beside cr-0123456789abcdef0; a group is a constraint from outside the block: starts fail for lack of capacity while the block has some; leave placement_group out, AWS places a block close together by itself
  image.tag: got '25.05.3-torch2.9'; slurmd image 25.05.3 does not belong to chart 1.2.1 (Slurm 26.05): workers end in ImagePullBackOff or cannot register; begin the tag with 26.05.2
  slurm.extra_conf.GresTypes: got ['craynetwork']; it must contain 'gpu', because nodeset 'h100' declares Gres=gpu:nvidia_h100_80gb_hbm3:8 and Slurm drops every GRES of a type that is not listed, without a word; leave it out, it is derived
  slurm.extra_conf.AccountingStorageEnforce: got 'associations' without accounting; there is no database of users and accounts to hold jobs against, so every job would be refused; set accounting.enabled: true, or leave it out
  slurm.extra_cgroup_conf.ConstrainDevices: got 'no'; it is yes, so that a job sees the GPUs it asked for and no others; leave it out
  login.authorized_keys[0]: got a text of 43 characters (not shown); that is a private key, and whoever can read this file can now use it; replace the key pair, and put the line of its .pub file here
  login.password: got a text of 7 characters (not shown); login has no key 'password'; the keys are allowed_cidrs, authorized_keys and replicas
  login.allowed_cidrs[0]: got '0.0.0.0/0'; it opens SSH to the whole world, or to most of it; give the addresses of your users, such as 203.0.113.7/32
  nam: got 'ml'; the settings have no key 'nam'; did you mean name? the keys are name, tags, network, cluster, nodesets, storage, image, slurm, accounting, login, charts, observability and validation
"""


def report(folder: Path, text: str) -> str:
    path = folder / "Pulumi.dev.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as raised:
        from_stack_file(path, "dev")
    return str(raised.value)


def test_everything_that_is_wrong_is_reported_at_once_and_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert report(tmp_path, EVERYTHING_WRONG) == REPORT.rstrip("\n")


def test_no_secret_is_in_the_report_whatever_is_wrong_with_it(tmp_path: Path) -> None:
    assert "hunter2" not in report(tmp_path, EVERYTHING_WRONG)


@pytest.mark.parametrize(
    ("changes", "secret"),
    [
        ({"login": {"authorized_keys": "ssh-ed25519 s3cr3t"}}, "s3cr3t"),
        ({"login": {"authorized_keys": [["s3cr3t"]]}}, "s3cr3t"),
        ({"login": {"api_token": "s3cr3t"}}, "s3cr3t"),
        ({"database_password": "s3cr3t"}, "s3cr3t"),
        ({"tags": {"secret": ["s3cr3t"]}}, "s3cr3t"),
        ({"slurm": {"extra_conf": {"AccountingStoragePass": "s3cr3t s3cr3t"}}}, "s3cr3t"),
        ({"name": "AKIA" + "ABCDEFGHIJKLMNOP"}, "ABCDEFGHIJKLMNOP"),
        ({"image": {"prebuilt": "ghp" + "_s3cr3t"}}, "s3cr3t"),
    ],
)
def test_a_secret_in_a_wrong_place_is_not_shown(changes: dict[str, object], secret: str) -> None:
    problems = told(changes)
    assert problems
    assert not any(secret in problem for problem in problems)


def test_a_misread_value_is_reported_once_and_hides_no_other_problem() -> None:
    """A rule that would need the misread value says nothing, one that needs it not goes on."""
    changes = {
        "nodesets": {"slinky": {"instance_type": ["g6.12xlarge"], "gres": "gpu:h100:8", "root_volume_gib": 50}},
        "cluster": {"core": {"instance_type": "g6.xlarge", "nodes": "2"}},
    }
    assert [problem.partition(":")[0] for problem in told(changes)] == [
        "cluster.core.nodes",
        "cluster.core.instance_type",
        "nodesets.slinky.instance_type",
        "nodesets.slinky.root_volume_gib",
    ]


@pytest.mark.parametrize("broken", [None, 3, [], {}, {"slinky": 3}, {"Slinky": {}}, {"slinky": {"nodes": 2}}, {3: {}}])
def test_broken_nodesets_hide_no_problem_of_other_sections(broken: object) -> None:
    problems = told_of({**GOOD, "nodesets": broken, "login": {"allowed_cidrs": ["0.0.0.0/0"]}})
    assert any(problem.startswith("nodesets") for problem in problems)
    assert any(problem.startswith("login.allowed_cidrs[0]: got '0.0.0.0/0'") for problem in problems)


@pytest.mark.parametrize(
    "section", ["network", "cluster", "image", "slurm", "login", "charts", "tags", "name", "region"]
)
@pytest.mark.parametrize("junk", [3, "junk!", ["junk"], {"junk": 1}], ids=repr)
def test_junk_in_any_section_is_a_problem_of_that_section_and_no_crash(section: str, junk: object) -> None:
    place = "aws:region" if section == "region" else section
    problems = told_of({**GOOD, section: junk})
    assert problems
    assert all(problem.startswith(place) for problem in problems)


def test_a_problem_reads_as_path_given_why_and_remedy() -> None:
    problem = Problem(path="a.b", given="3", why="it is odd", remedy="give 4")
    assert str(problem) == "a.b: got 3; it is odd; give 4"
    assert str(SettingsError([problem])) == "1 problem in the settings:\n  a.b: got 3; it is odd; give 4"


def test_every_line_of_the_report_has_its_four_parts() -> None:
    for line in REPORT.splitlines()[1:]:
        assert re.fullmatch(r"  [^ ].*?: got .+?; .+?; .+[^.;]", line), line


def test_values_are_shown_as_their_writer_knows_them() -> None:
    given: list[object] = [None, True, 3, 1.5, "x", "y" * 100, {}, {"a": 1}, [], ["a", 1], [1, 2, 3, 4, 5]]
    assert [shown(value, "") for value in given] == [
        "nothing",
        "true",
        "3",
        "1.5",
        "'x'",
        f"'{'y' * 80}...'",
        "an empty object",
        "an object",
        "an empty list",
        "['a', 1]",
        "a list of 5",
    ]


def test_lists_are_read_aloud() -> None:
    assert [listed(""), listed("a"), listed("ab"), listed("abc", "or")] == ["none", "a", "a and b", "a, b or c"]


def test_the_nearest_word_is_none_when_nothing_is_near() -> None:
    assert (nearest("zone", ["zone_id", "nodes"]), nearest("xyz", ["zone_id", "nodes"])) == ("zone_id", None)
