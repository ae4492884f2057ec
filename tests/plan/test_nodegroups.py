"""GPU nodegroups: interfaces that fit the hardware, placement, capacity, and user data that nodes can boot with."""

from __future__ import annotations

import email
import json
from email import policy

import pytest
import yaml

from facts.hardware import INSTANCE_TYPES
from plan.fabric import interfaces
from plan.network import plan_network
from plan.nodegroups import GpuNodegroupPlan, plan_nodegroups
from settings.models import Settings
from tests.plan.build import Capacity, example, nodeset, stack

EFA_TYPES = sorted(name for name, hardware in INSTANCE_TYPES.items() if hardware.efa_interfaces)
RESERVED = Capacity(reservation_id="cr-0123456789abcdef0")
BLOCK = Capacity(reservation_id="cr-0123456789abcdef0", kind="block")


def planned(settings: Settings) -> tuple[GpuNodegroupPlan, ...]:
    return plan_nodegroups(settings, plan_network(settings))


def one(**given: object) -> GpuNodegroupPlan:
    (group,) = planned(stack({"a": nodeset(**given)}))  # type: ignore[arg-type]
    return group


def node_config(group: GpuNodegroupPlan) -> dict[str, object]:
    """The NodeConfig as a node reads it: out of the MIME text, through a YAML reader."""
    message = email.message_from_string(group.user_data, policy=policy.default)
    (part,) = message.iter_parts()
    assert part.get_content_type() == "application/node.eks.aws"
    return yaml.safe_load(str(part.get_payload()))


@pytest.mark.parametrize(
    ("instance_type", "expected"),
    [
        ("g6.12xlarge", [(0, 0, "interface"), (0, 1, "efa-only")]),
        ("g6e.24xlarge", [(0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "efa-only")]),
        ("p5.48xlarge", [(0, 0, "interface"), (0, 1, "efa-only"), *((k, 0, "efa-only") for k in range(1, 32))]),
        ("p6-b300.48xlarge", [(0, 0, "interface"), *((k, 0, "efa-only") for k in range(1, 17))]),
    ],
)
def test_interfaces_follow_the_network_cards(instance_type: str, expected: list[tuple[int, int, str]]) -> None:
    made = interfaces(INSTANCE_TYPES[instance_type], efa=True)
    assert [(i.network_card, i.device_index, i.interface_type) for i in made] == expected


@pytest.mark.parametrize("instance_type", EFA_TYPES)
def test_every_efa_card_is_used_once_and_the_first_interface_has_the_nodes_own_address(instance_type: str) -> None:
    hardware = INSTANCE_TYPES[instance_type]
    first, *others = interfaces(hardware, efa=True)
    assert (first.network_card, first.device_index, first.interface_type) == (0, 0, "interface")
    assert tuple(i.network_card for i in others) == hardware.efa_cards
    places = [(i.network_card, i.device_index) for i in (first, *others)]
    assert len(set(places)) == len(places)


def test_without_efa_a_node_has_one_plain_interface_and_the_runtime_keeps_its_defaults() -> None:
    group = one(efa=False)
    assert [i.interface_type for i in group.interfaces] == ["interface"]
    assert "containerd" not in yaml.safe_dump(node_config(group))


