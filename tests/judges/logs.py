"""Logs of our own making, in the forms of the real programs: what a judge should pass, to be spoilt one thing at a
time.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Nodes:
    """A nodeset's facts; by default the walkthrough's 2x g6.12xlarge."""

    name: str = "slinky"
    instance_type: str = "g6.12xlarge"
    nodes: int = 2
    gpus_per_node: int = 4
    gres: str = "gpu:nvidia_l4:4"
    efa_interfaces: int = 1
    names: tuple[str, ...] = ()

    @property
    def node_names(self) -> tuple[str, ...]:
        return self.names or tuple(f"{self.name}-{index}" for index in range(self.nodes))


L4 = Nodes()
H100 = Nodes(
    name="h100", instance_type="p5.48xlarge", gpus_per_node=8, gres="gpu:nvidia_h100_80gb_hbm3:8", efa_interfaces=32
)
_MODELS = {"gpu:nvidia_l4": "NVIDIA L4", "gpu:nvidia_h100_80gb_hbm3": "NVIDIA H100 80GB HBM3"}
ADAPTER = (
    "adapter /shared/lora-out/adapter_model.safetensors: 47218432 bytes, 288 tensors, 288 of them LoRA, "
    "431 s after the job's start"
)
_FACTOR = {"all_reduce": 2, "all_gather": 1}


def transport(nodes: Nodes = L4, *, provider: str = "efa") -> str:
    """NCCL's lines of each rank, as aws-ofi-nccl 1.18 prints them."""
    lines: list[str] = []
    for rank in range(nodes.nodes * nodes.gpus_per_node):
        host, device = nodes.node_names[rank // nodes.gpus_per_node], rank % nodes.gpus_per_node
        prefix = f"{host}:{2100 + rank}:{2200 + rank} [{device}] NCCL INFO"
        lines += [
            f"{prefix} Bootstrap: Using eth0:10.0.64.21<0>",
            f"{prefix} NET/OFI Initializing aws-ofi-nccl 1.18.0",
            f"{prefix} NET/OFI Selected provider is {provider}, fabric is {provider} (found 1 nics)",
            f"{prefix} Using network AWS Libfabric",
        ]
    return "\n".join(lines) + "\n"


def nccl(
    nodes: Nodes = L4,
    *,
    collective: str = "all_reduce",
    peak: float = 4.11,
    sizes: tuple[int, ...] = tuple(1 << power for power in range(20, 31)),
    carried: str | None = None,
) -> str:
    """A whole run of nccl-tests 2.19 whose largest message has the bus bandwidth `peak` in GB/s."""
    world = nodes.nodes * nodes.gpus_per_node
    model = _MODELS[nodes.gres.rsplit(":", 1)[0]]
    lines = [
        "# nccl-tests version 2.19.6 nccl-headers=22707 nccl-library=22707",
        f"# Collective test starting: {collective}_perf",
        f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) warmup iters: 5 iters: 20 "
        "agg iters: 1 " + "validation: 1 graph: 0 unalign: 0",
        "#",
        "# Using devices",
    ]
    for rank in range(world):
        host, device = nodes.node_names[rank // nodes.gpus_per_node], rank % nodes.gpus_per_node
        lines.append(
            f"#  Rank {rank:2d} Group  0 Pid {2100 + rank:6d} on {host:>10s} device {device:2d} "
            f"[0000:{0x38 + 2 * device:02x}:00] {model}"
        )
    lines.append((transport(nodes) if carried is None else carried).rstrip("\n"))
    lines.append("#       size         count      type   redop    root     time   algbw   busbw #wrong  ... twice")
    factor = _FACTOR[collective] * (world - 1) / world
    redop = "sum" if collective == "all_reduce" else "none"
    speeds: list[float] = []
    for size in sizes:
        busbw = peak * size / (size + (1 << 20)) * (1 + (1 << 20) / sizes[-1])  # small messages are slower
        algbw = busbw / factor if factor else 240.0
        busbw = busbw if factor else 0.0  # a world of one sends nothing
        half = f"  {size / algbw / 1000:7.2f}  {algbw:6.2f}  {busbw:6.2f}       0"
        lines.append(f"{size:12d}  {size // 4:12d}  {'float':>8s}  {redop:>6s}  {-1:6d}{half}{half}")
        speeds += [round(busbw, 2)] * 2
    lines += [
        "# Out of bounds values : 0 OK",
        f"# Avg bus bandwidth    : {sum(speeds) / len(speeds):g} ",
        "#",
        f"# Collective test concluded: {collective}_perf",
    ]
    return "\n".join(lines) + "\n"


def sanity(nodes: Nodes = L4) -> str:
    world = nodes.nodes * nodes.gpus_per_node
    return (
        transport(nodes)
        + f"backend nccl, 256 MiB per rank, right on {world} of {world} ranks\n"
        + f"all_reduce OK: value {float(world)} == world_size {float(world)}\n"
        + "finished: exit 0 at 2026-12-01T10:00:00Z\n"
    )


def finetune(steps: int = 16, world: int = 8) -> str:
    lines = [
        str(
            {
                "loss": round(2.1 - 0.04 * step, 3),
                "mean_token_accuracy": round(0.55 + 0.004 * step, 4),
                "epoch": round(step / 16, 2),
            }
        )
        for step in range(1, steps + 1)
    ]
    lines += [
        str({"train_runtime": 410.2, "train_loss": 1.798, "epoch": 1.0}),
        f"world_size {world}",
        f"steps {steps} of 16",
        "Done. LoRA adapters saved to /shared/lora-out",
        ADAPTER,
        "finished: exit 0 at 2026-12-01T10:00:00Z",
    ]
    return "\n".join(lines) + "\n"
