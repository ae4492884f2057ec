"""The network plan: addresses that never move, room for the nodes asked for, NAT, endpoints, an existing VPC."""

from __future__ import annotations

import random
from ipaddress import IPv4Network
from itertools import combinations

import pytest

from facts.zones import REGIONS, zones_of
from plan.network import (
    ADDRESSES_PER_GPU_NODE,
    INTERFACE_ENDPOINTS,
    MAX_ZONE_NUMBER,
    NetworkPlan,
    core_zones,
    gpu_addresses_by_zone,
    nodeset_zone,
    plan_network,
    zone_number,
)
from settings.problems import SettingsError
from tests.plan.build import Capacity, Cluster, CoreNodes, ExistingNetwork, Network, example, nodeset, stack

RESERVED = Capacity(reservation_id="cr-0123456789abcdef0")


def ranges(network: NetworkPlan) -> dict[str, str | None]:
    return {s.key: s.cidr for s in network.subnets}


def test_the_addresses_of_the_examples_are_those_that_deployed_stacks_have() -> None:
    assert ranges(plan_network(example("dev"))) == {
        "public-usw2-az1": "10.0.0.0/24",
        "public-usw2-az2": "10.0.1.0/24",
        "private-usw2-az1": "10.0.8.0/21",
        "private-usw2-az2": "10.0.16.0/21",
        "gpu-usw2-az1": "10.0.64.0/19",
    }
    assert ranges(plan_network(example("prod"))) == {
        "public-usw2-az1": "10.64.0.0/24",
        "public-usw2-az2": "10.64.1.0/24",
        "public-usw2-az3": "10.64.2.0/24",
        "private-usw2-az1": "10.64.8.0/21",
        "private-usw2-az2": "10.64.16.0/21",
        "private-usw2-az3": "10.64.24.0/21",
        "gpu-usw2-az2": "10.64.96.0/19",
    }


@pytest.mark.parametrize("zone_id", ["usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4"])
@pytest.mark.parametrize("name", ["aaa", "zzz"])
def test_a_nodeset_that_is_added_moves_no_subnet_and_no_nodeset(zone_id: str, name: str) -> None:
    small = stack({"train": nodeset("g6.12xlarge", 2)})
    large = stack({"train": nodeset("g6.12xlarge", 2), name: nodeset("g6.48xlarge", 40, zone_id=zone_id)})
    before, after = ranges(plan_network(small)), ranges(plan_network(large))
    assert before.items() <= after.items()
    assert nodeset_zone(large, "train") == nodeset_zone(small, "train")


def test_subnets_lie_in_the_vpc_never_overlap_and_hold_the_nodes_asked_for() -> None:
    chance = random.Random(20261201)
    for _ in range(200):
        prefix = chance.randint(16, 20)
        nodes = chance.randint(1, 620 >> (prefix - 16))
        zones = chance.sample(["usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4"], chance.randint(1, 4))
        settings = stack(
            {
                f"set{i}": nodeset("g6.12xlarge", min(450, nodes), zone_id=zone, capacity=RESERVED)
                for i, zone in enumerate(zones)
            },
            network=Network(vpc_cidr=f"10.{chance.randint(0, 255)}.0.0/{prefix}"),
        )
        network = plan_network(settings)
        vpc = IPv4Network(settings.network.vpc_cidr)
        blocks = {s.key: IPv4Network(s.cidr or "") for s in network.subnets}
        assert all(block.subnet_of(vpc) for block in blocks.values())
        assert not any(one.overlaps(other) for one, other in combinations(blocks.values(), 2))
        for zone, needs in gpu_addresses_by_zone(settings).items():
            assert blocks[f"gpu-{zone}"].num_addresses - 5 >= needs >= ADDRESSES_PER_GPU_NODE


def test_a_thousand_nodes_in_one_zone_take_the_quarter_around_their_eighth() -> None:
    fleet = {f"set{i}": nodeset("p5.48xlarge", 250, zone_id="usw2-az2", capacity=RESERVED) for i in range(4)}
    assert ranges(plan_network(stack(fleet)))["gpu-usw2-az2"] == "10.0.64.0/18"


def test_nodes_that_do_not_fit_are_refused_with_the_numbers() -> None:
    crowd = {f"set{i}": nodeset("g6.12xlarge", 400, zone_id=f"usw2-az{i}") for i in (1, 2)}
    with pytest.raises(
        SettingsError, match=r"usw2-az1 has room for 8187 addresses of GPU nodes, .* need 10401"
    ) as error:
        plan_network(stack(crowd))
    assert len(error.value.problems) == 2, "both zones are named at once"


def test_nodes_without_a_reservation_need_room_for_two_generations_of_a_nodegroup() -> None:
    assert gpu_addresses_by_zone(stack({"a": nodeset(nodes=100)})) == {"usw2-az1": 2 * 100 * 13 + 1}
    assert gpu_addresses_by_zone(stack({"a": nodeset(nodes=100, capacity=RESERVED)})) == {"usw2-az1": 100 * 13 + 1}


def test_too_many_core_nodes_for_a_narrow_range_are_refused() -> None:
    narrow = stack(network=Network(vpc_cidr="10.0.0.0/20"), cluster=Cluster(core=CoreNodes(nodes=10)))
    with pytest.raises(
        SettingsError, match="a private subnet has 123 addresses, and 10 core nodes in 2 zones need 150"
    ):
        plan_network(narrow)


