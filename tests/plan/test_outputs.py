"""The table of outputs: complete, documented, and equal to what the plan can already say."""

from __future__ import annotations

import pytest

from plan import make_plan
from plan.outputs import OUTPUTS, outputs_table, static_outputs
from tests.plan.build import Observability, Partition, example, nodeset, stack


def test_what_the_plan_knows_is_what_the_table_says_it_knows() -> None:
    known = {output.name for output in OUTPUTS if output.known}
    assert static_outputs(make_plan(example("dev"))).keys() == known


def test_an_optional_output_is_absent_and_not_empty() -> None:
    quiet = static_outputs(make_plan(stack(observability=Observability(enabled=False))))
    assert "grafana_service" not in quiet


@pytest.mark.parametrize("output", OUTPUTS, ids=lambda output: output.name)
def test_every_output_has_a_value_of_its_type(output: object) -> None:
    from plan.outputs import OutputSpec

    assert isinstance(output, OutputSpec) and output.description.endswith(".")
    kinds = {"string": str, "integer": int, "strings": list, "object": dict}
    values = static_outputs(make_plan(example("dev")))
    if output.known:
        assert isinstance(values[output.name], kinds[output.type])


def test_whatever_opens_the_cluster_is_secret() -> None:
    assert {output.name for output in OUTPUTS if output.secret} == {"kubeconfig", "login_private_key"}


def test_outputs_count_gpus_and_name_the_default_partition_first() -> None:
    outputs = static_outputs(
        make_plan(
            stack(
                {
                    "a": nodeset("g6.12xlarge", 2),
                    "b": nodeset("p5.48xlarge", 3, zone_id="usw2-az2", partition=Partition(default=True)),
                }
            )
        )
    )
    assert outputs["gpus"] == 2 * 4 + 3 * 8
    assert outputs["partitions"] == ["b", "a"]
    assert outputs["efa_interfaces_per_node"] == {"a": 1, "b": 32}
    assert outputs["gres"] == {"a": "gpu:nvidia_l4:4", "b": "gpu:nvidia_h100_80gb_hbm3:8"}


def test_the_readmes_table_has_a_row_per_output_and_marks_secrets() -> None:
    table = outputs_table()
    assert table.count("\n") == len(OUTPUTS) + 1
    assert "| `kubeconfig` | string, secret |" in table
