"""EC2 instance types that the product knows: GPUs, memory, instance store, network cards, EFA.

Owns the numbers and the GRES names; does not own what follows from them (`plan/nodegroups.py`, `plan/slurm.py`). One
row per type, because every number that Slurm, Kubernetes, the launch template and the job scripts must agree on comes
from here and is written once.

Sources, 2026-12: counts, sizes and cards are the EC2 API's own answers (DescribeInstanceTypes as moto 5.2.5 carries
them; `tools/facts_from_moto.py` compares every row). GPUDirect RDMA: aws-ofi-nccl 1.21.1, src/platform-aws.cpp
(`gdr_required`). GRES names: the NVIDIA product name of the 580 driver, lower-cased with `_` for a space, as Slurm
26.05 makes it (gpu_common_underscorify_tolower); of these only `nvidia_l4` has been seen on a running node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuModel:
    """One GPU product. gres: the type as slurmd detects it. ec2_name: the EC2 API's name. memory_mib: per GPU."""

    gres: str
    product: str
    ec2_name: str
    cuda_arch: str
    memory_mib: int


A10G: Final = GpuModel(gres="nvidia_a10g", product="NVIDIA A10G", ec2_name="A10G", cuda_arch="sm_86", memory_mib=22888)
L4: Final = GpuModel(gres="nvidia_l4", product="NVIDIA L4", ec2_name="L4", cuda_arch="sm_89", memory_mib=22888)
L40S: Final = GpuModel(gres="nvidia_l40s", product="NVIDIA L40S", ec2_name="L40S", cuda_arch="sm_89", memory_mib=45776)
RTX_PRO_6000: Final = GpuModel(
    gres="nvidia_rtx_pro_6000_blackwell_server_edition",
    product="NVIDIA RTX PRO 6000 Blackwell Server Edition",
    ec2_name="RTX PRO Server 6000",
    cuda_arch="sm_120",
    memory_mib=98304,
)
A100_40: Final = GpuModel(
    gres="nvidia_a100-sxm4-40gb",
    product="NVIDIA A100-SXM4-40GB",
    ec2_name="A100",
    cuda_arch="sm_80",
    memory_mib=40960,
)
A100_80: Final = GpuModel(
    gres="nvidia_a100-sxm4-80gb",
    product="NVIDIA A100-SXM4-80GB",
    ec2_name="A100",
    cuda_arch="sm_80",
    memory_mib=81920,
)
H100: Final = GpuModel(
    gres="nvidia_h100_80gb_hbm3",
    product="NVIDIA H100 80GB HBM3",
    ec2_name="H100",
    cuda_arch="sm_90",
    memory_mib=81920,
)
H200: Final = GpuModel(gres="nvidia_h200", product="NVIDIA H200", ec2_name="H200", cuda_arch="sm_90", memory_mib=144384)
B200: Final = GpuModel(
    gres="nvidia_b200", product="NVIDIA B200", ec2_name="B200", cuda_arch="sm_100", memory_mib=183359
)
B300: Final = GpuModel(
    gres="nvidia_b300_sxm6_ac", product="NVIDIA B300 SXM6 AC", ec2_name="B300", cuda_arch="sm_103", memory_mib=275040
)
GPU_MODELS: Final = (A10G, L4, L40S, RTX_PRO_6000, A100_40, A100_80, H100, H200, B200, B300)


@dataclass(frozen=True, kw_only=True, slots=True)
class InstanceType:
    """One row of EC2 facts.

    memory_mib: what EC2 sells; Slurm sees less (g6.12xlarge: 186130 of 196608). nvme_gb_each: instance store, decimal
    GB as AWS writes it. efa_cards: indexes of the network cards that take an `efa-only` interface. network_gbps:
    gigabits per second over all cards, the upper figure where AWS says "up to". gdr: GPUDirect RDMA works over EFA.
    short_conntrack: idle TCP connections are forgotten after 350 s instead of 5 days. capacity_block: sold as Capacity
    Block for ML. enis, ips_per_eni: of network card 0, the only one that the VPC CNI takes pod addresses from.
    """

    name: str
    vcpus: int
    memory_mib: int
    gpu: GpuModel | None
    gpus: int
    nvme_count: int
    nvme_gb_each: int
    efa_cards: tuple[int, ...]
    network_gbps: float
    gdr: bool
    nvlink: bool
    short_conntrack: bool
    capacity_block: bool
    enis: int
    ips_per_eni: int
    arch: Literal["x86_64"] = "x86_64"

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def gpu_model(self) -> str | None:
        """The GRES type (`nvidia_l4`)."""
        return self.gpu.gres if self.gpu else None

    @property
    def cuda_arch(self) -> str | None:
        return self.gpu.cuda_arch if self.gpu else None

    @property
    def gres(self) -> str | None:
        """What a whole node offers, as Slurm writes it (`gpu:nvidia_l4:4`)."""
        return f"gpu:{self.gpu.gres}:{self.gpus}" if self.gpu else None

    @property
    def nvme_gib_each(self) -> int:
        return self.nvme_gb_each * 10**9 // 2**30

    @property
    def efa_interfaces(self) -> int:
        return len(self.efa_cards)

    @property
    def card0_efa(self) -> bool:
        return 0 in self.efa_cards

    @property
    def max_pods_hint(self) -> int:
        """Pods that get an address. An `efa-only` interface on card 0 takes one of its ENI slots, which kubelet's own
        sum leaves out (g6.12xlarge: 234, in truth 205)."""
        return (self.enis - self.card0_efa) * (self.ips_per_eni - 1) + 2


