"""Zone ids and offerings, held against the EC2 API's answers that moto carries."""

from __future__ import annotations

import pytest

from facts.hardware import INSTANCE_TYPES
from facts.zones import (
    DATA_FILE,
    NO_CONTROL_PLANE_ZONES,
    OFFERINGS,
    REGIONS,
    core_zones_of,
    regions_with,
    zones_of,
)
from tests.facts.test_hardware import NEEDS_MOTO


def test_the_file_holds_what_ec2_offers() -> None:
    pytest.importorskip("moto", reason=NEEDS_MOTO)
    from tools.facts_from_moto import zones_text

    assert DATA_FILE.read_text() == zones_text(), "run python -m tools.facts_from_moto --write"


def test_every_offering_is_in_a_zone_of_its_region_and_of_a_known_type() -> None:
    for region, offered in OFFERINGS.items():
        assert set(offered) <= set(INSTANCE_TYPES)
        assert {zone for zones in offered.values() for zone in zones} <= set(zones_of(region))


def test_every_gpu_type_is_offered_somewhere() -> None:
    assert [name for name, row in INSTANCE_TYPES.items() if row.gpus and not regions_with(name)] == []


def test_offerings_in_oregon_are_those_that_were_looked_up_by_hand() -> None:
    oregon = OFFERINGS["us-west-2"]
    assert zones_of("us-west-2") == ("usw2-az1", "usw2-az2", "usw2-az3", "usw2-az4")
    assert oregon["g6.12xlarge"] == zones_of("us-west-2")
    assert oregon["g5.12xlarge"] == ("usw2-az1", "usw2-az2", "usw2-az3")
    assert oregon["p5en.48xlarge"] == ("usw2-az2", "usw2-az3", "usw2-az4")
    assert oregon["p6-b200.48xlarge"] == ("usw2-az1", "usw2-az2", "usw2-az4")


def test_core_nodes_are_kept_out_of_the_zone_that_eks_does_not_take() -> None:
    assert "use1-az3" in zones_of("us-east-1")
    assert "use1-az3" not in core_zones_of("us-east-1")
    assert all(len(core_zones_of(region)) >= 2 for region in REGIONS)
    assert {zone for region in REGIONS for zone in core_zones_of(region)} & NO_CONTROL_PLANE_ZONES == set()


def test_a_region_without_gpu_types_has_no_zones_here() -> None:
    assert zones_of("af-south-1") == ()
    assert "af-south-1" not in REGIONS
