"""Writes a known file onto a shared folder, or reads the neighbour's; prints `node <name> <key> <values>`."""

import hashlib
import os
import pathlib
import sys
import time

MEBIBYTES = 64


def main() -> int:
    action, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    me, rank, world = os.environ["SLURMD_NODENAME"], int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    began = time.monotonic()
    if action == "write":
        content = os.urandom(1 << 20) * MEBIBYTES
        with (folder / f"{rank}.data").open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        (folder / f"{rank}.sha256").write_text(hashlib.sha256(content).hexdigest())
        print(f"node {me} write_seconds {time.monotonic() - began:.2f}")
        return 0
    neighbour = (rank + 1) % world
    (folder / f"{neighbour}.data").stat()
    print(f"node {me} stat_seconds {time.monotonic() - began:.2f}")
    digest = hashlib.sha256((folder / f"{neighbour}.data").read_bytes()).hexdigest()
    same = digest == (folder / f"{neighbour}.sha256").read_text()
    print(f"node {me} read {'same' if same else 'differs'}")
    space = os.statvfs(folder)
    print(f"node {me} free_percent {100 * space.f_bavail / space.f_blocks:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
