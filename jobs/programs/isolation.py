"""Which GPUs can this job use? Counts what CUDA shows, on how many a kernel gives the right result, and which devices
open.

CUDA_VISIBLE_DEVICES alone is a request that a job may drop; a device file that does not open is a fact. So the
kernels run without that variable too, in a process of their own.
"""
# pyright: basic, reportMissingImports=false

import argparse
import os
import pathlib
import re
import subprocess
import sys

_KERNEL = """
import torch
right = 0
for index in range(torch.cuda.device_count()):
    try:
        right += int(torch.arange(1000, device=f"cuda:{index}").sum().item() == 499500)
    except RuntimeError as refused:
        print(refused)
print("kernels", torch.cuda.device_count(), right)
"""


def kernels(environment: dict[str, str]) -> tuple[int, int]:
    """(devices that CUDA shows, devices on which a kernel computed right)."""
    done = subprocess.run([sys.executable, "-c", _KERNEL], env=environment, capture_output=True, text=True, check=False)
    told = re.search(r"^kernels (\d+) (\d+)$", done.stdout, re.MULTILINE)
    if not told:
        sys.exit(f"torch did not start: {(done.stdout + done.stderr).strip()[-500:]}")
    return int(told[1]), int(told[2])


def opens(device: pathlib.Path) -> bool:
    try:
        os.close(os.open(device, os.O_RDWR))
    except OSError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="Print which GPUs this job can use.")
    parser.add_argument("--asked", type=int, required=True)
    asked = parser.parse_args().asked
    devices = sorted(path for path in pathlib.Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name))
    visible, right = kernels(dict(os.environ))
    unmasked, _ = kernels({key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"})
    print(f"CUDA_VISIBLE_DEVICES={os.environ.get('CUDA_VISIBLE_DEVICES', '(not set)')}")
    print(
        f"isolation asked {asked} visible {visible} kernels {right} unmasked {unmasked} "
        f"openable {sum(map(opens, devices))} present {len(devices)}"
    )


if __name__ == "__main__":
    main()
