"""The Slurm cluster: chart values, slurm.conf additions, GRES, partitions. The only place that spells the chart's keys.

Chart 1.2.1 has no schema and ignores what it does not know, drops falsy values from its maps and prefers a text
(`extraConf`) over a map without a word; so everything here is a map, numbers that may be 0 are text, and a test holds
each key against the chart's own values file. Chart 1.2 also generates less of slurm.conf than 1.1 did: what is set
below is what it used to set, and each line says what breaks without it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names, versions
from facts.hardware import INSTANCE_TYPES
from facts.images import HELPER_DIGEST, HELPER_REPOSITORY, HELPER_TAG
from plan.accounting import AccountingPlan
from plan.charts import (
    DCGM_JOB_MAPPING_DIR,
    KUBE_PROMETHEUS_STACK_RELEASE,
    SLURM_OPERATOR_RELEASE,
    Json,
    ReleasePlan,
    Values,
    gpu_tolerations,
    merged,
    on_core_nodes,
    plan_release,
)
from plan.contract import ClusterContract, NodesetContract
from plan.nodegroups import GpuNodegroupPlan, has_local_nvme
from plan.tags import tags
from settings.models import Nodeset, Settings

OPERATOR_MAX_NODE_COUNT: Final = 1024  # written into slurm.conf by the operator; more dynamic nodes cannot register
STATE_VOLUME: Final = "20Gi"
CLIENT_ALIVE_SECONDS: Final = 60  # an NLB forgets a silent connection after 350 s unless it is told otherwise

# A pod without a request is the first that a node under memory pressure kills, and these hold the cluster's brain.
CONTROLLER_REQUESTS: Final = {"cpu": "500m", "memory": "1Gi"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmPlan:
    """release.values is complete but for what only the deployment knows; `with_deploy_values` adds it at named slots.

    slurm_key_bytes and jwt_key_bytes: sizes of the generated keys. host_key_types: `ed25519`, `rsa`, `ecdsa`.
    generate_login_key: no authorized key was given, so one is made and its private half becomes a secret output.
    """

    namespace: str
    release: ReleasePlan
    authorized_keys: tuple[str, ...]
    generate_login_key: bool
    slurm_key_bytes: int
    jwt_key_bytes: int
    host_key_types: tuple[str, ...]
    nodeset_names: tuple[str, ...]
    tags: Mapping[str, str]


def _slinky_image(component: str) -> Values:
    return {"repository": f"{versions.SLINKY_IMAGES}/{component}", "tag": versions.SLINKY_IMAGE_TAG}


def _helper_image() -> Values:
    """The log tailer and the login's init container; the chart's default is `latest`."""
    return {"repository": HELPER_REPOSITORY, "tag": HELPER_TAG, "digest": HELPER_DIGEST}


def _secret_ref(secret: tuple[str, str]) -> Values:
    """A key that Pulumi owns. One that the chart makes is another with every render outside the cluster."""
    name, key = secret
    return {"create": False, "secretRef": {"name": name, "key": key}}


def _requests() -> Values:
    return {"requests": dict[str, Json](CONTROLLER_REQUESTS)}


def _slurm_conf(settings: Settings, contract: ClusterContract) -> Values:
    """`controller.extraConfMap`: lines appended to the generated slurm.conf."""
    user: Values = {
        key: [str(item) for item in value] if isinstance(value, tuple) else str(value)
        for key, value in settings.slurm.extra_conf.items()
    }
    derived: Values = {
        "GresTypes": ["gpu"],  # without it slurmctld drops every GRES in silence
        # A worker's preStop hook sets its node DOWN; only 2 lets its successor come back by itself.
        "ReturnToService": 2,
        # Together they make cgroup.conf's constraints (GPUs among them) apply to tasks; affinity pins them to cores.
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": ["task/affinity", "task/cgroup"],
        "PrologFlags": ["Contain"],  # an extern step per job: ssh sessions and stray processes end with it
        "MpiDefault": "pmix",  # without it `srun` starts N unconnected ranks, each of which succeeds
        # The login pod's limit of locked memory must not reach the job: EFA registers its buffers.
        "PropagateResourceLimitsExcept": ["MEMLOCK"],
    }
    if contract.accounting:
        derived["JobAcctGatherType"] = "jobacct_gather/cgroup"
        derived["AccountingStorageTRES"] = ["gres/gpu"]
    nodes = sum(nodeset.nodes for nodeset in contract.nodesets)
    if nodes > OPERATOR_MAX_NODE_COUNT:
        derived["MaxNodeCount"] = str(nodes)  # of two lines Slurm takes the last, which is ours
    return user | derived


def _cgroup_conf(settings: Settings) -> str:
    """Replaces the operator's file whole, so its two lines are repeated. Devices: a job sees the GPUs it asked for."""
    lines = {
        "CgroupPlugin": "cgroup/v2",
        "IgnoreSystemd": "yes",
        "ConstrainCores": "yes",
        "ConstrainRAMSpace": "yes",
        "ConstrainDevices": "yes",
    }
    return "".join(f"{key}={value}\n" for key, value in (settings.slurm.extra_cgroup_conf | lines).items())


