"""The SSH endpoint: security group and the NLB Service in front of the login pods."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names
from plan.network import NetworkPlan
from plan.tags import tags
from settings.models import Settings

PREFIX: Final = "service.beta.kubernetes.io/aws-load-balancer"
LOAD_BALANCER_CLASS: Final = "service.k8s.aws/nlb"
MAX_LOAD_BALANCER_NAME: Final = 32  # Elastic Load Balancing API, CreateLoadBalancer
IDLE_TIMEOUT_SECONDS: Final = 6000  # the NLB's maximum; its default of 350 s ends an idle shell


@dataclass(frozen=True, kw_only=True, slots=True)
class LoginPlan:
    """annotations lack only the security group's id (a deploy-time value, under `security_group_annotation`)."""

    namespace: str
    service_name: str
    allowed_cidrs: tuple[str, ...]
    port: int
    selector: Mapping[str, str]
    target_port: str
    load_balancer_class: str
    annotations: Mapping[str, str]
    security_group_annotation: str
    user: str
    tags: Mapping[str, str]


def bounded_name(name: str, limit: int) -> str:
    """The name, or its beginning and a digest of the whole: two long names stay two names."""
    if len(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    return f"{name[: limit - len(digest) - 1]}-{digest}"


def load_balancer_annotations(settings: Settings, network: NetworkPlan) -> dict[str, str]:
    """For the AWS Load Balancer Controller 3.5.0 (docs/guide/service/annotations.md)."""
    annotations = {
        f"{PREFIX}-type": "external",  # must never change on a Service that lives
        f"{PREFIX}-name": bounded_name(f"{settings.name}-login", MAX_LOAD_BALANCER_NAME),
        f"{PREFIX}-scheme": "internet-facing",  # default: internal
        f"{PREFIX}-nlb-target-type": "ip",
        # Default false as soon as the security group is ours, and then no target ever gets healthy.
        f"{PREFIX}-manage-backend-security-group-rules": "true",
        f"{PREFIX}-attributes": "load_balancing.cross_zone.enabled=true",  # the one login pod is in one of the zones
        f"{PREFIX}-target-group-attributes": "preserve_client_ip.enabled=true",  # sshd logs who came, not the NLB
        f"{PREFIX}-listener-attributes.TCP-{names.PORT_SSH}": f"tcp.idle_timeout.seconds={IDLE_TIMEOUT_SECONDS}",
    }
    own = [s.existing_id for s in network.subnets if s.kind == "public" and s.existing_id is not None]
    if own:
        # Subnets that we make are found by their tags; the tags of the user's own are not ours to rely on.
        annotations[f"{PREFIX}-subnets"] = ",".join(own)
    return annotations


def plan_login(settings: Settings, network: NetworkPlan) -> LoginPlan:
    return LoginPlan(
        namespace=names.NAMESPACE_SLURM,
        service_name=names.LOGIN_NLB_SERVICE,
        allowed_cidrs=settings.login.allowed_cidrs,
        port=names.PORT_SSH,
        selector=names.LOGIN_SELECTOR,
        target_port=names.LOGIN_TARGET_PORT,
        load_balancer_class=LOAD_BALANCER_CLASS,
        annotations=load_balancer_annotations(settings, network),
        # With it the Service's own source ranges are ignored: this group alone decides who reaches port 22.
        security_group_annotation=f"{PREFIX}-security-groups",
        user="root",
        tags=tags(settings, component="LoginEndpoint"),
    )
