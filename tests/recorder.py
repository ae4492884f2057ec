"""What tests of components share: one run of a component under the mocks, and questions to its record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components._links import NetworkIds, NodeIds
from tools.recording import Record, Recorded, record, record_stack

NODES = NodeIds(
    cluster_name="test",
    kubernetes_version="1.36",
    security_group_id="sg-cluster",
    role_arn="arn:aws:iam::123456789012:role/node",
)
AWS_TAGS = {"project", "cluster", "component", "managed-by"}
OUTPUT_AS_TEXT = "Calling __str__ on an Output"


def built(make: Callable[[], object]) -> Record:
    """The record of a component; what `make` returns as a dict is exported, so that its values can be asked for."""

    def run() -> None:
        made = make()
        if isinstance(made, dict):
            for key, value in made.items():
                pulumi.export(key, value)

    return record(run)


@cache
def program(stack: str, *, preview: bool = False) -> Record:
    """The record of the whole program for one of the example stacks; made once, and only read."""
    return record_stack(stack, preview=preview)


def network_ids(keys: Iterable[str] = ()) -> NetworkIds:
    """A network with these subnets: `<key>-id`, and `<key>-routed-id` for those who need their way out."""
    keys = list(keys)
    return NetworkIds(
        vpc_id="vpc-1",
        subnet_ids={key: f"{key}-id" for key in keys},
        routed_subnet_ids={key: f"{key}-routed-id" for key in keys},
    )


def on_kubernetes() -> pulumi.ResourceOptions:
    """Options with an explicit provider, as the program gives them."""
    return pulumi.ResourceOptions(providers=[kubernetes.Provider("test", kubeconfig="{}")])


def probe(name: str, value: pulumi.Input[str]) -> pulumi.Resource:
    """A resource that takes a value and no more: what stands before it stands before all who take the value."""
    return aws.cloudwatch.LogGroup(f"probe-{name}", name=value)


def before(record: Record, resource: Recorded) -> set[tuple[str, str]]:
    """(type, name) of all that must be there before the resource, and goes after it."""
    return {(r.type, r.name) for r in map(record.by_urn, record.before(resource))}


def texts(value: Any) -> Iterator[str]:
    """All texts in a nested value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)
