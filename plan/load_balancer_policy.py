"""The IAM policy of the AWS Load Balancer Controller, for what this product asks of it: network load balancers.

Follows docs/install/iam_policy.json of the controller's v3.5.0 statement by statement, so that its behaviour with NLBs
is the documented one. Left out is what belongs to features that the release switches off (WAF, WAFv2, Shield) or that
only application load balancers and TLS listeners use (Cognito, ACM and IAM certificates, rules, web ACLs); a test holds
the two documents against each other.
"""

from __future__ import annotations

import json
from typing import Final, TypeAlias

_Tests: TypeAlias = "dict[str, str | list[str]]"
_Condition: TypeAlias = "dict[str, _Tests]"
_Statement: TypeAlias = "dict[str, str | list[str] | _Condition]"

_ON_REQUEST: Final = "aws:RequestTag/elbv2.k8s.aws/cluster"
_ON_RESOURCE: Final = "aws:ResourceTag/elbv2.k8s.aws/cluster"  # the controller tags all that it makes

_SECURITY_GROUPS: Final = "arn:aws:ec2:*:*:security-group/*"
_TARGET_GROUPS: Final = "arn:aws:elasticloadbalancing:*:*:targetgroup/*/*"
_LOAD_BALANCERS: Final = "arn:aws:elasticloadbalancing:*:*:loadbalancer/net/*/*"
_LISTENERS: Final = "arn:aws:elasticloadbalancing:*:*:listener/net/*/*/*"

_EC2_READS: Final = (
    "DescribeAccountAttributes DescribeAddresses DescribeAvailabilityZones DescribeCoipPools DescribeInstances "
    "DescribeInternetGateways DescribeIpamPools DescribeNetworkInterfaces DescribeRouteTables DescribeSecurityGroups "
    "DescribeSubnets DescribeTags DescribeVpcPeeringConnections DescribeVpcs GetCoipPoolUsage GetSecurityGroupsForVpc"
)
_ELB_READS: Final = (
    "DescribeCapacityReservation DescribeListenerAttributes DescribeListenerCertificates DescribeListeners "
    "DescribeLoadBalancerAttributes DescribeLoadBalancers DescribeRules DescribeSSLPolicies DescribeTags "
    "DescribeTargetGroupAttributes DescribeTargetGroups DescribeTargetHealth DescribeTrustStores"
)


def _allow(
    service: str, verbs: str, resource: str | list[str] = "*", condition: _Condition | None = None
) -> _Statement:
    statement: _Statement = {
        "Effect": "Allow",
        "Action": [f"{service}:{verb}" for verb in verbs.split()],
        "Resource": resource,
    }
    return statement if condition is None else statement | {"Condition": condition}


def load_balancer_policy() -> str:
    """The policy document as JSON text."""
    # IAM's `Null: "false"` reads: the tag is there. Tags of what is ours may change, the cluster tag itself may not.
    ours: _Condition = {"Null": {_ON_RESOURCE: "false"}}
    retag: _Condition = {"Null": {_ON_REQUEST: "true", _ON_RESOURCE: "false"}}
    tagged_at_birth: _Tests = {_ON_REQUEST: "false"}
    elb = "elasticloadbalancing"
    statements = [
        _allow(
            "iam",
            "CreateServiceLinkedRole",
            condition={"StringEquals": {"iam:AWSServiceName": "elasticloadbalancing.amazonaws.com"}},
        ),
        _allow("ec2", _EC2_READS),
        _allow(elb, _ELB_READS),
        # Not narrowed to our own groups: rules are also written into the nodes' group, which is the cluster's.
        _allow("ec2", "AuthorizeSecurityGroupIngress RevokeSecurityGroupIngress CreateSecurityGroup"),
        _allow(
            "ec2",
            "CreateTags",
            _SECURITY_GROUPS,
            {"StringEquals": {"ec2:CreateAction": "CreateSecurityGroup"}, "Null": tagged_at_birth},
        ),
        _allow("ec2", "CreateTags DeleteTags", _SECURITY_GROUPS, retag),
        _allow("ec2", "DeleteSecurityGroup", condition=ours),
        _allow(elb, "CreateLoadBalancer CreateTargetGroup", condition={"Null": tagged_at_birth}),
        _allow(elb, "CreateListener DeleteListener ModifyListener"),
        _allow(
            elb,
            "AddTags",
            [_TARGET_GROUPS, _LOAD_BALANCERS],
            {
                "StringEquals": {f"{elb}:CreateAction": ["CreateTargetGroup", "CreateLoadBalancer"]},
                "Null": tagged_at_birth,
            },
        ),
        _allow(elb, "AddTags RemoveTags", [_TARGET_GROUPS, _LOAD_BALANCERS], retag),
        _allow(elb, "AddTags RemoveTags", _LISTENERS),
        _allow(
            elb,
            "ModifyLoadBalancerAttributes SetIpAddressType SetSecurityGroups SetSubnets DeleteLoadBalancer "
            "ModifyTargetGroup ModifyTargetGroupAttributes DeleteTargetGroup ModifyListenerAttributes "
            "ModifyCapacityReservation ModifyIpPools",
            condition=ours,
        ),
        _allow(elb, "RegisterTargets DeregisterTargets", _TARGET_GROUPS),
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)
