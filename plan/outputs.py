"""The stack's outputs: one table, from which the program exports and the README is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from facts import names

if TYPE_CHECKING:
    from plan import Plan

OutputType: TypeAlias = Literal["string", "integer", "strings", "object"]
OutputValue: TypeAlias = "str | int | list[str] | Mapping[str, str | int]"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutputSpec:
    """One stack output. known: at plan time (`static_outputs`) or only after deployment. optional: absent in some
    stacks."""

    name: str
    type: OutputType
    description: str
    secret: bool = False
    known: bool = False
    optional: bool = False


OUTPUTS: Final = (
    OutputSpec(
        name="contract_version",
        type="integer",
        known=True,
        description="Version of this set; grows when a field changes its meaning.",
    ),
    OutputSpec(name="cluster_name", type="string", known=True, description="Name of the EKS cluster."),
    OutputSpec(name="region", type="string", known=True, description="AWS region."),
    OutputSpec(
        name="kubeconfig", type="string", secret=True, description="Kubeconfig (JSON) of the cluster's creator."
    ),
    OutputSpec(name="namespace", type="string", known=True, description="Kubernetes namespace of Slurm."),
    OutputSpec(name="login_endpoint", type="string", description="Host name of the SSH load balancer, port 22."),
    OutputSpec(name="login_command", type="string", description="The ssh command."),
    OutputSpec(
        name="login_private_key",
        type="string",
        secret=True,
        optional=True,
        description="Generated SSH key (OpenSSH format); only when `login.authorized_keys` is empty.",
    ),
    OutputSpec(
        name="host_key_fingerprints",
        type="object",
        description="SHA256 fingerprints of the login pods' SSH host keys, by key type.",
    ),
    OutputSpec(name="partitions", type="strings", known=True, description="Slurm partitions, the default one first."),
    OutputSpec(name="nodes", type="object", known=True, description="Slurm nodes per partition."),
    OutputSpec(name="gpus", type="integer", known=True, description="GPUs of all nodes together."),
    OutputSpec(
        name="gres", type="object", known=True, description="GRES of a whole node, per partition, as `--gres` takes it."
    ),
    OutputSpec(
        name="efa_interfaces_per_node",
        type="object",
        known=True,
        description="EFA interfaces of a node, per partition.",
    ),
    OutputSpec(
        name="shared_claims",
        type="object",
        known=True,
        description="Claims of the shared file system in the namespace, by mount path.",
    ),
    OutputSpec(name="rest_service", type="string", known=True, description="slurmrestd inside the cluster."),
    OutputSpec(
        name="grafana_service",
        type="string",
        known=True,
        optional=True,
        description="Grafana inside the cluster; absent without observability.",
    ),
    OutputSpec(
        name="validation",
        type="object",
        optional=True,
        description="Verdict of each validation job; absent when validation is off.",
    ),
)


def static_outputs(plan: Plan) -> dict[str, OutputValue]:
    """The outputs whose values the plan already knows."""
    nodesets = sorted(plan.contract.nodesets, key=lambda n: (not n.is_default, n.name))
    outputs: dict[str, OutputValue] = {
        "contract_version": plan.contract.version,
        "cluster_name": plan.contract.cluster_name,
        "region": plan.network.region,
        "namespace": plan.contract.namespace,
        "partitions": [n.partition for n in nodesets],
        "nodes": {n.partition: n.nodes for n in nodesets},
        "gpus": sum(n.nodes * n.gpus_per_node for n in nodesets),
        "gres": {n.partition: n.gres for n in nodesets},
        "efa_interfaces_per_node": {n.partition: n.efa_interfaces for n in nodesets},
        "shared_claims": {claim.mount: claim.name for claim in plan.storage.claims},
        "rest_service": f"{names.SERVICE_RESTAPI}.{plan.contract.namespace}:{names.PORT_SLURMRESTD}",
    }
    if plan.observability.enabled:
        outputs["grafana_service"] = plan.observability.grafana_service
    return outputs


def outputs_table() -> str:
    """The README's table, as Markdown."""
    rows = ["| output | type | description |", "|---|---|---|"]
    for output in OUTPUTS:
        kind = f"{output.type}, secret" if output.secret else output.type
        rows.append(f"| `{output.name}` | {kind} | {output.description} |")
    return "\n".join(rows)
