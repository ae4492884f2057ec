"""The `aws` stand-in, called as the engine calls it: what AWS refuses is refused, naming resource and property."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from moto.core.base_backend import BackendDict

from localcloud.aws import Provider
from localcloud.aws.kinds import KINDS
from localcloud.provider import UNKNOWN, Failure, Properties, ProviderError, Urn, Value

VPC, SUBNET, GROUP = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:ec2/securityGroup:SecurityGroup"
TEMPLATE, PLACEMENT = "aws:ec2/launchTemplate:LaunchTemplate", "aws:ec2/placementGroup:PlacementGroup"
ROLE, ATTACHMENT = "aws:iam/role:Role", "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
CLUSTER, NODES, ADDON = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup", "aws:eks/addon:Addon"
ENTRY, ACCESS = "aws:eks/accessEntry:AccessEntry", "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
IDENTITY, FILES = "aws:eks/podIdentityAssociation:PodIdentityAssociation", "aws:efs/fileSystem:FileSystem"
MOUNT, POINT = "aws:efs/mountTarget:MountTarget", "aws:efs/accessPoint:AccessPoint"
GATEWAY, KEY = "aws:ec2/internetGateway:InternetGateway", "aws:kms/key:Key"
TRUST = json.dumps({"Version": "2012-10-17", "Statement": []})
NOWHERE = "0123456789abcdef0"


class Cloud:
    """Creates and remembers, as the engine's state does."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.made: list[tuple[Urn, str, Properties, Properties]] = []

    def check(
        self, token: str, name: str, inputs: Properties, old: Properties | None = None
    ) -> tuple[Properties, list[Failure]]:
        urn = Urn(f"urn:pulumi:dev::test::{token}::{name}", name.encode())
        return self.provider.check(urn, old or {}, inputs)

    def create(self, token: str, name: str, /, **inputs: Any) -> Properties:
        checked, failures = self.check(token, name, inputs)
        assert not failures, failures
        urn = Urn(f"urn:pulumi:dev::test::{token}::{name}")
        id, state = self.provider.create(urn, checked, preview=False)
        self.made.append((urn, id, checked, state))
        return {**state, "id": id}

    def changed(self, token: str, name: str, /, **change: Any) -> tuple[list[str], Properties]:
        """Update a resource unless it must be replaced; returns what forces that, and the new state."""
        at, (urn, id, inputs, state) = self._find(token, name)
        news = {k: v for k, v in {**inputs, **change}.items() if v is not None}
        diff = self.provider.diff(urn, id, inputs, state, news)
        assert diff.changes
        if not diff.replaces:
            state = self.provider.update(urn, id, inputs, state, news, preview=False)
            self.made[at] = (urn, id, news, state)
        return diff.replaces, state

    def read(self, token: str, name: str) -> tuple[Properties, Properties] | None:
        urn, id, inputs, state = self._find(token, name)[1]
        return self.provider.read(urn, id, inputs, state)

    def delete(self, token: str, name: str) -> None:
        at, (urn, id, _, state) = self._find(token, name)
        self.provider.delete(urn, id, state)
        del self.made[at]

    def _find(self, token: str, name: str) -> tuple[int, tuple[Urn, str, Properties, Properties]]:
        return next((i, m) for i, m in enumerate(self.made) if m[0].type == token and m[0].name == name)

    def boto(self, service: str) -> Any:
        return self.provider.cloud.client(service, "us-west-2")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Cloud:
    """A cloud with a network, a cluster and its roles."""
    BackendDict.reset()
    provider = Provider(tmp_path_factory.mktemp("aws"))
    provider.configure({"region": "us-west-2"})
    made = Cloud(provider)
    vpc = made.create(VPC, "net", cidrBlock="10.0.0.0/16", tags={"Name": "net"})["id"]
    for index, zone in enumerate(("usw2-az1", "usw2-az2")):
        made.create(SUBNET, zone, vpcId=vpc, cidrBlock=f"10.0.{index}.0/24", availabilityZoneId=zone)
    made.create(ROLE, "role", assumeRolePolicy=TRUST)
    made.create(GROUP, "efa", vpcId=vpc)
    made.create(CLUSTER, "main", **cluster(made))
    return made


