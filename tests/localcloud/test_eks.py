"""The cluster component makes what the real one makes for a bare control plane, and refuses to be asked for more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pulumi
import pytest
from pulumi.runtime import mocks

from localcloud import eks

GIVEN: dict[str, Any] = {
    "name": "demo",
    "version": "1.36",
    "vpcId": "vpc-1",
    "privateSubnetIds": ["subnet-1", "subnet-2"],
    "skipDefaultNodeGroup": True,
    "skipDefaultSecurityGroups": True,
    "useDefaultVpcCni": True,
    "authenticationMode": "API",
    "kubeProxyAddonOptions": {"enabled": False},
    "corednsAddonOptions": {"enabled": False},
    "bootstrapSelfManagedAddons": False,
    "encryptionConfigKeyArn": "arn:key",
    "endpointPublicAccess": True,
    "publicAccessCidrs": ["203.0.113.0/24"],
    "tags": {"team": "ml"},
    "accessEntries": {
        "admin": {
            "principalArn": "arn:role",
            "accessPolicies": {"all": {"policyArn": "arn:policy", "accessScope": {"type": "cluster"}}},
        }
    },
}
ARN = "arn:aws:eks:us-west-2:123456789012:cluster/demo"


class Recorder(mocks.Mocks):
    """Stands for the engine; keeps what was asked of it."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, Any]] = {}
        self.types: dict[str, str] = {}

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.made[args.name], self.types[args.name] = args.inputs, args.typ
        computed: dict[str, Any] = {}
        if args.typ == "aws:eks/cluster:Cluster":
            computed = {
                "arn": ARN,
                "endpoint": "https://demo.invalid",
                "certificateAuthority": {"data": "Q0E="},
                "vpcConfig": {**args.inputs["vpcConfig"], "clusterSecurityGroupId": "sg-1"},
                "identities": [{"oidcs": [{"issuer": "https://oidc.invalid/id/1"}]}],
            }
        return f"{args.name}-id", {"arn": f"arn:{args.name}", "name": args.name, **args.inputs, **computed}

    def call(self, args: mocks.MockCallArgs) -> NoReturn:
        raise AssertionError(f"the component looked up {args.token}")


@pytest.fixture
def engine() -> Iterator[Recorder]:
    recorder = Recorder()
    mocks.set_mocks(recorder, preview=False)
    yield recorder


def outputs(given: dict[str, Any], kubeconfig_file: str = "") -> dict[str, Any]:
    """The component's outputs once everything that it started has ended."""
    found: dict[str, Any] = {}

    @pulumi.runtime.test
    def build() -> pulumi.Output[None]:
        cluster = eks.Cluster("c", given, pulumi.ResourceOptions(), kubeconfig_file)
        names = ("kubeconfigJson", "clusterSecurityGroupId", "oidcIssuer")
        plain = pulumi.Output.all(**{name: cluster.outputs[name] for name in names})
        return plain.apply(lambda of: found.update(of))

    build()
    return found


def test_its_children_are_the_real_ones(engine: Recorder) -> None:
    outputs(GIVEN)
    assert engine.types == {
        "c": "eks:index:Cluster",
        "c-eksRole": "eks:index:ServiceRole",
        "c-eksRole-role": "aws:iam/role:Role",
        "c-eksRole-4b490823": "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
        "c-eksCluster": "aws:eks/cluster:Cluster",
        "c-eks-k8s": "pulumi:providers:kubernetes",
        "c-admin": "aws:eks/accessEntry:AccessEntry",
        "c-admin-all": "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
    }


def test_the_cluster_gets_the_inputs_that_the_real_component_gives_it(engine: Recorder) -> None:
    outputs(GIVEN)
    made = engine.made["c-eksCluster"]
    assert made["accessConfig"] == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True}
    assert made["encryptionConfig"] == {"provider": {"keyArn": "arn:key"}, "resources": ["secrets"]}
    assert made["vpcConfig"]["subnetIds"] == ["subnet-1", "subnet-2"]
    assert made["vpcConfig"]["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert made["tags"] == {"Name": "c-eksCluster", "team": "ml"}
    assert made["bootstrapSelfManagedAddons"] is False
    assert engine.made["c-admin-all"]["accessScope"] == {"type": "cluster"}


def test_its_kubeconfig_holds_the_arn_and_nothing_secret(engine: Recorder) -> None:
    made = outputs(GIVEN)
    kubeconfig = json.loads(made["kubeconfigJson"])
    assert kubeconfig["contexts"][0]["context"]["cluster"] == kubeconfig["clusters"][0]["name"] == ARN
    assert kubeconfig["users"][0]["user"] == {}
    assert (made["clusterSecurityGroupId"], made["oidcIssuer"]) == ("sg-1", "oidc.invalid/id/1")


def test_a_kubeconfig_file_takes_its_place(engine: Recorder, tmp_path: Path) -> None:
    file = tmp_path / "real.yaml"
    file.write_text("current-context: real\n")
    assert json.loads(outputs(GIVEN, str(file))["kubeconfigJson"]) == {"current-context": "real"}


def test_what_the_walkthrough_asks_for_is_accepted() -> None:
    assert eks.refusals("eks:index:Cluster", GIVEN) == {}


@pytest.mark.parametrize(
    ("change", "path", "reason"),
    [
        ({"clusterVersion": "1.36"}, "clusterVersion", "no such argument"),
        ({"fargate": True}, "fargate", "would make resources"),
        ({"instanceType": "m5.large"}, "instanceType", "would make resources"),
        ({"createOidcProvider": True}, "createOidcProvider", "would make resources"),
        ({"skipDefaultNodeGroup": None}, "skipDefaultNodeGroup", "must be True"),
        ({"skipDefaultSecurityGroups": False}, "skipDefaultSecurityGroups", "must be True"),
        ({"useDefaultVpcCni": None}, "useDefaultVpcCni", "must be True"),
        ({"authenticationMode": "CONFIG_MAP"}, "authenticationMode", "must be 'API'"),
        ({"kubeProxyAddonOptions": None}, "kubeProxyAddonOptions.enabled", "would make resources"),
        ({"corednsAddonOptions": {"enabled": True}}, "corednsAddonOptions.enabled", "would make resources"),
        ({"vpcId": None}, "vpcId", "default VPC"),
        ({"privateSubnetIds": None}, "subnetIds", "give either"),
        ({"subnetIds": ["subnet-1"]}, "subnetIds", "give either"),
        ({"endpointPublicAccess": False}, "publicAccessCidrs", "only be set when"),
    ],
)
def test_what_would_make_more_is_refused(change: dict[str, Any], path: str, reason: str) -> None:
    found = eks.refusals("eks:index:Cluster", {**GIVEN, **change})
    assert list(found) == [path] and reason in found[path]


def test_other_components_are_refused() -> None:
    assert "eks:index:Cluster only" in eks.refusals("eks:index:ManagedNodeGroup", {})[""]
