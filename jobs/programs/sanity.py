"""One all-reduce of ones over all ranks; the last line says the sum and the size of the world.

SANITY_BACKEND `gloo` and a small SANITY_MIB let the same job run on nodes without GPUs (it then proves Slurm, not the
fabric).
"""
# pyright: basic, reportMissingImports=false

import os
import sys

import torch
import torch.distributed as dist


def main() -> int:
    backend = os.environ.get("SANITY_BACKEND", "nccl")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    else:
        device = torch.device("cpu")
        torch.set_num_threads(1)
    dist.init_process_group(backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    tensor = torch.ones(int(os.environ.get("SANITY_MIB", "256")) * (1 << 20) // 4, device=device)
    dist.all_reduce(tensor)
    right = torch.tensor([float((tensor == world).all())], device=device)
    value = tensor[(tensor != world).nonzero()[0, 0]].item() if not right.item() else float(world)
    dist.all_reduce(right)  # one wrong element on one rank fails the job
    dist.barrier()
    ok = right.item() == world
    if rank == 0:
        print(f"version torch {torch.__version__}")
        if backend == "nccl":
            print(f"version nccl {'.'.join(map(str, torch.cuda.nccl.version()))}")
        print(f"backend {backend}, {tensor.numel() * 4 >> 20} MiB per rank, right on {right.item():g} of {world} ranks")
        print(
            f"all_reduce {'OK' if ok else 'WRONG'}: value {value} {'==' if ok else '!='} world_size {float(world)}",
            flush=True,
        )
    dist.destroy_process_group()
    return 0 if ok else 3


if __name__ == "__main__":
    sys.exit(main())