def state(cloud: Cloud, token: str, name: str) -> Properties:
    _, id, _, found = cloud._find(token, name)[1]
    return {**found, "id": id}


def subnets(cloud: Cloud) -> list[Any]:
    return [state(cloud, SUBNET, zone)["id"] for zone in ("usw2-az1", "usw2-az2")]


def cluster(cloud: Cloud, **change: Any) -> dict[str, Any]:
    access = {"authenticationMode": "API"}
    role = state(cloud, ROLE, "role")["arn"]
    return {"roleArn": role, "vpcConfig": {"subnetIds": subnets(cloud)}, "accessConfig": access, **change}


def nodes(cloud: Cloud, **change: Any) -> dict[str, Any]:
    inputs = {
        "clusterName": state(cloud, CLUSTER, "main")["name"],
        "nodeRoleArn": state(cloud, ROLE, "role")["arn"],
        "subnetIds": subnets(cloud)[:1],
        "scalingConfig": {"desiredSize": 1, "minSize": 1, "maxSize": 1},
        "instanceTypes": ["g6.12xlarge"],
    }
    return {k: v for k, v in {**inputs, **change}.items() if v is not None}


def of_cluster(cloud: Cloud, **more: Any) -> dict[str, Any]:
    return {"clusterName": state(cloud, CLUSTER, "main")["name"], **more}


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(ProviderError) as refused:
        call()
    return str(refused.value)


# --- refused before anything is asked of AWS ------------------------------------------------------------------------


def test_a_type_that_the_sdk_has_and_the_local_cloud_does_not_model_is_refused(cloud: Cloud) -> None:
    _, failures = cloud.check("aws:ec2/keyPair:KeyPair", "k", {"publicKey": "ssh-ed25519 AAAA"})
    assert "aws:ec2/keyPair:KeyPair is a type that the local cloud does not model" in failures[0].reason


def test_a_property_that_the_sdk_does_not_have_is_refused(cloud: Cloud) -> None:
    assert cloud.check(VPC, "v", {"cidrBlok": "10.0.0.0/16"})[1][0].property == "cidrBlok"


def test_a_property_that_the_local_cloud_does_not_model_is_refused_and_not_dropped(cloud: Cloud) -> None:
    rules: list[Value] = [{"protocol": "-1", "fromPort": 0, "toPort": 0, "self": True}]
    _, failures = cloud.check(GROUP, "g", {"vpcId": UNKNOWN, "ingress": rules})
    assert [f.property for f in failures] == ["ingress"]


def test_more_efa_interfaces_than_the_type_has_are_refused_at_check(cloud: Cloud) -> None:
    interfaces: list[Value] = [{"deviceIndex": i, "interfaceType": "efa-only"} for i in range(2)]
    _, failures = cloud.check(TEMPLATE, "t", {"instanceType": "g6.12xlarge", "networkInterfaces": interfaces})
    assert [(f.property, f.reason) for f in failures] == [
        ("networkInterfaces", "2 EFA interfaces asked for, and g6.12xlarge has 1")
    ]


def test_a_network_card_that_the_type_does_not_have_is_refused(cloud: Cloud) -> None:
    inputs: Properties = {"instanceType": "g6.12xlarge", "networkInterfaces": [{"networkCardIndex": 1}]}
    assert "network card 1" in cloud.check(TEMPLATE, "t", inputs)[1][0].reason


def test_an_instance_type_that_ec2_does_not_have_is_refused(cloud: Cloud) -> None:
    assert "no instance type g6.13xlarge" in cloud.check(TEMPLATE, "t", {"instanceType": "g6.13xlarge"})[1][0].reason


