"""Metrics, alerts and a dashboard: the releases, custom resources and dashboard texts of the plan, in order.

Does not own: what is measured or alerted (`plan/observability.py`), the Slurm metrics' ServiceMonitor (slurm chart).
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from components._helm import release
from facts.names import TOKEN_PREFIX
from plan.observability import ObservabilityPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class ObservabilityArgs:
    """plan: all of it; an empty one (switched off) makes nothing."""

    plan: ObservabilityPlan


class Observability(pulumi.ComponentResource):
    """Has no outputs: what it makes is found by the names in its plan."""

    def __init__(self, name: str, args: ObservabilityArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:Observability", name, None, opts)
        plan, mine = args.plan, pulumi.ResourceOptions(parent=self)
        releases: dict[str, kubernetes.helm.v3.Release] = {}
        for r in plan.releases:
            # The plan's edges: exporters bring ServiceMonitors, whose definition comes with the stack.
            after = pulumi.ResourceOptions(parent=self, depends_on=[releases[earlier] for earlier in r.after])
            releases[r.name] = release(f"{name}-{r.name}", r, after)
        # The definitions of these kinds come with the releases, and a webhook of theirs admits them.
        with_definitions = pulumi.ResourceOptions(parent=self, depends_on=list(releases.values()))
        for m in plan.manifests:
            kubernetes.apiextensions.CustomResource(
                f"{name}-{m.name}",
                api_version=m.api_version,
                kind=m.kind,
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=m.name, namespace=m.namespace),
                spec=m.spec,
                opts=with_definitions,
            )
        if plan.dashboards:
            label, value = plan.dashboard_label
            kubernetes.core.v1.ConfigMap(
                f"{name}-dashboards",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(
                    name="slurm-dashboards", namespace=plan.namespace, labels={label: value}
                ),
                data=plan.dashboards,
                opts=mine,
            )
        self.register_outputs({})
