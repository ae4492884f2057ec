"""One way to install a chart, for every component that does: a plan's release becomes a `helm.v3.Release`.

Release and not Chart: only Release needs no cluster at preview, runs hooks and leaves a release that `helm` knows.
"""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_kubernetes as kubernetes

from plan.charts import ReleasePlan


def release(
    name: str,
    plan: ReleasePlan,
    opts: pulumi.ResourceOptions,
    *,
    values: pulumi.Input[Mapping[str, object]] | None = None,
) -> kubernetes.helm.v3.Release:
    """values: the plan's own unless the caller has added what only the deployment knows."""
    return kubernetes.helm.v3.Release(
        name,
        name=plan.name,  # without it the release gets a random suffix, and the objects that others name with it
        namespace=plan.namespace,
        chart=plan.chart,
        version=plan.version,
        repository_opts=kubernetes.helm.v3.RepositoryOptsArgs(repo=plan.repo) if plan.repo else None,
        values=plan.values if values is None else values,
        timeout=plan.timeout_seconds,
        atomic=plan.atomic,
        cleanup_on_fail=True,  # what a failed upgrade made new would stand in the way of the next one
        opts=opts,
    )
