"""Alert rules, as a PrometheusRule's groups. What is normal is known from the plan: rules compare with its numbers.

The expected numbers stand in recording rules, one series per nodeset; alerts and dashboard join with them instead of
carrying numbers of their own. Metric names: Slurm's from src/plugins/metrics/openmetrics of 26.05.2 (all gauges), GPUs'
from the DCGM exporter's default counters, the rest from kube-state-metrics and kubelet. Not covered, because nothing in
the cluster exports it: EFA retransmits, EFS limits, load balancer targets.
"""

from __future__ import annotations

from typing import Final

from facts import names
from plan.charts import Json, Values
from plan.contract import ClusterContract

EXPECTED_NODES: Final = "slurm_eks:expected_nodes"
EXPECTED_GPUS: Final = "slurm_eks:expected_gpus"
EXPECTED_EFA: Final = "slurm_eks:expected_efa_interfaces"
ALLOCATABLE_GPUS: Final = "slurm_eks:allocatable_gpus"
ALLOCATABLE_EFA: Final = "slurm_eks:allocatable_efa_interfaces"

# XIDs that a faulty program causes on a healthy GPU (NVIDIA's XID catalogue): bad access, MMU fault, stopped channel.
APPLICATION_XIDS: Final = (13, 31, 43, 45)
GPU_TEMPERATURE_CELSIUS: Final = 85


def as_label(name: str) -> str:
    """A Kubernetes name as kube-state-metrics spells it in metrics (`nvidia.com/gpu` -> `nvidia_com_gpu`)."""
    return "".join(c if c.isalnum() else "_" for c in name)


def _record(name: str, expression: str, labels: Values | None = None) -> Json:
    rule: Values = {"record": name, "expr": expression}
    if labels:
        rule["labels"] = labels
    return rule


def _alert(name: str, expression: str, wait: str, severity: str, summary: str, description: str) -> Json:
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description},
    }


def _group(name: str, rules: list[Json]) -> Json:
    return {"name": f"slurm-eks.{name}", "rules": rules}


def _expected(contract: ClusterContract) -> list[Json]:
    rules: list[Json] = []
    for nodeset in contract.nodesets:
        labels: Values = {"nodeset": nodeset.name, "partition": nodeset.partition}
        numbers = {
            EXPECTED_NODES: nodeset.nodes,
            EXPECTED_GPUS: nodeset.nodes * nodeset.gpus_per_node,
            EXPECTED_EFA: nodeset.nodes * nodeset.efa_interfaces,
        }
        # Zero is left out: nothing can be missing of it.
        rules += [_record(name, f"vector({number})", labels) for name, number in numbers.items() if number]
    return rules


def _allocatable(name: str, resource: str) -> Json:
    """Devices that Kubernetes can hand out, by nodeset; the join takes the nodeset from the node's label."""
    label = f"label_{as_label(names.NODESET_LABEL)}"
    return _record(
        name,
        "sum by (nodeset) (label_replace("
        f'kube_node_status_allocatable{{resource="{as_label(resource)}"}}'
        f' * on (node) group_left ({label}) kube_node_labels{{{label}!=""}}, "nodeset", "$1", "{label}", "(.+)"))',
    )


def _short_of(expected: str, actual: str, label: str) -> str:
    """Holds when actual is below expected or missing altogether; the value is the expected number."""
    return f"{expected} unless on ({label}) ({actual} >= on ({label}) {expected})"


