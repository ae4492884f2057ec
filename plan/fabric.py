"""The fabric of an instance type: its network interfaces in the launch template and its NCCL and libfabric variables.

Both follow from the same facts (network cards, GPUDirect RDMA, NVLink), so a type is described once and never by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from facts.hardware import InstanceType


@dataclass(frozen=True, kw_only=True, slots=True)
class InterfacePlan:
    """One network interface of the launch template. interface_type: `interface` (ENA), `efa` or `efa-only`."""

    network_card: int
    device_index: int
    interface_type: Literal["interface", "efa", "efa-only"]


def interfaces(hardware: InstanceType, *, efa: bool) -> tuple[InterfacePlan, ...]:
    """The node's own ENA interface, and with EFA one `efa-only` on every card that takes one.

    Every card, because EFA traffic is spread by card and an empty card is bandwidth paid for and not used. `efa-only`,
    because it takes no IP address; the node's own interface stays plain ENA, since EC2 refuses `efa-only` there. On
    card 0 the EFA interface is therefore device 1: on single-card types (g6.12xlarge) it takes one ENI slot, and so 29
    possible pod addresses, from a node that runs about ten pods. p6-b300 has EFA on cards 1 to 16 and none on card 0.
    Source: EC2 user guide, "Maximize network bandwidth" (efa-acc-inst-types); EKS user guide, ml/device-management-efa.
    """
    own = InterfacePlan(network_card=0, device_index=0, interface_type="interface")
    if not efa:
        return (own,)
    return (
        own,
        *(
            InterfacePlan(network_card=card, device_index=1 if card == 0 else 0, interface_type="efa-only")
            for card in hardware.efa_cards
        ),
    )


# Pods have `eth0` and `lo`; named by exclusion, so that a second pod interface does not need a new setting.
_ALWAYS: Final[Mapping[str, str]] = {
    "NCCL_SOCKET_IFNAME": "^lo,docker",
    "NCCL_DEBUG": "INFO",  # the judges read the transport of every rank from it
}
# Families without GPUDirect RDMA: data goes through host memory. aws-ofi-nccl 1.7 and later would set the first, third
# and fourth itself; they stay because a job that overrides NCCL's plugin or its version must not end on TCP without a
# word.
_EFA_WITHOUT_GDR: Final[Mapping[str, str]] = {
    "FI_PROVIDER": "efa",
    "FI_EFA_USE_DEVICE_RDMA": "0",
    "FI_EFA_FORK_SAFE": "1",
    "NCCL_PROTO": "simple",
}
# Several GPUs without NVLink: peer-to-peer over PCIe hangs at init on these hosts (NVIDIA/nccl#631, #667).
_NO_PEER_TO_PEER: Final[Mapping[str, str]] = {"NCCL_P2P_DISABLE": "1"}


def job_environment(hardware: InstanceType, *, efa: bool) -> dict[str, str]:
    """The variables that a job on this type exports before NCCL starts.

    Families with GPUDirect RDMA (p4d and later, large g7e) get almost none on purpose: the plugin tunes them itself,
    and values copied from older guides cost bandwidth there (aws-ofi-nccl, doc/efa-env-var.md).
    """
    environment = dict(_ALWAYS)
    if hardware.gdr:
        return environment
    if efa:
        environment |= _EFA_WITHOUT_GDR
    if hardware.gpus > 1 and not hardware.nvlink:
        environment |= _NO_PEER_TO_PEER
    return dict(sorted(environment.items()))
