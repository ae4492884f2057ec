from __future__ import annotations

import pytest

from components.network import Network, NetworkArgs
from plan.network import plan_network
from settings.models import Settings
from tests.plan.build import ExistingNetwork, example, stack
from tests.plan.build import Network as NetworkSettings
from tests.recorder import before, built, probe
from tools.recording import Record

ROUTE = "aws:ec2/route:Route"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"


def network_of(settings: Settings) -> Record:
    plan = plan_network(settings)

    def make() -> dict[str, object]:
        network = Network("net", NetworkArgs(plan=plan))
        for key, subnet_id in network.ids.routed_subnet_ids.items():
            probe(key, subnet_id)
        ids = network.ids
        return {"vpc_id": ids.vpc_id, "subnet_ids": ids.subnet_ids, "routed": ids.routed_subnet_ids}

    return built(make)


@pytest.fixture(scope="module")
def dev() -> Record:
    return network_of(example("dev"))


@pytest.fixture(scope="module")
def prod() -> Record:
    return network_of(example("prod"))


def table_of(record: Record, subnet: str) -> str:
    return record.one(ASSOCIATION, f"net-{subnet}").inputs["routeTableId"]


def test_subnets_are_placed_by_zone_id_because_letters_mean_other_zones_in_other_accounts(dev: Record) -> None:
    plan = plan_network(example("dev"))
    placed = {r.name: (r.inputs["availabilityZoneId"], r.inputs["cidrBlock"]) for r in dev.of("aws:ec2/subnet:Subnet")}
    assert placed == {f"net-{s.key}": (s.zone_id, s.cidr) for s in plan.subnets}
    assert not any("availabilityZone" in r.inputs for r in dev.of("aws:ec2/subnet:Subnet"))


def test_the_load_balancer_controller_finds_public_subnets_by_their_tag(dev: Record) -> None:
    tagged = {r.name for r in dev.of("aws:ec2/subnet:Subnet") if r.inputs["tags"].get("kubernetes.io/role/elb") == "1"}
    assert tagged == {f"net-{s.key}" for s in plan_network(example("dev")).subnets if s.kind == "public"}


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_only_public_subnets_reach_the_internet_gateway(name: str, request: pytest.FixtureRequest) -> None:
    record: Record = request.getfixturevalue(name)
    open_tables = {r.inputs["routeTableId"] for r in record.of(ROUTE) if "gatewayId" in r.inputs}
    for subnet in plan_network(example(name)).subnets:
        assert (table_of(record, subnet.key) in open_tables) == (subnet.kind == "public"), subnet.key


def test_private_subnets_go_out_through_the_nat_gateway_of_the_zone_that_the_plan_names(prod: Record) -> None:
    nat_of_table = {
        r.inputs["routeTableId"]: r.inputs["natGatewayId"] for r in prod.of(ROUTE) if "natGatewayId" in r.inputs
    }
    for subnet in plan_network(example("prod")).subnets:
        if subnet.kind != "public":
            assert nat_of_table[table_of(prod, subnet.key)] == f"net-nat-{subnet.nat_zone_id}-id"


def test_dev_pays_for_one_nat_gateway_and_prod_has_one_per_zone(dev: Record, prod: Record) -> None:
    nat = "aws:ec2/natGateway:NatGateway"
    assert (len(dev.of(nat)), len(prod.of(nat))) == (1, len(plan_network(example("prod")).nat_zone_ids))
    assert {r.inputs["subnetId"] for r in prod.of(nat)} == {
        f"net-public-{zone}-id" for zone in plan_network(example("prod")).nat_zone_ids
    }


def test_a_subnet_id_for_nodes_is_only_known_once_its_way_out_stands(dev: Record) -> None:
    for subnet in plan_network(example("dev")).subnets:
        needed = before(dev, dev.one("aws:cloudwatch/logGroup:LogGroup", f"probe-{subnet.key}"))
        assert (ASSOCIATION, f"net-{subnet.key}") in needed
        assert (ROUTE, f"net-nat-{subnet.nat_zone_id}" if subnet.nat_zone_id else "net-public") in needed


def test_nat_gateways_come_after_the_internet_gateway_and_go_before_it(dev: Record) -> None:
    for nat in [*dev.of("aws:ec2/natGateway:NatGateway"), *dev.of("aws:ec2/eip:Eip")]:
        assert ("aws:ec2/internetGateway:InternetGateway", "net") in before(dev, nat)


def test_image_layers_come_from_s3_past_the_nat_gateway_on_every_route_table(dev: Record) -> None:
    tables = {f"{r.name}-id" for r in dev.of("aws:ec2/routeTable:RouteTable")}
    gateway = dev.one(ENDPOINT, "net-s3")
    assert gateway.inputs["vpcEndpointType"] == "Gateway"
    assert set(gateway.inputs["routeTableIds"]) == tables


def test_interface_endpoints_answer_private_names_to_the_nodes_and_to_nobody_else(prod: Record) -> None:
    plan = plan_network(example("prod"))
    interfaces = [r for r in prod.of(ENDPOINT) if r.inputs["vpcEndpointType"] == "Interface"]
    assert {r.name for r in interfaces} == {f"net-{service}" for service in plan.interface_endpoints}
    assert all(
        r.inputs["privateDnsEnabled"] and r.inputs["securityGroupIds"] == ["net-endpoints-id"] for r in interfaces
    )
    rules = prod.of("aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule")
    assert {(r.inputs["cidrIpv4"], r.inputs["fromPort"], r.inputs["toPort"]) for r in rules} == {
        (cidr, 443, 443) for cidr in plan.node_cidrs
    }


def test_a_network_of_the_users_own_is_used_and_nothing_is_built_in_it() -> None:
    settings = stack(
        network=NetworkSettings(
            existing=ExistingNetwork(
                vpc_id="vpc-0123456789abcdef0",
                private_subnet_ids={z: f"subnet-0000000000000{z[-1]}" for z in ("usw2-az1", "usw2-az2", "usw2-az3")},
                public_subnet_ids={"usw2-az1": "subnet-00000000000000001"},
            )
        )
    )
    record = network_of(settings)
    assert {r.type for r in record.resources} == {"slurm-eks:index:Network", "aws:cloudwatch/logGroup:LogGroup"}
    assert record.outputs["vpc_id"] == "vpc-0123456789abcdef0"
    assert record.outputs["subnet_ids"] == {s.key: s.existing_id for s in plan_network(settings).subnets}
    assert record.outputs["routed"] == record.outputs["subnet_ids"]