@dataclass(frozen=True, kw_only=True, slots=True)
class _Traits:
    gdr: bool = False
    nvlink: bool = False
    short_conntrack: bool = False
    capacity_block: bool = False


_PLAIN: Final = _Traits()
_SHORT: Final = _Traits(short_conntrack=True)
_SHORT_GDR: Final = _Traits(short_conntrack=True, gdr=True)
_BLOCK: Final = _Traits(capacity_block=True)  # p5.4xlarge: aws-ofi-nccl does not ask it for GPUDirect RDMA
_NVLINK: Final = _Traits(capacity_block=True, gdr=True, nvlink=True)
_NVLINK_SHORT: Final = _Traits(capacity_block=True, gdr=True, nvlink=True, short_conntrack=True)


def _row(
    name: str,
    vcpus: int,
    memory_mib: int,
    gpus: int,
    gpu: GpuModel | None,
    nvme: tuple[int, int],
    gbps: float,
    card0: tuple[int, int],
    efa_cards: tuple[int, ...] = (),
    traits: _Traits = _PLAIN,
) -> InstanceType:
    return InstanceType(
        name=name,
        vcpus=vcpus,
        memory_mib=memory_mib,
        gpu=gpu,
        gpus=gpus,
        nvme_count=nvme[0],
        nvme_gb_each=nvme[1],
        efa_cards=efa_cards,
        network_gbps=gbps,
        gdr=traits.gdr,
        nvlink=traits.nvlink,
        short_conntrack=traits.short_conntrack,
        capacity_block=traits.capacity_block,
        enis=card0[0],
        ips_per_eni=card0[1],
    )