# --- refused by AWS -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "inputs", "path"),
    [
        (SUBNET, {"vpcId": f"vpc-{NOWHERE}", "cidrBlock": "10.0.9.0/24"}, "vpcId"),
        (MOUNT, {"fileSystemId": "fs-01234567", "subnetId": f"subnet-{NOWHERE}"}, "subnetId"),
        (POINT, {"fileSystemId": "fs-01234567"}, "fileSystemId"),
        (TEMPLATE, {"vpcSecurityGroupIds": [f"sg-{NOWHERE}"]}, "vpcSecurityGroupIds[0]"),
        (FILES, {"kmsKeyId": f"arn:aws:kms:us-west-2:123456789012:key/{NOWHERE}", "encrypted": True}, "kmsKeyId"),
    ],
)
def test_an_id_that_does_not_exist_is_refused(cloud: Cloud, token: str, inputs: dict[str, Any], path: str) -> None:
    text = refusal(lambda: cloud.create(token, "lost", **inputs))
    assert text.startswith(f"{token} lost: ")
    assert f"{path}: " in text


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"clusterName": "nobody"}, "clusterName: "),
        ({"nodeRoleArn": "arn:aws:iam::123456789012:role/nobody"}, "nodeRoleArn: "),
        ({"subnetIds": [f"subnet-{NOWHERE}"]}, "subnetIds[0]: "),
        ({"launchTemplate": {"id": f"lt-{NOWHERE}", "version": "1"}, "instanceTypes": None}, "launchTemplate.id: "),
        ({"instanceTypes": ["hpc7a.96xlarge"]}, "not offered in usw2-az1"),
        ({"version": "1.99"}, "version: "),
    ],
)
def test_a_node_group_that_eks_cannot_make_is_refused(cloud: Cloud, change: dict[str, Any], path: str) -> None:
    assert path in refusal(lambda: cloud.create(NODES, "lost", **nodes(cloud, **change)))


def test_a_node_group_whose_template_does_not_fit_its_type_is_refused(cloud: Cloud) -> None:
    interfaces = [{"deviceIndex": i, "networkCardIndex": i, "interfaceType": "efa"} for i in range(4)]
    template = cloud.create(TEMPLATE, "four", networkInterfaces=interfaces)
    reference = {"id": template["id"], "version": "1"}
    text = refusal(lambda: cloud.create(NODES, "lost", **nodes(cloud, launchTemplate=reference)))
    assert "instanceTypes[0]: The launch template does not fit g6.12xlarge: 4 EFA interfaces" in text


def test_a_node_group_in_a_placement_group_that_does_not_exist_is_refused(cloud: Cloud) -> None:
    template = cloud.create(TEMPLATE, "astray", placement={"groupName": "nowhere"})
    reference = {"id": template["id"], "version": "1"}
    assert "placement group nowhere" in refusal(
        lambda: cloud.create(NODES, "lost", **nodes(cloud, launchTemplate=reference))
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"version": "9.99"}, "version: unsupported Kubernetes version 9.99"),
        ({"roleArn": "arn:aws:iam::123456789012:role/nobody"}, "roleArn: "),
    ],
)
def test_a_cluster_that_eks_cannot_make_is_refused(cloud: Cloud, change: dict[str, Any], text: str) -> None:
    assert text in refusal(lambda: cloud.create(CLUSTER, "lost", **cluster(cloud, **change)))


