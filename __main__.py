"""The program: settings, plan, components in the order of the walkthrough, outputs. The only reader of Pulumi's
configuration and the only place that exports. It decides nothing: what is built stands in `plan/`.
"""

from __future__ import annotations

import pulumi

from components.accounting import AccountingDatabase, AccountingDatabaseArgs
from components.cluster import Cluster, ClusterArgs
from components.efa_nodegroup import EfaNodeGroup, EfaNodeGroupArgs
from components.foundation import Foundation, FoundationArgs
from components.job_validation import JobValidation, JobValidationArgs
from components.login_endpoint import LoginEndpoint, LoginEndpointArgs
from components.network import Network, NetworkArgs
from components.observability import Observability, ObservabilityArgs
from components.shared_storage import SharedStorage, SharedStorageArgs
from components.slurm_cluster import SlurmCluster, SlurmClusterArgs
from components.slurm_operator import SlurmOperator, SlurmOperatorArgs
from components.slurmd_image import SlurmdImage, SlurmdImageArgs
from components.validation_metrics import ValidationMetrics, ValidationMetricsArgs
from plan import make_plan
from plan.outputs import static_outputs
from settings.load import from_config
from settings.problems import SettingsError

config, secret_keys = pulumi.runtime.get_config_env(), pulumi.runtime.get_config_secret_keys_env()
try:
    settings = from_config(
        pulumi.Config().get, config.get("aws:region"), pulumi.get_stack(), keys=config, secret_keys=secret_keys
    )
    plan = make_plan(settings)
except SettingsError as error:
    raise pulumi.RunError(str(error)) from None
for warning in plan.warnings:
    pulumi.log.warn(warning)
name = settings.name

network = Network(f"{name}-network", NetworkArgs(plan=plan.network)).ids
cluster = Cluster(f"{name}-cluster", ClusterArgs(plan=plan.cluster, network=network))
nodes = cluster.nodes
nodegroups = [
    EfaNodeGroup(f"{name}-{group.name}", EfaNodeGroupArgs(plan=group, network=network, nodes=nodes))
    for group in plan.nodegroups
]
image = SlurmdImage(f"{name}-slurmd", SlurmdImageArgs(plan=plan.image))
foundation = Foundation(f"{name}-foundation", FoundationArgs(plan=plan.foundation), cluster.on_kubernetes())
in_namespaces = cluster.on_kubernetes(foundation)  # releases and objects name their namespace as text
storage = SharedStorage(
    f"{name}-storage", SharedStorageArgs(plan=plan.storage, network=network, nodes=nodes), in_namespaces
)
operators = SlurmOperator(
    f"{name}-operators", SlurmOperatorArgs(plan=plan.operators, network=network, nodes=nodes), in_namespaces
)
observability = Observability(f"{name}-observability", ObservabilityArgs(plan=plan.observability), in_namespaces)
accounting = plan.accounting and AccountingDatabase(
    f"{name}-accounting", AccountingDatabaseArgs(plan=plan.accounting, network=network, nodes=nodes), in_namespaces
)
slurm = SlurmCluster(
    f"{name}-slurm",
    SlurmClusterArgs(
        plan=plan.slurm,
        image_repository=image.repository,
        image_digest=image.digest,
        accounting_host=accounting.host if accounting else None,
        validation_access=plan.validation.enabled,
    ),
    # The operator admits and later removes its resources, pods mount the claims, and a ServiceMonitor made before its
    # definition is dropped in silence. The nodes: on the way down workers must end before their machines do.
    cluster.on_kubernetes(storage, operators, observability, accounting, *nodegroups),
)
after_slurm = cluster.on_kubernetes(slurm)
# After slurm, hence after the load balancer controller, which must outlive the Service: otherwise the load balancer
# would stay and hold the VPC for ever.
login = LoginEndpoint(f"{name}-login", LoginEndpointArgs(plan=plan.login, network=network, nodes=nodes), after_slurm)

outputs: dict[str, object] = {
    **static_outputs(plan),
    "kubeconfig": cluster.kubeconfig,
    "login_endpoint": login.endpoint,
    "login_command": login.command,
    "login_private_key": slurm.login_private_key,
    "host_key_fingerprints": slurm.host_key_fingerprints,
}
if slurm.validation_private_key is not None:
    validation = JobValidation(
        f"{name}-validation",
        JobValidationArgs(
            plan=plan.validation, private_key=slurm.validation_private_key, host_public_keys=slurm.host_public_keys
        ),
        after_slurm,
    )
    outputs["validation"] = validation.results
if exporter := plan.validation_metrics:  # after the claim and the definitions of its custom resources
    metrics, after = ValidationMetricsArgs(plan=exporter), cluster.on_kubernetes(storage, observability)
    ValidationMetrics(f"{name}-validation-metrics", metrics, after)
for key, value in outputs.items():
    if value is not None:  # None: a key that this stack has no need of
        pulumi.export(key, value)
