"""The AWS tags that every component puts on what it makes."""

from __future__ import annotations

from facts.names import PROJECT
from settings.models import Settings


def tags(settings: Settings, *, component: str) -> dict[str, str]:
    """The user's tags and ours; ours win, because cost reports and clean-up scripts look for them.

    Never `kubernetes.io/cluster/<name>`: on a second security group of a node it stops the load balancer controller
    ("expected exactly one securityGroup tagged with kubernetes.io/cluster/...").
    """
    return {
        **settings.tags,
        "project": PROJECT,
        "cluster": settings.name,
        "component": component,
        "managed-by": "pulumi",
    }