def test_a_cluster_in_one_zone_is_refused_and_leaves_nothing(cloud: Cloud) -> None:
    one = {"subnetIds": subnets(cloud)[:1]}
    assert "two availability zones" in refusal(lambda: cloud.create(CLUSTER, "lost", **cluster(cloud, vpcConfig=one)))
    assert cloud.boto("eks").list_clusters()["clusters"] == [state(cloud, CLUSTER, "main")["name"]]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"addonName": "vpc-cmi"}, "addonName: Addon vpc-cmi"),
        ({"addonVersion": "v1.0.0-eksbuild.1"}, "addonVersion: Addon vpc-cni v1.0.0-eksbuild.1"),
        ({"configurationValues": "{env"}, "configurationValues: "),
    ],
)
def test_an_addon_that_eks_does_not_have_is_refused(cloud: Cloud, change: dict[str, Any], text: str) -> None:
    inputs = {**of_cluster(cloud, addonName="vpc-cni"), **change}
    assert text in refusal(lambda: cloud.create(ADDON, "lost", **inputs))


def test_a_managed_policy_that_aws_does_not_have_is_refused(cloud: Cloud) -> None:
    inputs = {"role": state(cloud, ROLE, "role")["name"], "policyArn": "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"}
    cloud.create(ATTACHMENT, "real", **inputs)
    inputs["policyArn"] = "arn:aws:iam::aws:policy/AmazonEKSClusterPolice"
    assert "policyArn: " in refusal(lambda: cloud.create(ATTACHMENT, "lost", **inputs))


def test_an_access_policy_that_eks_does_not_have_is_refused(cloud: Cloud) -> None:
    arn = state(cloud, ROLE, "role")["arn"]
    cloud.create(ENTRY, "admin", **of_cluster(cloud, principalArn=arn))
    policy = {"policyArn": "arn:aws:eks::aws:cluster-access-policy/Everything", "accessScope": {"type": "cluster"}}
    assert "policyArn: " in refusal(
        lambda: cloud.create(ACCESS, "lost", **of_cluster(cloud, principalArn=arn, **policy))
    )


def test_two_roles_for_one_service_account_are_refused(cloud: Cloud) -> None:
    account = {"namespace": "kube-system", "serviceAccount": "ebs", "roleArn": state(cloud, ROLE, "role")["arn"]}
    cloud.create(IDENTITY, "ebs", **of_cluster(cloud, **account))
    assert "serviceAccount: " in refusal(lambda: cloud.create(IDENTITY, "again", **of_cluster(cloud, **account)))


def test_a_capacity_reservation_can_be_made_and_named(cloud: Cloud) -> None:
    wanted = {"InstanceType": "g6.12xlarge", "InstancePlatform": "Linux/UNIX", "InstanceCount": 2}
    made = cloud.boto("ec2").create_capacity_reservation(**wanted, AvailabilityZoneId="usw2-az1")
    target = {"capacityReservationId": made["CapacityReservation"]["CapacityReservationId"]}
    specification = {"capacityReservationTarget": target}
    cloud.create(TEMPLATE, "reserved", capacityReservationSpecification=specification)
    target["capacityReservationId"] = f"cr-{NOWHERE}"
    assert "capacityReservationId: " in refusal(
        lambda: cloud.create(TEMPLATE, "lost", capacityReservationSpecification=specification)
    )


def test_a_node_group_of_another_type_or_zone_than_its_reservation_is_refused(cloud: Cloud) -> None:
    wanted = {"InstanceType": "g6.12xlarge", "InstancePlatform": "Linux/UNIX", "InstanceCount": 1}
    named = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": "_custom_id_", "Value": f"cr-{NOWHERE[::-1]}"}]}]
    made = cloud.boto("ec2").create_capacity_reservation(
        **wanted, AvailabilityZoneId="usw2-az1", TagSpecifications=named
    )
    target = {"capacityReservationId": made["CapacityReservation"]["CapacityReservationId"]}
    assert target == {"capacityReservationId": f"cr-{NOWHERE[::-1]}"}
    specification = {"capacityReservationTarget": target}
    template = cloud.create(TEMPLATE, "bought", capacityReservationSpecification=specification)
    reference = {"id": template["id"], "version": "1"}
    for change, text in (
        ({"instanceTypes": ["g6.4xlarge"]}, f"instanceTypes[0]: Capacity reservation cr-{NOWHERE[::-1]} is of g6.12x"),
        ({"subnetIds": subnets(cloud)[1:]}, f"subnetIds[0]: Capacity reservation cr-{NOWHERE[::-1]} is of g6.12xlarge"),
    ):
        inputs = nodes(cloud, launchTemplate=reference, **change)
        assert text in refusal(lambda inputs=inputs: cloud.create(NODES, "elsewhere", **inputs))
    cloud.create(NODES, "reserved", **nodes(cloud, launchTemplate=reference))
    cloud.boto("ec2").cancel_capacity_reservation(CapacityReservationId=target["capacityReservationId"])
    assert "does not exist" in refusal(lambda: cloud.create(NODES, "late", **nodes(cloud, launchTemplate=reference)))


