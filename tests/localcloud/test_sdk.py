"""What the pinned SDK does not have is refused, with the property's path."""

from __future__ import annotations

import pytest

from localcloud import sdk
from localcloud.provider import UNKNOWN, Properties

VPC = "aws:ec2/vpc:Vpc"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"


def refused(token: str, inputs: Properties) -> dict[str, str]:
    return {f.property: f.reason for f in sdk.check_inputs(token, inputs)}


def test_inputs_that_the_sdk_allows_pass() -> None:
    inputs: Properties = {"cidrBlock": "10.0.0.0/16", "enableDnsSupport": True, "tags": {"Name": "x"}}
    assert refused(VPC, inputs) == {}


def test_unknown_and_absent_values_are_never_wrong() -> None:
    assert refused(VPC, {"cidrBlock": UNKNOWN, "enableDnsSupport": None, "tags": UNKNOWN}) == {}


def test_a_type_that_the_sdk_does_not_have_is_refused() -> None:
    assert "has no resource type aws:ec2/vpc:Vpz" in refused("aws:ec2/vpc:Vpz", {})[""]


def test_a_property_that_the_type_does_not_have_is_refused_with_the_nearest_names() -> None:
    assert "cidrBlock" in refused(VPC, {"cidrBlok": "10.0.0.0/16"})["cidrBlok"]


def test_a_property_deep_inside_is_named_with_its_whole_path() -> None:
    inputs: Properties = {"networkInterfaces": [{"deviceIndex": 0}, {"interfaceTyp": "efa"}]}
    assert list(refused(TEMPLATE, inputs)) == ["networkInterfaces[1].interfaceTyp"]


def test_a_required_property_that_is_missing_is_refused() -> None:
    problems = refused("aws:eks/cluster:Cluster", {"vpcConfig": {}})
    assert set(problems) == {"roleArn", "vpcConfig.subnetIds"}


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"enableDnsSupport": "true"}, "enableDnsSupport"),
        ({"tags": {"kubernetes.io/role/elb": 1}}, 'tags["kubernetes.io/role/elb"]'),
        ({"tags": ["a"]}, "tags"),
        ({"cidrBlock": {"a": "b"}}, "cidrBlock"),
        ({"ipv4NetmaskLength": True}, "ipv4NetmaskLength"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(inputs: Properties, path: str) -> None:
    assert list(refused(VPC, inputs)) == [path]


def test_the_version_asked_for_is_the_one_that_the_sdk_sends() -> None:
    import pulumi_aws

    assert sdk.package_version("aws") == pulumi_aws._utilities.get_version()
