from __future__ import annotations

import pytest

from components.login_endpoint import LoginEndpoint, LoginEndpointArgs
from facts import names
from plan.login import LoginPlan, plan_login
from plan.network import plan_network
from tests.plan.build import Login, stack
from tests.recorder import NODES, built, network_ids, on_kubernetes
from tools.recording import Record

SERVICE = "kubernetes:core/v1:Service"
CIDRS = ("203.0.113.7/32", "198.51.100.0/24")


def two_ranges() -> LoginPlan:
    settings = stack(login=Login(allowed_cidrs=CIDRS))
    return plan_login(settings, plan_network(settings))


@pytest.fixture(scope="module")
def record() -> Record:
    def make() -> dict[str, object]:
        login = LoginEndpoint(
            "ssh",
            LoginEndpointArgs(plan=two_ranges(), network=network_ids(), nodes=NODES),
            on_kubernetes(),
        )
        return {"endpoint": login.endpoint, "command": login.command}

    return built(make)


def test_port_22_is_open_to_the_listed_ranges_and_to_nobody_else(record: Record) -> None:
    rules = [r.inputs for r in record.of("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")]
    assert {(r["cidrIpv4"], r["ipProtocol"], r["fromPort"], r["toPort"]) for r in rules} == {
        (cidr, "tcp", 22, 22) for cidr in CIDRS
    }


def test_the_load_balancer_reaches_the_login_pods_and_nothing_else(record: Record) -> None:
    rule = record.one("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule").inputs
    assert (rule["referencedSecurityGroupId"], rule["fromPort"], rule["toPort"]) == ("sg-cluster", 22, 22)
    assert "cidrIpv4" not in rule


def test_the_load_balancer_carries_that_group_beside_the_planned_annotations(record: Record) -> None:
    plan = two_ranges()
    assert record.one(SERVICE).inputs["metadata"]["annotations"] == {
        **plan.annotations,
        "service.beta.kubernetes.io/aws-load-balancer-security-groups": "ssh-id",
    }


def test_the_service_names_its_class_and_selects_the_charts_login_pods(record: Record) -> None:
    spec = record.one(SERVICE).inputs["spec"]
    assert (spec["type"], spec["loadBalancerClass"]) == ("LoadBalancer", "service.k8s.aws/nlb")
    assert spec["selector"] == names.LOGIN_SELECTOR
    assert spec["ports"] == [{"name": "ssh", "protocol": "TCP", "port": 22, "targetPort": "login"}]


def test_users_are_told_where_to_ssh(record: Record) -> None:
    assert record.outputs == {"endpoint": "ssh.elb.invalid", "command": "ssh root@ssh.elb.invalid"}
