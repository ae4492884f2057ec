"""Rules for every resource of the program, whatever component makes it."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.recorder import AWS_TAGS, program
from tools.recording import Record, record_stack, stack_config

# Longest physical names, and what Pulumi appends to a logical name to make one (dash and seven digits).
AUTONAME_LENGTH = 8
LONGEST_NAMES = {
    "aws:ec2/launchTemplate:LaunchTemplate": 128,
    "aws:ec2/placementGroup:PlacementGroup": 255,
    "aws:ec2/securityGroup:SecurityGroup": 255,
    "aws:eks/nodeGroup:NodeGroup": 63,
    "aws:iam/role:Role": 64,
    "aws:iam/rolePolicy:RolePolicy": 128,
    "aws:kms/alias:Alias": 250,
    "aws:rds/instance:Instance": 63,
    "aws:rds/parameterGroup:ParameterGroup": 255,
    "aws:rds/subnetGroup:SubnetGroup": 255,
}


@pytest.fixture(scope="module", params=["dev", "prod"])
def record(request: pytest.FixtureRequest) -> Record:
    return program(request.param)


def takes_tags(type_: str) -> bool:
    """Whether the pinned SDK's class of an `aws:` type has `tags`."""
    _, module, kind = type_.split(":")
    resource = getattr(importlib.import_module(f"pulumi_aws.{module.split('/')[0]}"), kind)
    return "tags" in inspect.signature(resource._internal_init).parameters


def test_every_aws_resource_that_takes_tags_says_whose_it_is(record: Record) -> None:
    taggable = [r for r in record.resources if r.type.startswith("aws:") and takes_tags(r.type)]
    assert len(taggable) > 30
    assert [r.urn for r in taggable if not r.inputs.get("tags", {}).keys() >= AWS_TAGS] == []


def test_instances_and_their_disks_are_tagged_through_their_launch_template(record: Record) -> None:
    for template in record.of("aws:ec2/launchTemplate:LaunchTemplate"):
        for specification in template.inputs["tagSpecifications"]:
            assert specification["tags"].keys() >= AWS_TAGS


def test_the_longest_names_that_settings_allow_still_fit_aws() -> None:
    config = stack_config("prod")
    nodesets = config["slurm-eks:nodesets"].replace('"h100"', f'"{"n" * 32}"')
    made = record_stack("prod", config={**config, "slurm-eks:name": "s" * 26, "slurm-eks:nodesets": nodesets})
    assert any("s" * 26 + "-" + "n" * 32 in r.name for r in made.resources)
    for r in made.resources:
        if "name" not in r.inputs and r.type in LONGEST_NAMES:
            assert len(r.name) + AUTONAME_LENGTH <= LONGEST_NAMES[r.type], r.name


def test_every_release_is_pinned_and_named(record: Record) -> None:
    for release in record.of("kubernetes:helm.sh/v3:Release"):
        assert {"name", "namespace", "version", "timeout"} <= release.inputs.keys(), release.name


def test_every_kubernetes_object_has_the_name_that_others_know_it_by(record: Record) -> None:
    for r in record.resources:
        if r.type.startswith("kubernetes:") and not r.type.endswith(":Release"):
            assert r.inputs["metadata"].get("name"), r.name


def test_every_resource_is_named_after_its_component(record: Record) -> None:
    """NodeGroup alone is not: its name may have 63 characters, and its cluster is its scope."""
    for r in record.resources:
        if r.custom and r.type != "aws:eks/nodeGroup:NodeGroup":
            assert r.name.startswith(r.parent.rpartition("::")[2]), r.urn
