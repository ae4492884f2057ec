from __future__ import annotations

import base64

import pytest

from components.efa_nodegroup import EfaNodeGroup, EfaNodeGroupArgs
from plan.network import plan_network
from plan.nodegroups import GpuNodegroupPlan, plan_nodegroups
from settings.models import Settings
from tests.plan.build import Capacity, example, nodeset, stack
from tests.recorder import NODES, before, built, network_ids
from tools.recording import Record

TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
NODEGROUP = "aws:eks/nodeGroup:NodeGroup"
PLACEMENT = "aws:ec2/placementGroup:PlacementGroup"
RESERVATION = "cr-0123456789abcdef0"


def plans_of(settings: Settings) -> tuple[GpuNodegroupPlan, ...]:
    return plan_nodegroups(settings, plan_network(settings))


def nodegroups_of(settings: Settings) -> Record:
    def make() -> None:
        for plan in plans_of(settings):
            EfaNodeGroup(
                f"test-{plan.name}",
                EfaNodeGroupArgs(plan=plan, network=network_ids([plan.subnet_key]), nodes=NODES),
            )

    return built(make)


@pytest.fixture(scope="module")
def dev() -> Record:
    return nodegroups_of(example("dev"))


@pytest.fixture(scope="module")
def prod() -> Record:
    return nodegroups_of(example("prod"))


def test_gpu_nodes_sit_in_exactly_one_subnet_because_efa_does_not_cross_zones(dev: Record) -> None:
    (plan,) = plans_of(example("dev"))
    assert dev.one(NODEGROUP).inputs["subnetIds"] == [f"{plan.subnet_key}-routed-id"]


def test_the_efa_group_lets_all_traffic_of_itself_in_and_out(dev: Record) -> None:
    group = f"{dev.one('aws:ec2/securityGroup:SecurityGroup').name}-id"
    for way in ("Ingress", "Egress"):
        rule = dev.one(f"aws:vpc/securityGroup{way}Rule:SecurityGroup{way}Rule").inputs
        assert (rule["securityGroupId"], rule["referencedSecurityGroupId"], rule["ipProtocol"]) == (group, group, "-1")
        assert not {"cidrIpv4", "fromPort", "toPort"} & rule.keys()


def test_no_node_starts_before_both_rules_stand(dev: Record) -> None:
    needed = before(dev, dev.one(NODEGROUP))
    for way in ("Ingress", "Egress"):
        assert (f"aws:vpc/securityGroup{way}Rule:SecurityGroup{way}Rule", "test-slinky") in needed


@pytest.mark.parametrize(("name", "efa_only"), [("dev", 1), ("prod", 32)])
def test_every_interface_carries_the_clusters_and_the_efa_group(
    name: str, efa_only: int, request: pytest.FixtureRequest
) -> None:
    record: Record = request.getfixturevalue(name)
    interfaces = record.one(TEMPLATE).inputs["networkInterfaces"]
    group = f"{record.one('aws:ec2/securityGroup:SecurityGroup').name}-id"
    assert all(i["securityGroups"] == ["sg-cluster", group] for i in interfaces)
    assert [i["interfaceType"] for i in interfaces].count("efa-only") == efa_only
    first = interfaces[0]
    assert (first["networkCardIndex"], first["deviceIndex"], first["interfaceType"]) == (0, 0, "interface")
    assert not any("associatePublicIpAddress" in i for i in interfaces), "EC2 takes it for a single interface only"


def test_the_security_groups_are_on_the_interfaces_alone_because_ec2_refuses_both_places(dev: Record) -> None:
    assert not {"vpcSecurityGroupIds", "imageId", "iamInstanceProfile"} & dev.one(TEMPLATE).inputs.keys()


def test_nodes_of_dev_share_a_cluster_placement_group_of_our_own(dev: Record) -> None:
    group = dev.one(PLACEMENT)
    assert group.inputs["strategy"] == "cluster"
    assert dev.one(TEMPLATE).depends_on >= {group.urn}
    assert dev.one(TEMPLATE).inputs["placement"] == {"groupName": group.name}


