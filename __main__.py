"""The program: settings, plan, components in the order of the walkthrough, outputs. The only reader of Pulumi's
configuration and the only place that exports. It decides nothing: what is built stands in `plan/`.
"""

# ruff: noqa: E402 - one line has to come before the imports
from __future__ import annotations

import gc

# The SDKs are a hundred thousand objects that live as long as the program. Looking through them again and again while
# they are imported took a third of a preview's CPU time (2.9 s, now 1.7 s; no more memory).
gc.set_threshold(200_000, 50, 100)

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
from plan import make_plan
from plan.outputs import static_outputs
from settings.load import from_config
from settings.problems import SettingsError

try:
    settings = from_config(
        pulumi.Config().get,
        pulumi.Config("aws").get("region"),
        pulumi.get_stack(),
        keys=pulumi.runtime.get_config_env(),
        secret_keys=pulumi.runtime.get_config_secret_keys_env(),
    )
    plan = make_plan(settings)
except SettingsError as error:
    raise pulumi.RunError(str(error)) from None
for warning in plan.warnings:
    pulumi.log.warn(warning)
name = settings.name

network = Network(f"{name}-network", NetworkArgs(plan=plan.network))
vpc_id, subnet_ids, routed_subnet_ids = network.vpc_id, network.subnet_ids, network.routed_subnet_ids
cluster = Cluster(
    f"{name}-cluster",
    ClusterArgs(plan=plan.cluster, vpc_id=vpc_id, subnet_ids=subnet_ids, routed_subnet_ids=routed_subnet_ids),
)
nodes = cluster.security_group_id
nodegroups = [
    EfaNodeGroup(
        f"{name}-{group.name}",
        EfaNodeGroupArgs(
            plan=group,
            cluster_name=cluster.name,
            kubernetes_version=plan.cluster.version,
            cluster_security_group_id=nodes,
            node_role_arn=cluster.node_role_arn,
            vpc_id=vpc_id,
            subnet_id=routed_subnet_ids[group.subnet_key],
        ),
    )
    for group in plan.nodegroups
]
image = SlurmdImage(f"{name}-slurmd", SlurmdImageArgs(plan=plan.image))


def on_kubernetes(*after: pulumi.Resource) -> pulumi.ResourceOptions:
    """The stack's own kubernetes provider. after: what must be there first and go last, and is known by name only."""
    return pulumi.ResourceOptions(providers=[cluster.kubernetes], depends_on=after)


foundation = Foundation(f"{name}-foundation", FoundationArgs(plan=plan.foundation), on_kubernetes())
in_namespaces = on_kubernetes(foundation)  # releases and objects name their namespace as text
storage = SharedStorage(
    f"{name}-storage",
    SharedStorageArgs(plan=plan.storage, vpc_id=vpc_id, subnet_ids=subnet_ids, node_security_group_id=nodes),
    in_namespaces,
)
operators = SlurmOperator(
    f"{name}-operators",
    SlurmOperatorArgs(plan=plan.operators, cluster_name=cluster.name, vpc_id=vpc_id),
    in_namespaces,
)
observability = Observability(f"{name}-observability", ObservabilityArgs(plan=plan.observability), in_namespaces)
accounting = plan.accounting and AccountingDatabase(
    f"{name}-accounting",
    AccountingDatabaseArgs(plan=plan.accounting, vpc_id=vpc_id, subnet_ids=subnet_ids, node_security_group_id=nodes),
    in_namespaces,
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
    on_kubernetes(storage, operators, observability, *nodegroups, *([accounting] if accounting else [])),
)
login = LoginEndpoint(
    f"{name}-login",
    LoginEndpointArgs(plan=plan.login, vpc_id=vpc_id, node_security_group_id=nodes),
    # After slurm, hence after the load balancer controller, which must outlive the Service: otherwise the load balancer
    # would stay and hold the VPC for ever.
    on_kubernetes(slurm),
)
outputs: dict[str, object] = {
    **static_outputs(plan),
    "kubeconfig": cluster.kubeconfig,
    "login_endpoint": login.endpoint,
    "login_command": login.command,
    "host_key_fingerprints": slurm.host_key_fingerprints,
}
if slurm.login_private_key is not None:
    outputs["login_private_key"] = slurm.login_private_key
if slurm.validation_private_key is not None:
    validation = JobValidation(
        f"{name}-validation",
        JobValidationArgs(
            plan=plan.validation,
            private_key=slurm.validation_private_key,
            host_public_keys=slurm.host_public_keys,
        ),
        on_kubernetes(slurm),  # it checks what all the above have made
    )
    outputs["validation"] = validation.results
for key, value in outputs.items():
    pulumi.export(key, value)
