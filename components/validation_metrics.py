"""The exporter of validation results: its files, its pod, the Service that Prometheus scrapes, and its alerts.

Does not own: the results (JobValidation's runner writes them), what is exported (`jobs/metrics.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pulumi
import pulumi_kubernetes as kubernetes

from facts.names import TOKEN_PREFIX
from plan.validation_metrics import PORT_NAME, ValidationMetricsPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationMetricsArgs:
    """plan: all of it. The shared claim and the definitions of Prometheus' operator must be there before."""

    plan: ValidationMetricsPlan


class ValidationMetrics(pulumi.ComponentResource):
    """Has no outputs: Prometheus finds the Service by its label."""

    def __init__(self, name: str, args: ValidationMetricsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:ValidationMetrics", name, None, opts)
        plan, mine = args.plan, pulumi.ResourceOptions(parent=self)
        labels = dict(plan.labels)
        meta = kubernetes.meta.v1.ObjectMetaArgs(name=plan.name, namespace=plan.namespace, labels=labels)
        files = kubernetes.core.v1.ConfigMap(name, metadata=meta, data=plan.files, opts=mine)
        kubernetes.apps.v1.Deployment(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=plan.name,
                namespace=plan.namespace,
                labels=labels,
                # Metrics that come a little later are no reason to hold up or fail an update of the cluster.
                annotations={"pulumi.com/skipAwait": "true"},
            ),
            spec=kubernetes.apps.v1.DeploymentSpecArgs(
                replicas=1,
                selector=kubernetes.meta.v1.LabelSelectorArgs(match_labels=labels),
                template=kubernetes.core.v1.PodTemplateSpecArgs(
                    metadata=kubernetes.meta.v1.ObjectMetaArgs(
                        labels=labels, annotations={"slurm-eks/files": plan.revision}
                    ),
                    # A manifest has Kubernetes' own spelling of each key; the SDK takes that too.
                    spec=cast("kubernetes.core.v1.PodSpecArgs", plan.pod),
                ),
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[files]),
        )
        kubernetes.core.v1.Service(
            name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=plan.name,
                namespace=plan.namespace,
                labels=labels,
                annotations={"pulumi.com/skipAwait": "true"},  # as above: it would wait for the pod
            ),
            spec=kubernetes.core.v1.ServiceSpecArgs(
                selector=labels,
                ports=[kubernetes.core.v1.ServicePortArgs(name=PORT_NAME, port=plan.port, target_port=PORT_NAME)],
            ),
            opts=mine,
        )
        for manifest in plan.manifests:
            kubernetes.apiextensions.CustomResource(
                f"{name}-{manifest.kind.lower()}",
                api_version=manifest.api_version,
                kind=manifest.kind,
                metadata=meta,
                spec=manifest.spec,
                opts=mine,
            )
        self.register_outputs({})