# --- what is in use cannot be deleted -------------------------------------------------------------------------------


def test_what_is_in_use_cannot_be_deleted(cloud: Cloud) -> None:
    files = cloud.create(FILES, "shared", encrypted=True)["id"]
    group = state(cloud, GROUP, "efa")["id"]
    cloud.create(MOUNT, "shared", fileSystemId=files, subnetId=subnets(cloud)[0], securityGroups=[group])
    for token, name in ((GROUP, "efa"), (SUBNET, "usw2-az1"), (VPC, "net"), (FILES, "shared")):
        text = refusal(lambda token=token, name=name: cloud.delete(token, name))
        assert text.startswith(f"{token} {name}: ")
        assert "in use" in text or "dependencies" in text or "Must delete all mount targets" in text
    cloud.delete(MOUNT, "shared")
    cloud.delete(FILES, "shared")


def test_a_security_group_that_another_ones_rule_names_cannot_be_deleted(cloud: Cloud) -> None:
    vpc = state(cloud, VPC, "net")["id"]
    named, other = (cloud.create(GROUP, n, vpcId=vpc)["id"] for n in ("named", "other"))
    rule = {"securityGroupId": other, "ipProtocol": "-1", "referencedSecurityGroupId": named}
    cloud.create("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule", "rule", **rule)
    assert str(other) in refusal(lambda: cloud.delete(GROUP, "named"))


def test_an_internet_gateway_stays_while_a_nat_gateway_needs_it(cloud: Cloud) -> None:
    cloud.create(GATEWAY, "igw", vpcId=state(cloud, VPC, "net")["id"])
    address = cloud.create("aws:ec2/eip:Eip", "nat")["id"]
    nat = "aws:ec2/natGateway:NatGateway"
    cloud.create(nat, "nat", subnetId=subnets(cloud)[0], allocationId=address)
    assert "in use by nat-" in refusal(lambda: cloud.delete(GATEWAY, "igw"))
    cloud.delete(nat, "nat")
    cloud.delete(GATEWAY, "igw")


# --- life -----------------------------------------------------------------------------------------------------------


def test_outputs_are_unknown_at_preview_and_inputs_are_not(cloud: Cloud) -> None:
    inputs, _ = cloud.check(CLUSTER, "next", cluster(cloud))
    id, outputs = cloud.provider.create(Urn(f"urn:pulumi:dev::test::{CLUSTER}::next"), inputs, preview=True)
    assert id == ""
    assert (outputs["endpoint"], outputs["certificateAuthority"]) == (UNKNOWN, UNKNOWN)
    assert str(outputs["name"]).startswith("next-")
    assert outputs["region"] == "us-west-2"


def test_a_name_is_made_up_once_and_kept(cloud: Cloud) -> None:
    first, _ = cloud.check(ROLE, "r", {"assumeRolePolicy": TRUST})
    urn = Urn(f"urn:pulumi:dev::test::{ROLE}::r", b"another seed")
    again, _ = cloud.provider.check(urn, first, {"assumeRolePolicy": TRUST})
    afresh, _ = cloud.provider.check(urn, {}, {"assumeRolePolicy": TRUST})
    assert str(first["name"]).startswith("r-")
    assert len(str(first["name"])) == len("r-") + 7
    assert again["name"] == first["name"] != afresh["name"]


