"""Settings -> Plan: every decision that follows from the settings, pure, printable, without Pulumi.

Owns the order in which parts are decided; each part decides in its own module. Nothing here or below knows a value that
only a deployment knows (ids, addresses, keys): a component gets those from its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

from facts import names
from plan.accounting import AccountingPlan, plan_accounting
from plan.charts import OperatorPlan, plan_operators
from plan.cluster import ClusterPlan, plan_cluster
from plan.contract import ClusterContract, plan_contract
from plan.image import ImagePlan, plan_image
from plan.login import LoginPlan, plan_login
from plan.network import NetworkPlan, plan_network
from plan.nodegroups import GpuNodegroupPlan, plan_nodegroups
from plan.observability import ObservabilityPlan, plan_observability
from plan.slurm import SlurmPlan, plan_slurm
from plan.storage import StoragePlan, plan_storage
from plan.validation import ValidationPlan, plan_validation
from plan.validation_metrics import ValidationMetricsPlan, plan_validation_metrics
from settings.models import Settings
from settings.rules import warnings

# slurmd and the node exporters need the host; a namespace that enforced less would admit none of their pods.
_PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundationPlan:
    """namespaces: {name: labels}; storage_class_parameters of the encrypted gp3 default class."""

    namespaces: dict[str, dict[str, str]]
    storage_class_name: str
    storage_class_parameters: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One part per component. warnings: what will work but deserves a look; shown at preview."""

    network: NetworkPlan
    cluster: ClusterPlan
    nodegroups: tuple[GpuNodegroupPlan, ...]
    foundation: FoundationPlan
    storage: StoragePlan
    image: ImagePlan
    operators: OperatorPlan
    accounting: AccountingPlan | None
    slurm: SlurmPlan
    login: LoginPlan
    observability: ObservabilityPlan
    validation: ValidationPlan
    validation_metrics: ValidationMetricsPlan | None
    contract: ClusterContract
    warnings: tuple[str, ...]


def plan_foundation(settings: Settings) -> FoundationPlan:
    """Namespaces and the default StorageClass: what storage, secrets and releases find when they arrive."""
    namespaces: dict[str, dict[str, str]] = {
        names.NAMESPACE_SLURM: _PRIVILEGED,
        names.NAMESPACE_OPERATOR: {},
        names.NAMESPACE_CERT_MANAGER: {},
    }
    if settings.observability.enabled:
        namespaces[names.NAMESPACE_MONITORING] = _PRIVILEGED
    return FoundationPlan(
        namespaces=namespaces,
        storage_class_name=names.STORAGE_CLASS,
        storage_class_parameters={"type": "gp3", "encrypted": "true"},
    )


def make_plan(settings: Settings) -> Plan:
    """Raises: SettingsError when what is asked for cannot be laid out (see plan/network.py)."""
    network = plan_network(settings)
    contract = plan_contract(settings)
    nodegroups = plan_nodegroups(settings, network)
    accounting = plan_accounting(settings, network)
    return Plan(
        network=network,
        cluster=plan_cluster(settings, network),
        nodegroups=nodegroups,
        foundation=plan_foundation(settings),
        storage=plan_storage(settings, network),
        image=plan_image(settings),
        operators=plan_operators(settings),
        accounting=accounting,
        slurm=plan_slurm(settings, contract, nodegroups, accounting),
        login=plan_login(settings, network),
        observability=plan_observability(settings),
        validation=plan_validation(settings, contract),
        validation_metrics=plan_validation_metrics(settings),
        contract=contract,
        warnings=warnings(settings),
    )