def _cards(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


# name, vCPUs, MiB, GPUs, model, (NVMe disks, GB each), Gbit/s, (ENIs, IPv4 addresses each) of card 0, EFA cards, traits
_ROWS: Final = (
    _row("g5.xlarge", 4, 16384, 1, A10G, (1, 250), 10, (4, 15)),
    _row("g5.2xlarge", 8, 32768, 1, A10G, (1, 450), 10, (4, 15)),
    _row("g5.4xlarge", 16, 65536, 1, A10G, (1, 600), 25, (8, 30)),
    _row("g5.8xlarge", 32, 131072, 1, A10G, (1, 900), 25, (8, 30), (0,)),
    _row("g5.12xlarge", 48, 196608, 4, A10G, (1, 3800), 40, (15, 50), (0,)),
    _row("g5.16xlarge", 64, 262144, 1, A10G, (1, 1900), 25, (8, 30), (0,)),
    _row("g5.24xlarge", 96, 393216, 4, A10G, (1, 3800), 50, (15, 50), (0,)),
    _row("g5.48xlarge", 192, 786432, 8, A10G, (2, 3800), 100, (7, 50), (0,)),
    _row("g6.xlarge", 4, 16384, 1, L4, (1, 250), 10, (4, 15)),
    _row("g6.2xlarge", 8, 32768, 1, L4, (1, 450), 10, (4, 15)),
    _row("g6.4xlarge", 16, 65536, 1, L4, (1, 600), 25, (8, 30)),
    _row("g6.8xlarge", 32, 131072, 1, L4, (2, 450), 25, (8, 30), (0,)),
    _row("g6.12xlarge", 48, 196608, 4, L4, (4, 940), 40, (8, 30), (0,)),
    _row("g6.16xlarge", 64, 262144, 1, L4, (2, 940), 25, (15, 50), (0,)),
    _row("g6.24xlarge", 96, 393216, 4, L4, (4, 940), 50, (15, 50), (0,)),
    _row("g6.48xlarge", 192, 786432, 8, L4, (8, 940), 100, (15, 50), (0,)),
    _row("gr6.4xlarge", 16, 131072, 1, L4, (1, 600), 25, (8, 30)),
    _row("gr6.8xlarge", 32, 262144, 1, L4, (2, 450), 25, (8, 30), (0,)),
    _row("g6e.xlarge", 4, 32768, 1, L40S, (1, 250), 20, (4, 15)),
    _row("g6e.2xlarge", 8, 65536, 1, L40S, (1, 450), 20, (4, 15)),
    _row("g6e.4xlarge", 16, 131072, 1, L40S, (1, 600), 20, (8, 30)),
    _row("g6e.8xlarge", 32, 262144, 1, L40S, (2, 450), 25, (8, 30), (0,)),
    _row("g6e.12xlarge", 48, 393216, 4, L40S, (2, 1900), 100, (10, 30), (0,)),
    _row("g6e.16xlarge", 64, 524288, 1, L40S, (2, 950), 35, (15, 50), (0,)),
    _row("g6e.24xlarge", 96, 786432, 4, L40S, (2, 1900), 200, (10, 50), _cards(0, 1)),
    _row("g6e.48xlarge", 192, 1572864, 8, L40S, (4, 1900), 400, (10, 50), _cards(0, 3)),
    _row("g7e.2xlarge", 8, 65536, 1, RTX_PRO_6000, (1, 1900), 50, (4, 64), (), _SHORT),
    _row("g7e.4xlarge", 16, 131072, 1, RTX_PRO_6000, (1, 1900), 50, (8, 64), (), _SHORT),
    _row("g7e.8xlarge", 32, 262144, 1, RTX_PRO_6000, (1, 1900), 100, (8, 64), (0,), _SHORT),
    _row("g7e.12xlarge", 48, 524288, 2, RTX_PRO_6000, (1, 3800), 400, (10, 64), (0,), _SHORT_GDR),
    _row("g7e.24xlarge", 96, 1048576, 4, RTX_PRO_6000, (2, 3800), 800, (10, 64), _cards(0, 1), _SHORT_GDR),
    _row("g7e.48xlarge", 192, 2097152, 8, RTX_PRO_6000, (4, 3800), 1600, (10, 64), _cards(0, 3), _SHORT_GDR),
    _row("p4d.24xlarge", 96, 1179648, 8, A100_40, (8, 1000), 400, (15, 50), _cards(0, 3), _NVLINK),
    _row("p4de.24xlarge", 96, 1179648, 8, A100_80, (8, 1000), 400, (15, 50), _cards(0, 3), _NVLINK),
    _row("p5.4xlarge", 16, 262144, 1, H100, (1, 3800), 100, (4, 30), (0,), _BLOCK),
    _row("p5.48xlarge", 192, 2097152, 8, H100, (8, 3800), 3200, (2, 50), _cards(0, 31), _NVLINK),
    _row("p5e.48xlarge", 192, 2097152, 8, H200, (8, 3800), 3200, (2, 50), _cards(0, 31), _NVLINK),
    _row("p5en.48xlarge", 192, 2097152, 8, H200, (8, 3800), 3200, (4, 50), _cards(0, 15), _NVLINK),
    _row("p6-b200.48xlarge", 192, 2097152, 8, B200, (8, 3800), 3200, (4, 50), _cards(0, 7), _NVLINK_SHORT),
    _row("p6-b300.48xlarge", 192, 4194304, 8, B300, (8, 3800), 6400, (4, 50), _cards(1, 16), _NVLINK_SHORT),
    _row("m6i.xlarge", 4, 16384, 0, None, (0, 0), 12.5, (4, 15)),
    _row("m6i.2xlarge", 8, 32768, 0, None, (0, 0), 12.5, (4, 15)),
    _row("m6i.4xlarge", 16, 65536, 0, None, (0, 0), 12.5, (8, 30)),
    _row("m6i.8xlarge", 32, 131072, 0, None, (0, 0), 12.5, (8, 30)),
    _row("m6i.12xlarge", 48, 196608, 0, None, (0, 0), 18.75, (8, 30)),
    _row("m6i.16xlarge", 64, 262144, 0, None, (0, 0), 25, (15, 50)),
    _row("m7i.xlarge", 4, 16384, 0, None, (0, 0), 12.5, (4, 15)),
    _row("m7i.2xlarge", 8, 32768, 0, None, (0, 0), 12.5, (4, 15)),
    _row("m7i.4xlarge", 16, 65536, 0, None, (0, 0), 12.5, (8, 30)),
    _row("m7i.8xlarge", 32, 131072, 0, None, (0, 0), 12.5, (8, 30)),
    _row("m7i.12xlarge", 48, 196608, 0, None, (0, 0), 18.75, (8, 30)),
    _row("m7i.16xlarge", 64, 262144, 0, None, (0, 0), 25, (15, 50)),
    _row("m7a.xlarge", 4, 16384, 0, None, (0, 0), 12.5, (4, 15)),
    _row("m7a.2xlarge", 8, 32768, 0, None, (0, 0), 12.5, (4, 15)),
    _row("m7a.4xlarge", 16, 65536, 0, None, (0, 0), 12.5, (8, 30)),
    _row("m7a.8xlarge", 32, 131072, 0, None, (0, 0), 12.5, (8, 30)),
    _row("m7a.12xlarge", 48, 196608, 0, None, (0, 0), 18.75, (8, 30)),
    _row("m7a.16xlarge", 64, 262144, 0, None, (0, 0), 25, (15, 50)),
    _row("c7i.xlarge", 4, 8192, 0, None, (0, 0), 12.5, (4, 15)),
    _row("c7i.2xlarge", 8, 16384, 0, None, (0, 0), 12.5, (4, 15)),
    _row("c7i.4xlarge", 16, 32768, 0, None, (0, 0), 12.5, (8, 30)),
    _row("c7i.8xlarge", 32, 65536, 0, None, (0, 0), 12.5, (8, 30)),
    _row("c7i.12xlarge", 48, 98304, 0, None, (0, 0), 18.75, (8, 30)),
    _row("c7i.16xlarge", 64, 131072, 0, None, (0, 0), 25, (15, 50)),
    _row("r7i.xlarge", 4, 32768, 0, None, (0, 0), 12.5, (4, 15)),
    _row("r7i.2xlarge", 8, 65536, 0, None, (0, 0), 12.5, (4, 15)),
    _row("r7i.4xlarge", 16, 131072, 0, None, (0, 0), 12.5, (8, 30)),
    _row("r7i.8xlarge", 32, 262144, 0, None, (0, 0), 12.5, (8, 30)),
    _row("r7i.12xlarge", 48, 393216, 0, None, (0, 0), 18.75, (8, 30)),
    _row("r7i.16xlarge", 64, 524288, 0, None, (0, 0), 25, (15, 50)),
)

INSTANCE_TYPES: Final[Mapping[str, InstanceType]] = MappingProxyType({row.name: row for row in _ROWS})

# Families that exist and cannot be used, with why. Keys are the part before the dot.
_NO_NVIDIA_GPU: Final = "it has no NVIDIA GPU"
_NEURON: Final = "its accelerators are AWS Neuron, not NVIDIA GPUs: other driver, device plugin, image and collectives"
_ARM64: Final = "it is arm64, the slurmd image and the AMI are x86_64"
_FRACTION: Final = "it has a fraction of a GPU, which the NVIDIA device plugin does not count as one"
REFUSED_FAMILIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "hpc6a": _NO_NVIDIA_GPU,
        "hpc6id": _NO_NVIDIA_GPU,
        "hpc7a": _NO_NVIDIA_GPU,
        "hpc7g": _NO_NVIDIA_GPU,
        "hpc8a": _NO_NVIDIA_GPU,
        "trn1": _NEURON,
        "trn1n": _NEURON,
        "trn2": _NEURON,
        "trn2-ac": _NEURON,
        "inf1": _NEURON,
        "inf2": _NEURON,
        "g4ad": "its GPUs are AMD's",
        "g4dn": "neither the GRES name of its T4 nor the slurmd image on it was ever checked",
        "dl1": _NO_NVIDIA_GPU,
        "dl2q": _NO_NVIDIA_GPU,
        "g5g": _ARM64,
        "p6e-gb200": f"{_ARM64}, and its racks need DRA and IMEX instead of the device plugins",
        "p6e-gb300": f"{_ARM64}, and its racks need DRA and IMEX instead of the device plugins",
        "g6f": _FRACTION,
        "gr6f": _FRACTION,
        "g7": "its RTX PRO 4500 needs NVIDIA driver 595 and the EKS AMI has 580 (amazon-eks-ami, doc/usage/g7-ami.md)",
        "p2": "CUDA 13 of the slurmd image no longer supports Kepler",
        "p3": "CUDA 13 of the slurmd image no longer supports Volta",
        "p3dn": "CUDA 13 of the slurmd image no longer supports Volta",
    }
)
