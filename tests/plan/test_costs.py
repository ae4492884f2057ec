"""The hourly estimate: known prices add up, unknown ones are said and never counted as nothing."""

from __future__ import annotations

import pytest

from facts.prices import INSTANCE_USD_PER_HOUR
from plan import make_plan
from plan.costs import CostPlan, plan_costs
from settings.models import Settings
from tests.plan.build import Accounting, Capacity, example, nodeset, stack


def costs(settings: Settings) -> CostPlan:
    return plan_costs(make_plan(settings))


def test_the_walkthroughs_cluster_costs_about_ten_dollars_an_hour() -> None:
    dev = costs(example("dev"))
    assert dev.unpriced == ()
    assert dev.total_usd_per_hour == pytest.approx(10.34, abs=0.2)
    gpus = next(item for item in dev.items if "g6.12xlarge" in item.name)
    assert gpus.usd_per_hour == pytest.approx(2 * INSTANCE_USD_PER_HOUR["g6.12xlarge"])


def test_a_reservation_costs_whether_it_is_used_or_not_and_says_so() -> None:
    prod = costs(example("prod"))
    gpus = next(item for item in prod.items if "p5.48xlarge" in item.name)
    assert gpus.usd_per_hour == pytest.approx(128 * INSTANCE_USD_PER_HOUR["p5.48xlarge"])
    assert "used or not" in gpus.note


def test_what_has_no_price_is_named_and_not_counted_as_free() -> None:
    block = Capacity(reservation_id="cr-0123456789abcdef0", kind="block")
    assert costs(stack({"a": nodeset("p5.48xlarge", capacity=block)})).unpriced == ("a p5.48xlarge",)
    unknown = costs(stack({"a": nodeset("p5e.48xlarge")}))
    assert unknown.unpriced == ("a p5e.48xlarge",)
    elsewhere = costs(stack({"a": nodeset("g6.12xlarge", zone_id="euw1-az1")}, region="eu-west-1"))
    assert len(elsewhere.unpriced) == len(elsewhere.items)


def test_a_second_zone_doubles_the_database() -> None:
    def database(multi_az: bool) -> float:
        plan = costs(stack(accounting=Accounting(enabled=True, multi_az=multi_az)))
        return next(item.usd_per_hour or 0 for item in plan.items if item.name.startswith("RDS"))

    assert database(True) == pytest.approx(2 * database(False)) and database(False) > 0