def _slurm(contract: ClusterContract) -> list[Json]:
    rules = [
        _alert(
            "SlurmControllerAbsent",
            "absent(slurm_nodes)",
            "5m",
            "critical",
            "slurmctld gives no metrics",
            "No job starts or ends while slurmctld is away. "
            f"Look at pod {names.SERVICE_CONTROLLER}-0 in namespace {contract.namespace}.",
        ),
        _alert(
            "SlurmNodesMissing",
            _short_of(EXPECTED_NODES, "slurm_partition_nodes", "partition"),
            "15m",
            "warning",
            "Partition {{ $labels.partition }} has fewer than its {{ $value }} nodes",
            "Workers that never registered are not down in Slurm, they do not exist. Look for Pending worker pods, and "
            "for nodes that capacity was not to be had for.",
        ),
        _alert(
            "SlurmNodesDown",
            "slurm_nodes_down > 0",
            "15m",
            "warning",
            "{{ $value }} Slurm node(s) down",
            "`sinfo -R` shows why. A replaced worker comes back by itself; another is resumed with "
            "`scontrol update nodename=<node> state=resume`.",
        ),
        _alert(
            "SlurmNodesDrained",
            "slurm_nodes_drain > 0",
            "15m",
            "warning",
            "{{ $value }} Slurm node(s) drained",
            "No new jobs land on them. `sinfo -R` shows the reason; one that begins with `slurm-operator:` is undone "
            "by the operator itself, any other with `scontrol update nodename=<node> state=undrain`.",
        ),
        _alert(
            "SlurmNodesNotResponding",
            "slurm_nodes_noresp > 0",
            "15m",
            "warning",
            "{{ $value }} Slurm node(s) do not answer slurmctld",
            "Their jobs are lost when SlurmdTimeout passes. Look at the worker pod and its node.",
        ),
        _alert(
            "SlurmNodesInvalidRegistration",
            "slurm_nodes_invalid_reg > 0",
            "5m",
            "critical",
            "{{ $value }} Slurm node(s) registered with less than configured",
            "Most often fewer GPUs than its Gres says: compare `scontrol show node` with `nvidia-smi -L` there.",
        ),
        _alert(
            "SlurmJobsPendingBesideIdleNodes",
            "slurm_partition_jobs_pending > on (partition) slurm_partition_jobs_hold"
            " and on (partition) slurm_partition_nodes_idle > 0"
            " and on (partition) slurm_partition_nodes_idle >= slurm_partition_jobs_min_job_nodes_nohold",
            "15m",
            "warning",
            "{{ $value }} jobs wait in partition {{ $labels.partition }} though enough nodes are idle",
            "`squeue -t PD -o '%i %r'` shows the reason: a GRES type that no node has, a time limit above the "
            "partition's, a reserved node. Dependent jobs and jobs with a start time are meant to wait.",
        ),
        _alert(
            "SlurmJobsLostToNodes",
            "delta(slurm_jobs_node_failed[30m]) > 0",
            "0m",
            "warning",
            "Jobs ended in NODE_FAIL",
            "A node died under its jobs in the last 30 minutes: `sacct -s NF` or `squeue -t NF` names them.",
        ),
        _alert(
            "SlurmRestUnavailable",
            f'kube_deployment_status_replicas_available{{namespace="{contract.namespace}",'
            f'deployment="{names.SERVICE_RESTAPI}"}} < 1',
            "10m",
            "warning",
            "slurmrestd is not available",
            "Jobs run on, but the operator neither scales nor drains nor updates nodes without it.",
        ),
        _alert(
            "SlurmLoginUnavailable",
            f'kube_deployment_status_replicas_available{{namespace="{contract.namespace}",'
            f'deployment="{names.LOGIN_SERVICE}"}} < 1',
            "5m",
            "critical",
            "No login pod is available",
            "Nobody can submit by SSH. Look at the login pod's events, above all for shared storage that cannot mount.",
        ),
    ]
    if contract.accounting:
        rules.append(
            _alert(
                "SlurmAccountingBehind",
                "slurm_slurmdbd_queue_size > 1000",
                "15m",
                "warning",
                "{{ $value }} accounting records wait for slurmdbd",
                "The database is away or slow; a full queue loses records. Look at slurmdbd's log and at RDS.",
            )
        )
    return rules


