"""The control plane and its addons: versions that fit, identities where they are needed, traps that are disarmed."""

from __future__ import annotations

import json

import pytest

from facts.addons import ADDONS, KUBERNETES_VERSIONS
from plan.cluster import AddonPlan, ClusterPlan, access_entry_key, plan_cluster
from plan.network import plan_network
from settings.models import Settings
from tests.plan.build import Cluster, example, nodeset, stack


def planned(settings: Settings) -> ClusterPlan:
    return plan_cluster(settings, plan_network(settings))


def addons(settings: Settings) -> dict[str, AddonPlan]:
    return {addon.name: addon for addon in planned(settings).addons}


def configuration(addon: AddonPlan) -> dict[str, object]:
    return json.loads(addon.configuration or "{}")


def test_the_gpu_health_agent_tolerates_the_taint_or_node_repair_would_replace_healthy_nodes() -> None:
    agent = addons(example("dev"))["eks-node-monitoring-agent"]
    assert configuration(agent) == {"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}}


def test_network_and_identity_are_there_before_the_first_node_and_the_rest_comes_after() -> None:
    before = [name for name, addon in addons(example("dev")).items() if addon.before_nodes]
    assert before == ["vpc-cni", "kube-proxy", "eks-pod-identity-agent"]


def test_every_addon_that_calls_aws_has_an_identity_of_its_own() -> None:
    identities = {
        name: (a.service_account, a.policy_arns) for name, a in addons(example("dev")).items() if a.policy_arns
    }
    policy = "arn:aws:iam::aws:policy"
    assert identities == {
        "vpc-cni": ("aws-node", (f"{policy}/AmazonEKS_CNI_Policy",)),
        "aws-ebs-csi-driver": ("ebs-csi-controller-sa", (f"{policy}/service-role/AmazonEBSCSIDriverPolicy",)),
        "aws-efs-csi-driver": ("efs-csi-controller-sa", (f"{policy}/service-role/AmazonEFSCSIDriverPolicy",)),
    }
    assert not any("CNI" in arn for arn in planned(example("dev")).node_policy_arns), (
        "the CNI's rights are not the node's"
    )


def test_the_cni_keeps_no_whole_spare_interface_of_addresses_on_each_node() -> None:
    cni = configuration(addons(example("dev"))["vpc-cni"])
    assert cni == {"enableNetworkPolicy": "true", "env": {"MINIMUM_IP_TARGET": "10", "WARM_IP_TARGET": "2"}}


@pytest.mark.parametrize(("nodes", "replicas"), [(2, 2), (30, 2), (31, 3), (254, 16)])
def test_dns_grows_with_nodes_and_not_with_the_cores_of_gpu_nodes(nodes: int, replicas: int) -> None:
    dns = addons(stack({"a": nodeset("p5.48xlarge", nodes, zone_id="usw2-az1")}))["coredns"]
    assert configuration(dns) == {"replicaCount": replicas}


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_every_kubernetes_version_that_settings_take_has_all_addons_and_its_own_kube_proxy(version: str) -> None:
    chosen = addons(stack(cluster=Cluster(version=version)))
    assert chosen.keys() == ADDONS.keys()
    assert chosen["kube-proxy"].version.startswith(f"v{version}.")


def test_settings_take_no_kubernetes_version_without_addons() -> None:
    from settings.shapes import KUBERNETES_VERSIONS as ACCEPTED

    assert set(ACCEPTED) <= set(KUBERNETES_VERSIONS)


def test_the_api_is_open_to_those_who_may_log_in_unless_set() -> None:
    assert planned(example("dev")).public_access_cidrs == ("203.0.113.7/32",)
    other = Cluster(api_allowed_cidrs=("198.51.100.0/24",))
    assert planned(stack(cluster=other)).public_access_cidrs == ("198.51.100.0/24",)


def test_like_named_administrator_roles_of_two_accounts_stay_two_entries() -> None:
    arns = ("arn:aws:iam::111111111111:role/team/admin", "arn:aws:iam::222222222222:role/team/admin")
    entries = planned(stack(cluster=Cluster(admin_role_arns=arns))).access_entries
    assert entries == {"111111111111-team-admin": arns[0], "222222222222-team-admin": arns[1]}
    assert access_entry_key("arn:aws:iam::123456789012:role/platform-admin") == "123456789012-platform-admin"


def test_pods_cannot_reach_the_credentials_of_core_nodes() -> None:
    assert planned(example("dev")).core.http_hop_limit == 1


def test_core_nodes_stand_in_two_zones_or_more() -> None:
    for name in ("dev", "prod"):
        assert len(planned(example(name)).core.subnet_keys) >= 2
