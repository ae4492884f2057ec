"""Every pinned version in one place, with what must match it.

Checked against upstream in 2026-12 (chart repositories and tags as named beside each pin).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

KUBERNETES_VERSION: Final = "1.36"  # EKS standard support until 2027-08-02


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A Helm chart as its publisher serves it.

    home: `oci://` prefix (the chart's reference is `<home>/<name>`) or the HTTPS repository address.
    """

    name: str
    version: str
    home: str

    @property
    def is_oci(self) -> bool:
        return self.home.startswith("oci://")


SLINKY_HOME: Final = "oci://ghcr.io/slinkyproject/charts"
SLINKY_VERSION: Final = "1.2.1"
SLURM_SERIES: Final = "26.05"  # appVersion of the slurm chart 1.2.1: images of another series end in ImagePullBackOff
SLURM_PATCH: Final = "26.05.2"
SLINKY_IMAGES: Final = "ghcr.io/slinkyproject"
SLINKY_IMAGE_TAG: Final = "26.05-ubuntu26.04"  # the chart's own default tag

CERT_MANAGER: Final = Chart(name="cert-manager", version="v1.16.2", home="https://charts.jetstack.io")
SLURM_OPERATOR_CRDS: Final = Chart(name="slurm-operator-crds", version=SLINKY_VERSION, home=SLINKY_HOME)
SLURM_OPERATOR: Final = Chart(name="slurm-operator", version=SLINKY_VERSION, home=SLINKY_HOME)
SLURM: Final = Chart(name="slurm", version=SLINKY_VERSION, home=SLINKY_HOME)
LOAD_BALANCER_CONTROLLER: Final = Chart(
    name="aws-load-balancer-controller", version="3.5.0", home="https://aws.github.io/eks-charts"
)
EFA_DEVICE_PLUGIN: Final = Chart(
    name="aws-efa-k8s-device-plugin", version="v0.5.30", home="https://aws.github.io/eks-charts"
)
NVIDIA_DEVICE_PLUGIN: Final = Chart(
    name="nvidia-device-plugin", version="0.20.0", home="https://nvidia.github.io/k8s-device-plugin"
)
KUBE_PROMETHEUS_STACK: Final = Chart(
    name="kube-prometheus-stack", version="88.5.3", home="https://prometheus-community.github.io/helm-charts"
)
DCGM_EXPORTER: Final = Chart(
    name="dcgm-exporter", version="4.8.2", home="https://nvidia.github.io/dcgm-exporter/helm-charts"
)
ALL_CHARTS: Final = (
    CERT_MANAGER,
    SLURM_OPERATOR_CRDS,
    SLURM_OPERATOR,
    SLURM,
    LOAD_BALANCER_CONTROLLER,
    EFA_DEVICE_PLUGIN,
    NVIDIA_DEVICE_PLUGIN,
    KUBE_PROMETHEUS_STACK,
    DCGM_EXPORTER,
)
