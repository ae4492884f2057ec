"""Writes /etc/slurmd-image, one line: the tag that the image deserves by what is in it, then the versions of its parts.

Asked of the parts themselves and not of a build argument, so that the line cannot disagree with the image. Jobs print
it, so that a result tells what it was measured with.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path

ROOT = Path(os.environ.get("ASSERT_ROOT", "") + "/")
PACKAGES = ("accelerate", "datasets", "peft", "transformers", "trl")


def told(*command: str) -> str:
    """The version that a command prints."""
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.findall(r"\d+\.\d+\S*", output)[0]


def nccl(library: str) -> str:
    version = ctypes.c_int()
    ctypes.CDLL(library).ncclGetVersion(ctypes.byref(version))
    return f"{version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}"


def pmix() -> str:
    get_version = ctypes.CDLL("libpmix.so.2").PMIx_Get_version
    get_version.restype = ctypes.c_char_p
    return re.findall(r"\d+(?:\.\d+)+", get_version().decode())[0]


def main() -> None:
    # Not by importing torch: two libraries of one name, and the second asked for would be the first again.
    torch = metadata.distribution("torch")
    built = re.fullmatch(r"(\d+\.\d+)\.\d+\+(cu\d+)", torch.version)
    if built is None:
        raise SystemExit(f"torch: {torch.version} is not the container's build; see requirements.txt")
    versions = {
        "python": platform.python_version(),
        "torch": torch.version,
        "torch-nccl": nccl(str(torch.locate_file("nvidia/nccl/lib/libnccl.so.2"))),
        "nccl": nccl("libnccl.so.2"),  # what programs such as nccl-tests link to
        "libfabric": told(str(ROOT / "opt/amazon/efa/bin/fi_info"), "--version"),
        "openmpi": told("mpirun", "--version"),
        "pmix": pmix(),
        **{name: metadata.version(name) for name in PACKAGES},
    }
    tag = f"{told('slurmd', '-V')}-torch{built[1]}-{built[2]}-mpi"
    line = " ".join([tag, *(f"{name}={version}" for name, version in versions.items())])
    (ROOT / "etc/slurmd-image").write_text(f"{line}\n")
    print(line)


if __name__ == "__main__":
    main()