def test_beside_a_reservation_there_is_no_placement_group_and_no_room_for_two_generations(prod: Record) -> None:
    template = prod.one(TEMPLATE).inputs
    assert prod.of(PLACEMENT) == []
    assert "placement" not in template
    assert template["capacityReservationSpecification"] == {
        "capacityReservationTarget": {"capacityReservationId": RESERVATION}
    }
    assert prod.one(NODEGROUP).delete_before_replace


def test_an_existing_placement_group_is_used_by_name() -> None:
    record = nodegroups_of(stack(slinky=nodeset(placement_group="ours")))
    assert record.of(PLACEMENT) == []
    assert record.one(TEMPLATE).inputs["placement"] == {"groupName": "ours"}


def test_a_capacity_block_takes_its_type_from_the_template_and_from_nowhere_else() -> None:
    block = Capacity(reservation_id=RESERVATION, kind="block")
    record = nodegroups_of(stack(h100=nodeset("p5.48xlarge", zone_id="usw2-az2", capacity=block)))
    template, group = record.one(TEMPLATE).inputs, record.one(NODEGROUP).inputs
    assert (template["instanceType"], template["instanceMarketOptions"]) == (
        "p5.48xlarge",
        {"marketType": "capacity-block"},
    )
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert "instanceTypes" not in group


def test_plain_on_demand_nodes_name_their_type_in_the_nodegroup(dev: Record) -> None:
    assert dev.one(NODEGROUP).inputs["instanceTypes"] == ["g6.12xlarge"]
    assert (
        not {"instanceType", "instanceMarketOptions", "capacityReservationSpecification"}
        & dev.one(TEMPLATE).inputs.keys()
    )


def test_only_the_nodes_role_and_taint_of_the_plan_are_put_on_the_nodes(dev: Record) -> None:
    inputs = dev.one(NODEGROUP).inputs
    assert inputs["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}]
    assert inputs["labels"]["role"] == "gpu"
    assert inputs["amiType"] == "AL2023_x86_64_NVIDIA"


def test_the_number_of_nodes_is_fixed_and_replaced_without_spare_capacity(prod: Record) -> None:
    group = prod.one(NODEGROUP)
    assert group.inputs["scalingConfig"] == {"minSize": 128, "maxSize": 128, "desiredSize": 128}
    assert group.inputs["updateConfig"]["updateStrategy"] == "MINIMAL"
    assert group.ignore_changes == (), "an ignored desired size below a raised minimum is refused by EKS"


def test_user_jobs_cannot_read_the_nodes_credentials_and_disks_are_encrypted(dev: Record) -> None:
    template = dev.one(TEMPLATE).inputs
    assert (template["metadataOptions"]["httpTokens"], template["metadataOptions"]["httpPutResponseHopLimit"]) == (
        "required",
        1,
    )
    assert template["blockDeviceMappings"][0]["ebs"]["encrypted"] == "true"


def test_the_user_data_arrives_as_the_plan_wrote_it(dev: Record) -> None:
    (plan,) = plans_of(example("dev"))
    assert base64.b64decode(dev.one(TEMPLATE).inputs["userData"]).decode() == plan.user_data


def test_families_that_forget_idle_connections_early_are_told_to_remember() -> None:
    settings = stack(old=nodeset(), new=nodeset("p6-b200.48xlarge", zone_id="usw2-az1"))
    tracked = {
        r.name: {i["interfaceType"] for i in r.inputs["networkInterfaces"] if "connectionTrackingSpecification" in i}
        for r in nodegroups_of(settings).of(TEMPLATE)
    }
    assert tracked == {"test-old": set(), "test-new": {"interface"}}, "`efa-only` carries no IP traffic to track"


def test_nodesets_of_different_types_stand_in_one_stack() -> None:
    record = nodegroups_of(stack(l4=nodeset(), l40s=nodeset("g6e.48xlarge")))
    assert {r.name: r.inputs["instanceTypes"] for r in record.of(NODEGROUP)} == {
        "l4": ["g6.12xlarge"],
        "l40s": ["g6e.48xlarge"],
    }
    assert len({r.inputs["launchTemplate"]["id"] for r in record.of(NODEGROUP)}) == 2