def test_a_tag_edited_by_someone_else_shows_and_is_set_back(cloud: Cloud) -> None:
    tags = [{"Key": "Name", "Value": "edited"}, {"Key": "added", "Value": "x"}]
    cloud.boto("ec2").create_tags(Resources=[state(cloud, VPC, "net")["id"]], Tags=tags)
    found = cloud.read(VPC, "net")
    assert found is not None
    assert found[0]["tags"] == {"Name": "edited", "added": "x"}
    urn, id, inputs, _ = cloud._find(VPC, "net")[1]
    assert cloud.provider.diff(urn, id, found[0], found[1], inputs).changes == ["tags.Name", "tags.added"]
    cloud.provider.update(urn, id, found[0], found[1], inputs, preview=False)
    assert cloud.read(VPC, "net") == (inputs, found[1] | {"tags": {"Name": "net"}, "tagsAll": {"Name": "net"}})


def test_an_attribute_edited_by_someone_else_shows(cloud: Cloud) -> None:
    nodegroup = cloud.create(NODES, "drift", **nodes(cloud))
    names = {"clusterName": nodegroup["clusterName"], "nodegroupName": nodegroup["nodeGroupName"]}
    cloud.boto("eks").update_nodegroup_config(**names, scalingConfig={"desiredSize": 2, "maxSize": 3})
    found = cloud.read(NODES, "drift")
    assert found is not None
    assert found[0]["scalingConfig"] == {"desiredSize": 2, "minSize": 1, "maxSize": 3}
    cloud.delete(NODES, "drift")


def test_what_exists_is_found_by_its_id_alone(cloud: Cloud) -> None:
    for token, name in ((VPC, "net"), (CLUSTER, "main")):
        urn, id, inputs, _ = cloud._find(token, name)[1]
        found = cloud.provider.read(urn, id, {}, {})
        assert found is not None
        assert {k for k in inputs if k != "__defaults"} <= found[0].keys()
    assert cloud.provider.read(Urn(f"urn:pulumi:dev::test::{VPC}::x"), f"vpc-{NOWHERE}", {}, {}) is None


def test_what_someone_else_deleted_is_gone(cloud: Cloud) -> None:
    cloud.create("aws:cloudwatch/logGroup:LogGroup", "log", name="/gone")
    cloud.boto("logs").delete_log_group(logGroupName="/gone")
    assert cloud.read("aws:cloudwatch/logGroup:LogGroup", "log") is None
    cloud.delete("aws:cloudwatch/logGroup:LogGroup", "log")


def test_what_no_operation_changes_forces_a_replacement(cloud: Cloud) -> None:
    assert cloud.changed(VPC, "net", cidrBlock="10.1.0.0/16")[0] == ["cidrBlock"]
    assert cloud.changed(CLUSTER, "main", bootstrapSelfManagedAddons=False)[0] == ["bootstrapSelfManagedAddons"]


def test_what_an_operation_changes_is_changed_in_place(cloud: Cloud) -> None:
    network = {"subnetIds": subnets(cloud), "endpointPrivateAccess": True, "publicAccessCidrs": ["192.0.2.1/32"]}
    replaces, now = cloud.changed(CLUSTER, "main", vpcConfig=network, enabledClusterLogTypes=["api"])
    assert not replaces
    assert now["enabledClusterLogTypes"] == ["api"]
    live = cloud.boto("eks").describe_cluster(name=now["name"])["cluster"]["resourcesVpcConfig"]
    assert (live["endpointPrivateAccess"], live["publicAccessCidrs"]) == (True, ["192.0.2.1/32"])
    assert live["clusterSecurityGroupId"].startswith("sg-")


