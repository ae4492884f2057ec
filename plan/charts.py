"""Where each Helm chart comes from, and the releases of the operators with their values.

Owns chart references, release order, and the values of what the cluster needs before Slurm: cert-manager, the Slurm
operator, the device plugins, the load balancer controller. Does not own the slurm chart (`plan/slurm.py`) nor
monitoring (`plan/observability.py`). Values hold only what differs from the chart's default, because a value that
repeats a default hides the ones that were decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from facts import names, versions
from facts.hardware import INSTANCE_TYPES
from facts.images import EKS_REGISTRY_ACCOUNT, EKS_REGISTRY_ACCOUNT_OF_REGION
from plan.load_balancer_policy import load_balancer_policy
from plan.tags import tags
from settings.models import Settings
from settings.placement import uses_efa

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Values: TypeAlias = "dict[str, Json]"

# Names of releases that others wait for.
SLURM_OPERATOR_RELEASE: Final = "slurm-operator"
KUBE_PROMETHEUS_STACK_RELEASE: Final = "kube-prometheus-stack"
# Where Slurm's prolog tells the DCGM exporter which job has which GPU: the slurm chart's default, mounted by both.
DCGM_JOB_MAPPING_DIR: Final = "/var/lib/dcgm-exporter/job-mapping"
LOAD_BALANCER_SERVICE_ACCOUNT: Final = "aws-load-balancer-controller"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasePlan:
    """A `helm.v3.Release`. chart: name, full `oci://` reference or archive path; repo: HTTPS repository or None.

    after: names of releases that must be up first (webhooks before what they admit; destroy runs backwards).
    atomic: uninstall a failed install and roll a failed upgrade back; only where nothing of state is lost by it.
    """

    name: str
    namespace: str
    chart: str
    repo: str | None
    version: str
    values: Values
    timeout_seconds: int
    atomic: bool
    after: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorPlan:
    """Releases in order. load_balancer_policy: IAM policy JSON of the controller, bound by Pod Identity to its account.

    load_balancer_values_slots: the component adds vpcId, the only value of these releases that is known at deploy time.
    """

    releases: tuple[ReleasePlan, ...]
    load_balancer_release: str
    load_balancer_namespace: str
    load_balancer_service_account: str
    load_balancer_policy: str
    tags: Mapping[str, str]


def chart_reference(settings: Settings, chart: versions.Chart) -> tuple[str, str | None]:
    """What a Release takes as `chart` and as repository: a folder of archives, one OCI mirror, or the publisher's home.

    An OCI home is never given as a repository: Helm would pass the preview and fail at deployment.
    """
    if settings.charts.folder is not None:
        return f"{settings.charts.folder.rstrip('/')}/{chart.name}-{chart.version}.tgz", None
    if settings.charts.mirror is not None:
        return f"{settings.charts.mirror}/{chart.name}", None
    if chart.is_oci:
        return f"{chart.home}/{chart.name}", None
    return chart.name, chart.home


def plan_release(
    settings: Settings,
    chart: versions.Chart,
    *,
    name: str,
    namespace: str,
    values: Values,
    timeout_seconds: int = 600,
    atomic: bool = True,
    after: tuple[str, ...] = (),
) -> ReleasePlan:
    """A release of a pinned chart from wherever the settings take charts."""
    reference, repo = chart_reference(settings, chart)
    return ReleasePlan(
        name=name,
        namespace=namespace,
        chart=reference,
        repo=repo,
        version=chart.version,
        values=values,
        timeout_seconds=timeout_seconds,
        atomic=atomic,
        after=after,
    )


def merged(base: Values, extra: Values) -> Values:
    """base with extra laid over it, map by map, as Helm merges values; lists and scalars of extra win."""
    result = dict(base)
    for key, value in extra.items():
        below = result.get(key)
        result[key] = merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return result


def on_core_nodes() -> Values:
    return {names.ROLE_LABEL: names.ROLE_CORE}


def on_gpu_nodes() -> Values:
    return {names.ROLE_LABEL: names.ROLE_GPU}


def gpu_tolerations() -> list[Json]:
    """Rendered from the taint itself, so that a daemon which must run on GPU nodes cannot miss it."""
    return [dict[str, Json](names.GPU_TAINT.toleration())]


def _cert_manager_values() -> Values:
    return {
        # Not kept at uninstall: only the Slurm operator's webhook has certificates here, and `destroy` leaves nothing.
        "crds": {"enabled": True, "keep": False},
        "nodeSelector": on_core_nodes(),
        "webhook": {"nodeSelector": on_core_nodes()},
        "cainjector": {"nodeSelector": on_core_nodes()},
        "startupapicheck": {"nodeSelector": on_core_nodes()},
    }


def _slurm_operator_values() -> Values:
    return {
        "operator": {"nodeSelector": on_core_nodes()},
        # The webhook also sees pod bindings: elsewhere its absence must not hold up a single pod (slurm-operator#189).
        "webhook": {"nodeSelector": on_core_nodes(), "namespaces": names.NAMESPACE_SLURM},
    }


def _load_balancer_values(settings: Settings) -> Values:
    """vpcId is added at deployment. It and the region are given, as pods cannot ask instance metadata (hop limit 1)."""
    return {
        "clusterName": settings.name,
        "region": settings.region,
        "replicaCount": 2,
        "nodeSelector": on_core_nodes(),
        "serviceAccount": {"create": True, "name": LOAD_BALANCER_SERVICE_ACCOUNT},
        # Our Service names its class; the webhook would make every other Service wait for this controller.
        "enableServiceMutatorWebhook": False,
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "keepTLSSecret": True,  # otherwise each upgrade makes a new CA and webhooks fail until the pods have restarted
        "defaultTags": dict[str, Json](tags(settings, component="LoginEndpoint")),
    }


def _nvidia_device_plugin_values() -> Values:
    return {
        "nodeSelector": on_gpu_nodes(),
        "tolerations": gpu_tolerations(),
        # nodeadm labels GPU nodes itself; feature discovery would bring a toleration that can miss the taint.
        "gfd": {"enabled": False},
        # When on, the plugin hands out /dev/infiniband, which is the EFA plugin's.
        "mofedEnabled": False,
    }


def _efa_device_plugin_values(settings: Settings) -> Values:
    account = EKS_REGISTRY_ACCOUNT_OF_REGION.get(settings.region, EKS_REGISTRY_ACCOUNT)
    return {
        "image": {"repository": f"{account}.dkr.ecr.{settings.region}.amazonaws.com/eks/aws-efa-k8s-device-plugin"},
        "nodeSelector": on_gpu_nodes(),
        "tolerations": gpu_tolerations(),
    }


def plan_operators(settings: Settings) -> OperatorPlan:
    """The releases that come before Slurm, in the order in which each finds what it needs."""
    cert_manager = plan_release(
        settings,
        versions.CERT_MANAGER,
        name="cert-manager",
        namespace=names.NAMESPACE_CERT_MANAGER,
        values=_cert_manager_values(),
    )
    crds = plan_release(
        settings,
        versions.SLURM_OPERATOR_CRDS,
        name="slurm-operator-crds",
        namespace=names.NAMESPACE_OPERATOR,
        values={},
        timeout_seconds=300,
    )
    operator = plan_release(
        settings,
        versions.SLURM_OPERATOR,
        name=SLURM_OPERATOR_RELEASE,
        namespace=names.NAMESPACE_OPERATOR,
        values=_slurm_operator_values(),
        after=(cert_manager.name, crds.name),
    )
    load_balancer = plan_release(
        settings,
        versions.LOAD_BALANCER_CONTROLLER,
        name="aws-load-balancer-controller",
        namespace=names.NAMESPACE_SYSTEM,
        values=_load_balancer_values(settings),
    )
    releases = [cert_manager, crds, operator, load_balancer]
    releases.append(
        plan_release(
            settings,
            versions.NVIDIA_DEVICE_PLUGIN,
            name="nvidia-device-plugin",
            namespace=names.NAMESPACE_SYSTEM,
            values=_nvidia_device_plugin_values(),
        )
    )
    if any(uses_efa(n, INSTANCE_TYPES[n.instance_type]) for n in settings.nodesets.values()):
        releases.append(
            plan_release(
                settings,
                versions.EFA_DEVICE_PLUGIN,
                name="aws-efa-k8s-device-plugin",
                namespace=names.NAMESPACE_SYSTEM,
                values=_efa_device_plugin_values(settings),
            )
        )
    return OperatorPlan(
        releases=tuple(releases),
        load_balancer_release=load_balancer.name,
        load_balancer_namespace=load_balancer.namespace,
        load_balancer_service_account=LOAD_BALANCER_SERVICE_ACCOUNT,
        load_balancer_policy=load_balancer_policy(),
        tags=tags(settings, component="SlurmOperator"),
    )