def _gpus() -> list[Json]:
    healthy_xids = "".join(f" != {xid}" for xid in APPLICATION_XIDS)
    gpu = "GPU {{ $labels.gpu }} of {{ $labels.Hostname }}"
    return [
        _alert(
            "GpusNotAllocatable",
            _short_of(EXPECTED_GPUS, ALLOCATABLE_GPUS, "nodeset"),
            "15m",
            "critical",
            "Nodeset {{ $labels.nodeset }} offers fewer than its {{ $value }} GPUs",
            f"A node is missing, or `{names.GPU_RESOURCE}` on one is short: look at the NVIDIA device plugin there.",
        ),
        _alert(
            "EfaNotAllocatable",
            _short_of(EXPECTED_EFA, ALLOCATABLE_EFA, "nodeset"),
            "15m",
            "critical",
            "Nodeset {{ $labels.nodeset }} offers fewer than its {{ $value }} EFA interfaces",
            f"A node is missing, or `{names.EFA_RESOURCE}` on one is short: look at the EFA device plugin there.",
        ),
        _alert(
            "GpuMetricsMissing",
            f"(count(DCGM_FI_DEV_GPU_TEMP) or vector(0)) < sum({EXPECTED_GPUS})",
            "15m",
            "warning",
            "The DCGM exporter sees only {{ $value }} GPUs",
            "A GPU fell off the bus, or the exporter does not run on every GPU node.",
        ),
        _alert(
            "GpuXidError",
            f"(DCGM_FI_DEV_XID_ERRORS > 0{healthy_xids}) and changes(DCGM_FI_DEV_XID_ERRORS[15m]) > 0",
            "0m",
            "warning",
            f"XID {{{{ $value }}}} on {gpu}",
            "Not one of the XIDs that a faulty program causes. 79 (off the bus), 48, 94, 95 (memory) and 74 (NVLink) "
            "mean: drain the node and replace the instance.",
        ),
        _alert(
            "GpuRowRemapFailure",
            "DCGM_FI_DEV_ROW_REMAP_FAILURE > 0",
            "0m",
            "critical",
            f"Memory of {gpu} can no longer repair itself",
            "Drain the node and replace the instance.",
        ),
        _alert(
            "GpuMemoryRowsRemapped",
            "increase(DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS[6h]) > 0",
            "0m",
            "warning",
            f"Uncorrectable memory error on {gpu}",
            "The row is replaced at the GPU's next reset; the job that used it failed. More of them mean a bad GPU.",
        ),
        _alert(
            "GpuHot",
            f"DCGM_FI_DEV_GPU_TEMP > {GPU_TEMPERATURE_CELSIUS}",
            "10m",
            "warning",
            f"{gpu} is at {{{{ $value }}}} degrees",
            "It lowers its clock, and so holds back every rank of its job.",
        ),
        _alert(
            "AcceleratorNotReady",
            'kube_node_status_condition{condition="AcceleratedHardwareReady",status="false"} == 1',
            "5m",
            "critical",
            "{{ $labels.node }} reports faulty accelerators",
            "Set by the EKS node monitoring agent; `kubectl describe node` has the reason.",
        ),
    ]


def _storage(contract: ClusterContract) -> list[Json]:
    where = f'namespace=~"{contract.namespace}|{names.NAMESPACE_MONITORING}"'
    return [
        _alert(
            "VolumeFilling",
            f"kubelet_volume_stats_used_bytes{{{where}}} / kubelet_volume_stats_capacity_bytes{{{where}}} > 0.8",
            "15m",
            "warning",
            "Volume {{ $labels.persistentvolumeclaim }} is {{ $value | humanizePercentage }} full",
            "slurmctld stops when it cannot save its state. The storage class lets the claim be enlarged in place.",
        )
    ]


def alert_groups(contract: ClusterContract) -> list[Json]:
    """The groups of the one PrometheusRule."""
    return [
        _group(
            "expected",
            [
                *_expected(contract),
                _allocatable(ALLOCATABLE_GPUS, names.GPU_RESOURCE),
                _allocatable(ALLOCATABLE_EFA, names.EFA_RESOURCE),
            ],
        ),
        _group("slurm", _slurm(contract)),
        _group("gpus", _gpus()),
        _group("storage", _storage(contract)),
    ]