def test_a_changed_launch_template_is_a_new_version_and_unknown_at_preview(cloud: Cloud) -> None:
    cloud.create(TEMPLATE, "grows", updateDefaultVersion=True, userData="aGk=", placement={"groupName": "x"})
    urn, id, inputs, before = cloud._find(TEMPLATE, "grows")[1]
    preview = cloud.provider.update(urn, id, inputs, before, {**inputs, "userData": "aG8="}, preview=True)
    assert preview["latestVersion"] == UNKNOWN
    replaces, now = cloud.changed(TEMPLATE, "grows", userData="aG8=")
    assert (replaces, now["latestVersion"], now["defaultVersion"]) == ([], 2, 2)


def test_labels_and_taints_change_in_place(cloud: Cloud) -> None:
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    cloud.create(NODES, "marked", **nodes(cloud), labels={"role": "gpu", "old": "x"}, taints=[taint])
    replaces, now = cloud.changed(NODES, "marked", labels={"role": "core"}, taints=[])
    assert (replaces, now["labels"]) == ([], {"role": "core"})
    names = {"clusterName": now["clusterName"], "nodegroupName": now["nodeGroupName"]}
    live = cloud.boto("eks").describe_nodegroup(**names)["nodegroup"]
    assert (live["labels"], live["taints"]) == ({"role": "core"}, [])
    cloud.delete(NODES, "marked")


def test_a_named_resource_is_deleted_before_its_replacement(cloud: Cloud) -> None:
    for name, expected in (("fixed", True), (None, False)):
        inputs, _ = cloud.check(PLACEMENT, "p", {"strategy": "cluster", **({"name": name} if name else {})})
        diff = cloud.provider.diff(
            Urn(f"urn:pulumi:dev::test::{PLACEMENT}::p"), "", inputs, {}, inputs | {"strategy": "spread"}
        )
        assert (diff.replaces, diff.delete_before_replace) == (["strategy"], expected)


def test_a_key_is_gone_once_its_deletion_is_scheduled(cloud: Cloud) -> None:
    key = cloud.create(KEY, "key", deletionWindowInDays=7, enableKeyRotation=True)
    assert cloud.boto("kms").get_key_rotation_status(KeyId=key["id"])["KeyRotationEnabled"]
    urn, id, inputs, found = cloud._find(KEY, "key")[1]
    cloud.delete(KEY, "key")
    assert cloud.provider.read(urn, id, inputs, found) is None


def test_functions_answer_from_the_same_cloud(cloud: Cloud) -> None:
    invoke = cloud.provider.invoke
    assert invoke("aws:index/getCallerIdentity:getCallerIdentity", {})["accountId"] == "123456789012"
    question: Properties = {"addonName": "coredns", "kubernetesVersion": "1.36"}
    assert str(invoke("aws:eks/getAddonVersion:getAddonVersion", question)["version"]).startswith("v1.14.")
    assert "nothing found" in refusal(
        lambda: invoke("aws:eks/getAddonVersion:getAddonVersion", question | {"addonName": "x"})
    )
    assert "does not model" in refusal(lambda: invoke("aws:s3/getBucket:getBucket", {}))


def test_every_row_of_the_table_is_a_type_of_the_sdk_and_names_operations_of_boto3(cloud: Cloud) -> None:
    for kind in KINDS.values():
        operations = {kind.create, kind.read, kind.delete, *(u.operation for u in kind.updates)}
        known = cloud.boto(kind.service).meta.method_to_api_mapping
        assert operations <= known.keys(), kind.token
        named = " ".join([kind.local, kind.autoname, *(u.properties for u in kind.updates)]).split()
        assert {p.split(".")[0] for p in named} <= kind.schema.inputs.keys(), kind.token
        assert {*kind.facts, *kind.texts} <= kind.schema.outputs.keys(), kind.token