def _controller(settings: Settings, contract: ClusterContract) -> Values:
    return {
        "slurmctld": {"image": _slinky_image("slurmctld"), "resources": _requests()},
        "reconfigure": {"image": _slinky_image("slurmctld")},
        "logfile": {"image": _helper_image()},
        # A changed slurm.conf or configFiles is picked up in place; otherwise the first restarts the scheduler and the
        # second is never noticed.
        "inplaceReconfigure": True,
        "persistence": {
            "storageClassName": names.STORAGE_CLASS,
            "resources": {"requests": {"storage": STATE_VOLUME}},
        },
        "extraConfMap": _slurm_conf(settings, contract),
        "podSpec": {"nodeSelector": on_core_nodes()},
        "metrics": {
            "enabled": True,
            # The operator skips the ServiceMonitor for good when its CRD is not there yet: see the release's `after`.
            "serviceMonitor": {"enabled": settings.observability.enabled, "interval": "60s"},
        },
    }


def _accounting(accounting: AccountingPlan) -> Values:
    """The database's host is added at deployment."""
    return {
        "enabled": True,
        "slurmdbd": {"image": _slinky_image("slurmdbd"), "resources": _requests()},
        "storageConfig": {
            "port": names.PORT_MARIADB,
            "database": accounting.database,
            "username": accounting.username,
            "passwordKeyRef": {"name": accounting.secret_name, "key": accounting.secret_key},
        },
        "podSpec": {"nodeSelector": on_core_nodes()},
    }


