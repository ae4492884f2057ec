from __future__ import annotations

import json

import pytest

from components.cluster import Cluster, ClusterArgs
from plan.cluster import ClusterPlan, plan_cluster
from plan.network import plan_network
from tests.plan.build import example
from tests.recorder import before, built, network_ids, probe
from tools.recording import Record

ADDON = "aws:eks/addon:Addon"
NODEGROUP = "aws:eks/nodeGroup:NodeGroup"
CONTROL_PLANE = "eks:index:Cluster"
PROVIDER = "pulumi:providers:kubernetes"


def plan_of(name: str) -> ClusterPlan:
    settings = example(name)
    return plan_cluster(settings, plan_network(settings))


def cluster_of(plan: ClusterPlan) -> Record:
    def make() -> dict[str, object]:
        network = network_ids({*plan.subnet_keys, *plan.core.subnet_keys})
        cluster = Cluster("k8s", ClusterArgs(plan=plan, network=network))
        probe("name", cluster.nodes.cluster_name)
        probe("role", cluster.nodes.role_arn)
        return {"kubeconfig": cluster.kubeconfig, "security_group_id": cluster.nodes.security_group_id}

    return built(make)


@pytest.fixture(scope="module")
def record() -> Record:
    return cluster_of(plan_of("dev"))


def test_the_log_group_with_its_retention_is_there_before_eks_would_make_one_without(record: Record) -> None:
    group = record.one("aws:cloudwatch/logGroup:LogGroup", "k8s")
    assert group.inputs["name"] == "/aws/eks/slurm-dev/cluster"
    assert group.inputs["retentionInDays"] == plan_of("dev").log_retention_days
    assert group.urn in record.one(CONTROL_PLANE).depends_on


def test_the_control_plane_admits_by_access_entries_encrypts_secrets_and_has_no_second_owner_of_addons(
    record: Record,
) -> None:
    inputs = record.one(CONTROL_PLANE).inputs
    assert inputs["authenticationMode"] == "API"
    assert inputs["encryptionConfigKeyArn"].endswith(":k8s")
    assert (inputs["endpointPrivateAccess"], inputs["endpointPublicAccess"]) == (True, True)
    assert inputs["publicAccessCidrs"] == ["203.0.113.7/32"]
    assert len(inputs["enabledClusterLogTypes"]) == 5
    assert inputs["skipDefaultNodeGroup"] and inputs["skipDefaultSecurityGroups"] and inputs["useDefaultVpcCni"]
    assert inputs["bootstrapSelfManagedAddons"] is False
    assert not inputs["kubeProxyAddonOptions"]["enabled"] and not inputs["corednsAddonOptions"]["enabled"]
    assert set(inputs["subnetIds"]) == {f"{key}-id" for key in plan_of("dev").subnet_keys}


def test_administrators_of_prod_get_an_access_entry_with_cluster_scope() -> None:
    inputs = cluster_of(plan_of("prod")).one(CONTROL_PLANE).inputs
    (entry,) = inputs["accessEntries"].values()
    assert entry["principalArn"] == "arn:aws:iam::123456789012:role/platform-admin"
    (policy,) = entry["accessPolicies"].values()
    assert policy["policyArn"].endswith("/AmazonEKSClusterAdminPolicy")
    assert policy["accessScope"] == {"type": "cluster"}
    assert inputs["deletionProtection"] is True


def test_every_addon_of_the_plan_is_pinned(record: Record) -> None:
    assert {r.inputs["addonName"]: r.inputs["addonVersion"] for r in record.of(ADDON)} == {
        a.name: a.version for a in plan_of("dev").addons
    }


def test_network_and_identity_are_there_when_the_first_node_boots_and_what_needs_nodes_comes_after(
    record: Record,
) -> None:
    core = record.one(NODEGROUP)
    for addon in plan_of("dev").addons:
        resource = record.one(ADDON, f"k8s-{addon.name}")
        if addon.before_nodes:
            assert resource.urn in core.depends_on, addon.name
        else:
            assert core.urn in resource.depends_on, addon.name


def test_whoever_takes_the_clusters_name_waits_for_network_and_identity_of_nodes(record: Record) -> None:
    needed = before(record, record.one("aws:cloudwatch/logGroup:LogGroup", "probe-name"))
    assert {(ADDON, f"k8s-{a.name}") for a in plan_of("dev").addons if a.before_nodes} <= needed
    assert (NODEGROUP, "k8s-core") not in needed, "GPU nodes would wait for the core nodes"


def test_addons_that_call_aws_get_a_role_for_their_account_with_its_policies_attached_first(record: Record) -> None:
    for addon in plan_of("dev").addons:
        resource = record.one(ADDON, f"k8s-{addon.name}")
        if addon.service_account is None:
            assert "podIdentityAssociations" not in resource.inputs
            continue
        (association,) = resource.inputs["podIdentityAssociations"]
        assert association["serviceAccount"] == addon.service_account
        role = record.one("aws:iam/role:Role", f"k8s-{addon.name.removeprefix('aws-')}")
        assert association["roleArn"].endswith(role.name)
        (statement,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
        assert statement["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        attached = [r for r in map(record.by_urn, resource.depends_on) if r.type.endswith("RolePolicyAttachment")]
        assert {r.inputs["policyArn"] for r in attached} == set(addon.policy_arns)


def test_no_node_joins_before_its_role_has_its_policies(record: Record) -> None:
    for node in (record.one(NODEGROUP), record.one("aws:cloudwatch/logGroup:LogGroup", "probe-role")):
        needed = (record.by_urn(urn) for urn in record.before(node))
        attached = {r.inputs["policyArn"] for r in needed if r.name.startswith("k8s-node-")}
        assert attached == set(plan_of("dev").node_policy_arns), node.name


def test_core_nodes_are_spread_labelled_untainted_and_of_fixed_number(record: Record) -> None:
    group = record.one(NODEGROUP)
    assert group.inputs["scalingConfig"] == {"minSize": 2, "maxSize": 2, "desiredSize": 2}
    assert group.inputs["labels"]["role"] == "core"
    assert "taints" not in group.inputs
    assert set(group.inputs["subnetIds"]) == {f"{key}-routed-id" for key in plan_of("dev").core.subnet_keys}
    assert group.ignore_changes == (), "an ignored desired size below a raised minimum is refused by EKS"


def test_pods_on_core_nodes_cannot_read_the_nodes_credentials_and_disks_are_encrypted(record: Record) -> None:
    template = record.one("aws:ec2/launchTemplate:LaunchTemplate").inputs
    assert template["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }
    (disk,) = template["blockDeviceMappings"]
    assert (disk["ebs"]["encrypted"], disk["ebs"]["volumeType"]) == ("true", "gp3")
    assert {s["resourceType"] for s in template["tagSpecifications"]} == {"instance", "volume", "network-interface"}


def test_all_that_lives_in_kubernetes_comes_after_nodes_and_addons_and_goes_before_them(record: Record) -> None:
    provider = record.one(PROVIDER)
    needed = before(record, provider)
    assert (NODEGROUP, "k8s-core") in needed
    assert {(ADDON, f"k8s-{a.name}") for a in plan_of("dev").addons} <= needed
    assert provider.inputs["enableConfigMapMutable"] == "true"


def test_the_kubeconfig_is_a_secret_wherever_it_goes(record: Record) -> None:
    assert "kubeconfig" in record.secret_outputs
    assert "kubeconfig" in record.one(PROVIDER).secret_paths
