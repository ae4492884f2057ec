"""The hardware table, held against the EC2 API's answers that moto carries."""

from __future__ import annotations

import pytest

from facts.hardware import GPU_MODELS, INSTANCE_TYPES, REFUSED_FAMILIES

NEEDS_MOTO = "moto, whose copy of EC2's answers is the judge here, is a development dependency and not installed"


def test_every_row_is_what_ec2_says() -> None:
    pytest.importorskip("moto", reason=NEEDS_MOTO)
    from tools.facts_from_moto import hardware_differences

    assert hardware_differences() == []


def test_the_comparison_with_ec2_notices_a_wrong_row(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("moto", reason=NEEDS_MOTO)
    from dataclasses import replace

    from tools import facts_from_moto

    wrong = {"g6.12xlarge": replace(INSTANCE_TYPES["g6.12xlarge"], gpus=8, efa_cards=(0, 1))}
    monkeypatch.setattr(facts_from_moto, "INSTANCE_TYPES", wrong)
    assert facts_from_moto.hardware_differences() == [
        "g6.12xlarge.gpus: 8, EC2 says 4",
        "g6.12xlarge.efa_cards: (0, 1), EC2 says (0,)",
        "g6.12xlarge.efa_interfaces: 2, EC2 says 1",
    ]


def test_every_nvidia_type_with_efa_is_in_the_table_or_refused_with_a_reason() -> None:
    pytest.importorskip("moto", reason=NEEDS_MOTO)
    from tools.facts_from_moto import instance_types

    left = {
        name
        for name, row in instance_types().items()
        if row["NetworkInfo"].get("EfaSupported")
        and any(gpu["Manufacturer"] == "NVIDIA" for gpu in row.get("GpuInfo", {}).get("Gpus", []))
        and name not in INSTANCE_TYPES
        and name.partition(".")[0] not in REFUSED_FAMILIES
    }
    assert left == set()


def test_no_refused_family_is_in_the_table() -> None:
    assert {row.family for row in INSTANCE_TYPES.values()} & set(REFUSED_FAMILIES) == set()


def test_a_gres_name_is_made_of_the_product_name_as_slurm_makes_it() -> None:
    """gpu_common_underscorify_tolower: lower case, and `_` for a space; nothing else changes."""
    assert {m.product: m.gres for m in GPU_MODELS} == {
        m.product: m.product.lower().replace(" ", "_") for m in GPU_MODELS
    }


def test_the_walkthroughs_node_is_as_the_walkthrough_saw_it() -> None:
    row = INSTANCE_TYPES["g6.12xlarge"]
    assert (row.gres, row.efa_interfaces, row.network_gbps, row.vcpus) == ("gpu:nvidia_l4:4", 1, 40, 48)
    assert (row.gdr, row.nvlink, row.card0_efa, row.cuda_arch) == (False, False, True, "sm_89")


def test_the_b300_has_its_sixteen_efa_interfaces_beside_card_0() -> None:
    row = INSTANCE_TYPES["p6-b300.48xlarge"]
    assert (row.efa_cards, row.card0_efa) == (tuple(range(1, 17)), False)


def test_the_pod_count_leaves_out_the_eni_that_efa_takes_on_card_0() -> None:
    assert INSTANCE_TYPES["g6.12xlarge"].max_pods_hint == 205
    assert INSTANCE_TYPES["p5.48xlarge"].max_pods_hint == 51
    assert INSTANCE_TYPES["p6-b300.48xlarge"].max_pods_hint == 198
    assert INSTANCE_TYPES["m6i.2xlarge"].max_pods_hint == 58


def test_gpudirect_rdma_is_said_of_no_type_without_efa() -> None:
    assert [row.name for row in INSTANCE_TYPES.values() if row.gdr and not row.efa_interfaces] == []