def _shared_volumes() -> list[Json]:
    return [
        {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
        for claim in (names.SHARED_CLAIM, names.HOME_CLAIM)
    ]


def _shared_mounts() -> list[Json]:
    return [
        {"name": names.SHARED_CLAIM, "mountPath": names.SHARED_MOUNT},
        {"name": names.HOME_CLAIM, "mountPath": names.HOME_MOUNT},
    ]


def _login(settings: Settings) -> Values:
    """Keys and their checksum are added at deployment. The Service is internal: the load balancer's is Pulumi's own."""
    return {
        "enabled": True,
        "replicas": settings.login.replicas,
        "login": {
            "image": _slinky_image("login"),
            "resources": _requests(),
            "volumeMounts": _shared_mounts(),
        },
        "initconf": {"image": _helper_image()},
        "extraSshdConfig": (
            f"ClientAliveInterval {CLIENT_ALIVE_SECONDS}\nClientAliveCountMax 10\nPasswordAuthentication no\n"
        ),
        "podSpec": {"nodeSelector": on_core_nodes(), "volumes": _shared_volumes()},
        "service": {"spec": {"type": "ClusterIP"}},
    }


def _shm_gib(nodeset: Nodeset) -> int:
    """Half of the memory, as Linux itself sizes /dev/shm; in a container's 64 MiB NCCL and data loaders fail."""
    return nodeset.shm_gib or INSTANCE_TYPES[nodeset.instance_type].memory_mib // 2 // 1024


def _local_volume(nodeset: Nodeset) -> Values:
    """The instance store's RAID; where it is not used, scratch on the root volume, so that every job has /local."""
    if has_local_nvme(nodeset, INSTANCE_TYPES[nodeset.instance_type]):
        return {"name": "local", "hostPath": {"path": names.LOCAL_HOST_PATH, "type": "DirectoryOrCreate"}}
    return {"name": "local", "emptyDir": {}}


def _nodeset(nodeset: Nodeset, contract: NodesetContract, nodegroup: GpuNodegroupPlan) -> Values:
    """One worker pod per node; the image is added at deployment.

    No CPU or memory limits: slurmd would subtract what is outside them from the node. No huge pages: whether the AMI
    sets any aside is not known, a request for absent ones leaves the pod Pending, and libfabric does without.
    """
    devices: Values = {names.GPU_RESOURCE: contract.gpus_per_node}
    if contract.efa_interfaces:
        devices[names.EFA_RESOURCE] = contract.efa_interfaces
    return {
        "enabled": True,
        "replicas": contract.nodes,
        "extraConfMap": {"Gres": [contract.gres]},
        "slurmd": {
            "resources": {"limits": devices, "requests": dict(devices)},
            "volumeMounts": [
                *_shared_mounts(),
                {"name": "local", "mountPath": names.LOCAL_MOUNT},
                {"name": "shm", "mountPath": "/dev/shm"},
            ],
        },
        "logfile": {"image": _helper_image()},
        "partition": {
            "enabled": True,
            "configMap": {
                "Default": "YES" if contract.is_default else "NO",
                "MaxTime": contract.max_time,
                "State": "UP",
            },
        },
        # Node autoscalers must not take a node from under a job: Slurm, not the pod, knows whether it is busy.
        "metadata": {
            "annotations": {
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                "karpenter.sh/do-not-disrupt": "true",
            }
        },
        "podSpec": {
            "nodeSelector": {key: nodegroup.labels[key] for key in (names.ROLE_LABEL, names.NODESET_LABEL)},
            "tolerations": gpu_tolerations(),
            "volumes": [
                *_shared_volumes(),
                _local_volume(nodeset),
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": f"{_shm_gib(nodeset)}Gi"}},
            ],
        },
    }


def slurm_values(
    settings: Settings,
    contract: ClusterContract,
    nodegroups: tuple[GpuNodegroupPlan, ...],
    accounting: AccountingPlan | None,
) -> Values:
    """The slurm chart's values, but for the slots of `with_deploy_values`."""
    nodegroup_of = {nodegroup.labels[names.NODESET_LABEL]: nodegroup for nodegroup in nodegroups}
    values: Values = {
        "slurmKey": _secret_ref(names.SLURM_KEY_SECRET),
        "jwtKey": _secret_ref(names.JWT_KEY_SECRET),
        "configFiles": {
            "gres.conf": "AutoDetect=nvidia\n",  # the chart writes none; `nvidia` needs no NVML in the image's Slurm
            "cgroup.conf": _cgroup_conf(settings),
        },
        "controller": _controller(settings, contract),
        "restapi": {
            "slurmrestd": {"image": _slinky_image("slurmrestd")},
            "podSpec": {"nodeSelector": on_core_nodes()},
        },
        "loginsets": {names.LOGINSET: _login(settings)},
        "nodesets": {
            nodeset.name: _nodeset(settings.nodesets[nodeset.name], nodeset, nodegroup_of[nodeset.name])
            for nodeset in contract.nodesets
        },
    }
    if accounting is not None:
        values["accounting"] = _accounting(accounting)
    if settings.observability.enabled:
        # Prolog and epilog that tell the DCGM exporter which job has which GPU.
        values["vendor"] = {"nvidia": {"dcgm": {"enabled": True, "jobMappingDir": DCGM_JOB_MAPPING_DIR}}}
    return values


def plan_slurm(
    settings: Settings,
    contract: ClusterContract,
    nodegroups: tuple[GpuNodegroupPlan, ...],
    accounting: AccountingPlan | None,
) -> SlurmPlan:
    """The release and the keys around it."""
    after = [SLURM_OPERATOR_RELEASE]
    if settings.observability.enabled:
        after.append(KUBE_PROMETHEUS_STACK_RELEASE)
    return SlurmPlan(
        namespace=names.NAMESPACE_SLURM,
        release=plan_release(
            settings,
            versions.SLURM,
            name=names.SLURM_RELEASE,
            namespace=names.NAMESPACE_SLURM,
            values=slurm_values(settings, contract, nodegroups, accounting),
            timeout_seconds=900,
            atomic=False,  # a rollback of a live scheduler is worse than a failure that can be looked at
            after=tuple(after),
        ),
        authorized_keys=settings.login.authorized_keys,
        generate_login_key=not settings.login.authorized_keys,
        slurm_key_bytes=1024,
        jwt_key_bytes=32,
        host_key_types=("ed25519", "rsa", "ecdsa"),
        nodeset_names=tuple(nodeset.name for nodeset in contract.nodesets),
        tags=tags(settings, component="SlurmCluster"),
    )


def with_deploy_values(
    values: Values,
    *,
    image_repository: str,
    image_digest: str,
    authorized_keys: list[str],
    accounting_host: str | None,
) -> Values:
    """The release's values with the slurmd image of every nodeset, the login keys (and a checksum of them on the login
    pods: chart 1.2.1 does not roll them when only the keys change) and, with accounting, the database's host put in."""
    nodesets = values["nodesets"]
    if not isinstance(nodesets, dict):
        raise TypeError("values.nodesets: not a mapping; give the values of a SlurmPlan's release")
    keys = "".join(f"{key.strip()}\n" for key in authorized_keys)
    slots: Values = {
        "nodesets": {
            name: {"slurmd": {"image": {"repository": image_repository, "digest": image_digest}}} for name in nodesets
        },
        "loginsets": {
            names.LOGINSET: {
                "rootSshAuthorizedKeys": keys,
                "metadata": {"annotations": {"checksum/keys": hashlib.sha256(keys.encode()).hexdigest()}},
            }
        },
    }
    if accounting_host is not None:
        slots["accounting"] = {"storageConfig": {"host": accounting_host}}
    return merged(values, slots)
