"""Names that more than one part must spell alike: namespaces, labels, the GPU taint, ports, objects that charts make.

One home each, because a name that is written twice sooner or later disagrees with itself: the taint and its
tolerations, the claim and its volume, the service and its selector are all rendered from here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PROJECT: Final = "slurm-eks"
# `index` is what component packages generate, so publishing one later needs no aliases.
TOKEN_PREFIX: Final = "slurm-eks:index"

NAMESPACE_SLURM: Final = "slurm"
NAMESPACE_OPERATOR: Final = "slinky"
NAMESPACE_CERT_MANAGER: Final = "cert-manager"
NAMESPACE_MONITORING: Final = "monitoring"
NAMESPACE_SYSTEM: Final = "kube-system"

ROLE_LABEL: Final = "role"
ROLE_CORE: Final = "core"
ROLE_GPU: Final = "gpu"
NODESET_LABEL: Final = "slurm-eks/nodeset"  # tells the nodesets' nodes apart when two share a GPU type

GPU_RESOURCE: Final = "nvidia.com/gpu"
EFA_RESOURCE: Final = "vpc.amazonaws.com/efa"


@dataclass(frozen=True, kw_only=True, slots=True)
class Taint:
    """A node taint with its two spellings; the toleration is rendered from it and so cannot miss it."""

    key: str
    value: str

    def for_eks(self) -> dict[str, str]:
        """The nodegroup's spelling (EKS API enum NO_SCHEDULE)."""
        return {"key": self.key, "value": self.value, "effect": "NO_SCHEDULE"}

    def toleration(self) -> dict[str, str]:
        """The pod's spelling; `Exists`, so that a user who re-taints nodes with another value strands nothing."""
        return {"key": self.key, "operator": "Exists", "effect": "NoSchedule"}


GPU_TAINT: Final = Taint(key="nvidia.com/gpu", value="present")

# Objects that the slurm chart 1.2.1 and its operator name themselves, for release `slurm` (slurm-operator v1.2.1,
# helm/slurm/templates and api/v1beta1/*_keys.go).
SLURM_RELEASE: Final = "slurm"
LOGINSET: Final = "login"
SERVICE_CONTROLLER: Final = "slurm-controller"
SERVICE_RESTAPI: Final = "slurm-restapi"
LOGIN_SERVICE: Final = f"slurm-login-{LOGINSET}"
LOGIN_SELECTOR: Final = {"app.kubernetes.io/name": "login", "app.kubernetes.io/instance": f"slurm-login-{LOGINSET}"}
LOGIN_TARGET_PORT: Final = "login"  # the pod's port name
# The operator keeps an existing immutable Secret of this name, so host keys that we put there survive every re-render.
HOST_KEYS_SECRET: Final = f"slurm-login-{LOGINSET}-ssh-host-keys"
LOGIN_NLB_SERVICE: Final = "slurm-login-nlb"

SLURM_KEY_SECRET: Final = ("slurm-auth", "slurm.key")
JWT_KEY_SECRET: Final = ("slurm-jwt", "jwt.key")
ACCOUNTING_SECRET: Final = ("slurm-accounting-db", "password")

PORT_SLURMCTLD: Final = 6817
PORT_SLURMRESTD: Final = 6820
PORT_SSH: Final = 22
PORT_NFS: Final = 2049
PORT_MARIADB: Final = 3306

SHARED_CLAIM: Final = "shared"
SHARED_MOUNT: Final = "/shared"
HOME_CLAIM: Final = "home"
HOME_MOUNT: Final = "/home"
LOCAL_MOUNT: Final = "/local"
# RAID0 of the instance store as nodeadm mounts it (amazon-eks-ami, nodeadm localStorage); the folder below it is ours.
LOCAL_HOST_PATH: Final = "/mnt/k8s-disks/0/slurm-local"
STORAGE_CLASS: Final = "gp3"

VALIDATION_NAME: Final = "slurm-validation"
JOBS_CONFIG_MAP: Final = "slurm-jobs"
RESULTS_CONFIG_MAP: Final = "slurm-validation-results"
VALIDATION_METRICS_NAME: Final = "slurm-validation-metrics"
