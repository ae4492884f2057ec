"""The price list covers what can be deployed, and looks like a price list."""

from __future__ import annotations

from itertools import pairwise

from facts.hardware import INSTANCE_TYPES
from facts.prices import INSTANCE_USD_PER_HOUR


def test_every_type_has_a_price_but_the_one_that_is_only_sold_in_blocks() -> None:
    assert set(INSTANCE_TYPES) - set(INSTANCE_USD_PER_HOUR) == {"p5e.48xlarge"}
    assert set(INSTANCE_USD_PER_HOUR) <= set(INSTANCE_TYPES)


def test_within_a_family_the_same_gpus_cost_more_in_a_larger_size() -> None:
    by_family: dict[tuple[str, int], list[str]] = {}
    for row in INSTANCE_TYPES.values():
        if row.name in INSTANCE_USD_PER_HOUR:
            by_family.setdefault((row.family, row.gpus), []).append(row.name)
    for names in by_family.values():
        sizes = sorted(names, key=lambda name: INSTANCE_TYPES[name].vcpus)
        assert all(INSTANCE_USD_PER_HOUR[a] < INSTANCE_USD_PER_HOUR[b] for a, b in pairwise(sizes)), sizes