def test_the_layout_has_room_for_every_zone_that_there_is() -> None:
    assert max(zone_number(zone) for region in REGIONS for zone in zones_of(region)) <= MAX_ZONE_NUMBER


def test_core_zones_are_never_where_eks_takes_no_subnet() -> None:
    own = ExistingNetwork(
        vpc_id="vpc-0123456789abcdef0",
        private_subnet_ids={f"use1-az{i}": f"subnet-0000000{i}" for i in (1, 3, 4)},
        public_subnet_ids={"use1-az1": "subnet-00000009"},
    )
    given = stack({"a": nodeset("p5.48xlarge", zone_id="use1-az3")}, region="us-east-1", network=Network(existing=own))
    assert core_zones(given) == ("use1-az1", "use1-az4")
    assert nodeset_zone(given, "a") == "use1-az3", "GPU nodes may stand there"


def test_a_nodeset_prefers_a_core_zone_and_goes_elsewhere_when_none_offers_its_type() -> None:
    settings = stack(
        {"near": nodeset("g6.12xlarge"), "given": nodeset(zone_id="usw2-az4")},
        network=Network(zone_ids=("usw2-az2", "usw2-az3")),
    )
    assert nodeset_zone(settings, "near") == "usw2-az2"
    assert nodeset_zone(settings, "given") == "usw2-az4"
    far = stack({"a": nodeset("p5.48xlarge")}, network=Network(zone_ids=("use1-az2", "use1-az4")), region="us-east-1")
    assert nodeset_zone(far, "a") not in {"use1-az3"}


@pytest.mark.parametrize(
    ("nodes", "nat", "zones"),
    [
        (15, None, ("usw2-az1",)),
        (16, None, ("usw2-az1", "usw2-az2")),
        (16, "single", ("usw2-az1",)),
        (2, "per_zone", ("usw2-az1", "usw2-az2")),
    ],
)
def test_nat_gateways_follow_the_number_of_gpu_nodes_unless_set(nodes: int, nat: str | None, zones: tuple[str]) -> None:
    network = Network.model_validate({"nat": nat})
    assert plan_network(stack({"a": nodeset(nodes=nodes)}, network=network)).nat_zone_ids == zones


def test_every_private_subnet_has_a_way_out_through_a_gateway_that_exists() -> None:
    for settings in (example("dev"), example("prod"), stack({"a": nodeset(zone_id="usw2-az4")})):
        network = plan_network(settings)
        for subnet in network.subnets:
            assert (subnet.nat_zone_id is None) == (subnet.kind == "public")
            if subnet.nat_zone_id is not None:
                assert subnet.nat_zone_id in network.nat_zone_ids
                assert f"public-{subnet.nat_zone_id}" in ranges(network)
                assert subnet.nat_zone_id == subnet.zone_id or subnet.zone_id not in network.nat_zone_ids


def test_image_layers_never_pass_the_nat_gateway_and_large_fleets_get_interface_endpoints() -> None:
    dev, prod = plan_network(example("dev")), plan_network(example("prod"))
    assert dev.gateway_endpoints == prod.gateway_endpoints == ("s3",)
    assert dev.interface_endpoints == () and dev.endpoint_subnet_keys == ()
    assert prod.interface_endpoints == INTERFACE_ENDPOINTS
    assert prod.endpoint_subnet_keys == ("private-usw2-az1", "private-usw2-az2", "private-usw2-az3")
    assert {"ecr.api", "ecr.dkr", "eks-auth", "sts"} <= set(INTERFACE_ENDPOINTS)
    assert "10.64.96.0/19" in prod.node_cidrs, "GPU nodes may reach the endpoints"


def test_load_balancers_find_their_subnets_by_tags_and_never_one_with_gpu_nodes() -> None:
    for subnet in plan_network(example("dev")).subnets:
        role = {
            "public": {"kubernetes.io/role/elb": "1"},
            "private": {"kubernetes.io/role/internal-elb": "1"},
            "gpu": {},
        }
        assert subnet.tags == role[subnet.kind]


def test_in_a_network_of_the_users_own_nothing_is_built() -> None:
    own = ExistingNetwork(
        vpc_id="vpc-0123456789abcdef0",
        private_subnet_ids={
            "usw2-az1": "subnet-00000001",
            "usw2-az2": "subnet-00000002",
            "usw2-az3": "subnet-00000003",
        },
        public_subnet_ids={"usw2-az1": "subnet-00000009"},
    )
    network = plan_network(stack({"a": nodeset(zone_id="usw2-az3")}, network=Network(existing=own)))
    assert {s.key: s.existing_id for s in network.subnets} == {
        "public-usw2-az1": "subnet-00000009",
        "private-usw2-az1": "subnet-00000001",
        "private-usw2-az2": "subnet-00000002",
        "private-usw2-az3": "subnet-00000003",
        "gpu-usw2-az3": "subnet-00000003",
    }
    assert network.vpc_cidr is None
    assert network.nat_zone_ids == network.gateway_endpoints == network.interface_endpoints == ()
    assert {s.cidr for s in network.subnets} == {s.nat_zone_id for s in network.subnets} == {None}