@pytest.mark.parametrize(
    ("given", "create", "existing"),
    [
        ({}, True, None),
        ({"placement_group": "none"}, False, None),
        ({"placement_group": "close-together"}, False, "close-together"),
        ({"efa": False}, False, None),
        ({"capacity": RESERVED}, False, None),
        ({"capacity": BLOCK, "instance_type": "p5.48xlarge"}, False, None),
        ({"capacity": RESERVED, "placement_group": "close-together"}, False, "close-together"),
    ],
)
def test_a_placement_group_of_our_own_never_stands_beside_a_reservation(
    given: dict[str, object], create: bool, existing: str | None
) -> None:
    placement = one(**given).placement
    assert (placement.create, placement.existing_name) == (create, existing)


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (None, (None, "ON_DEMAND", None)),
        (RESERVED, (RESERVED.reservation_id, "ON_DEMAND", None)),
        (BLOCK, (BLOCK.reservation_id, "CAPACITY_BLOCK", "capacity-block")),
    ],
)
def test_bought_capacity_is_aimed_at_the_way_its_kind_is_sold(
    capacity: Capacity | None, expected: tuple[str | None, str, str | None]
) -> None:
    made = one(instance_type="p5.48xlarge", capacity=capacity).capacity
    assert (made.reservation_id, made.capacity_type, made.market_type) == expected


def test_the_instance_store_becomes_one_array_and_images_unpack_on_it() -> None:
    group = one()
    spec = node_config(group)["spec"]
    assert isinstance(spec, dict)
    assert spec["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert spec["featureGates"] == {"FastImagePull": True}
    assert (group.root_volume_iops, group.root_volume_throughput_mibps) == (3000, 125)
    without = one(local_nvme=False)
    assert "RAID0" not in without.user_data
    assert (without.root_volume_iops, without.root_volume_throughput_mibps) == (6000, 600)


def test_the_memory_lock_limit_survives_nodeadms_detour_through_floating_point() -> None:
    spec = node_config(one())["spec"]
    assert isinstance(spec, dict)
    limits = {r["type"]: r for r in spec["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]}
    assert limits["RLIMIT_NOFILE"] == {"type": "RLIMIT_NOFILE", "soft": 65536, "hard": 1048576}, (
        "the merge replaces lists"
    )
    for bound in ("soft", "hard"):
        value = limits["RLIMIT_MEMLOCK"][bound]
        assert int(json.loads(json.dumps(float(value)))) == value < 2**64
        assert value > max(hardware.memory_mib for hardware in INSTANCE_TYPES.values()) * 2**20


def test_user_data_is_a_mime_text_whose_config_names_no_cluster() -> None:
    config = node_config(one())
    assert (config["apiVersion"], config["kind"]) == ("node.eks.aws/v1alpha1", "NodeConfig")
    assert "cluster" not in yaml.safe_dump(config), "EKS adds its own; ours would win over it"


@pytest.mark.parametrize(("instance_type", "timeout"), [("g6.12xlarge", None), ("g7e.12xlarge", 432000)])
def test_families_that_forget_idle_connections_after_350_seconds_are_told_not_to(
    instance_type: str, timeout: int | None
) -> None:
    (group,) = planned(stack({"a": nodeset(instance_type, zone_id="use1-az4")}, region="us-east-1"))
    assert group.tcp_established_timeout_seconds == timeout


def test_each_nodeset_has_a_nodegroup_of_its_own_in_one_gpu_subnet() -> None:
    groups = planned(stack({"b": nodeset("g6.12xlarge"), "a": nodeset("p5.48xlarge", zone_id="usw2-az3")}))
    assert [(g.name, g.subnet_key, g.labels["slurm-eks/nodeset"]) for g in groups] == [
        ("a", "gpu-usw2-az3", "a"),
        ("b", "gpu-usw2-az1", "b"),
    ]


def test_gpu_nodes_are_tainted_and_pods_cannot_reach_their_credentials() -> None:
    (group,) = planned(example("dev"))
    assert group.taint == {"key": "nvidia.com/gpu", "value": "present", "effect": "NO_SCHEDULE"}
    assert group.labels["role"] == "gpu"
    assert group.http_hop_limit == 1


@pytest.mark.parametrize(("nodes", "at_once"), [(1, 1), (2, 1), (19, 1), (128, 12), (450, 45)])
def test_an_update_takes_a_tenth_of_the_nodes_at_once(nodes: int, at_once: int) -> None:
    assert one(nodes=nodes, capacity=RESERVED).max_unavailable == at_once
