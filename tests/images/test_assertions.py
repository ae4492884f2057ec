"""Each assertion of the slurmd image on a made-up root: holds on a good one, fails on the broken ones it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.images import tree as made_up
from tests.images.tree import CUDA, EFA, IMAGE, LIBRARIES, PLUGIN, SHARE, SITE, Tree

ASSERTIONS = sorted((IMAGE / "assert.d").glob("*.sh"))
NUMBERS = [path.name[:2] for path in ASSERTIONS]
CONF = "etc/ld.so.conf.d/00-efa.conf"
AMAZON_MPI = "opt/amazon/openmpi/lib"


@dataclass(frozen=True)
class Break:
    """One way to break the image; says: what the failed assertion must say."""

    what: str
    breaks: Callable[[Tree], object]
    says: str


def set_environment(**values: str) -> Callable[[Tree], None]:
    return lambda tree: tree.environment.update(
        {name: value.replace("ROOT", str(tree.path)) for name, value in values.items()}
    )


def run_all(*steps: Callable[[Tree], object]) -> Callable[[Tree], None]:
    def breaks(tree: Tree) -> None:
        for step in steps:
            step(tree)

    return breaks


def other_machine(where: str) -> Callable[[Tree], None]:
    """The same program with the ELF header of arm64."""

    def breaks(tree: Tree) -> None:
        program = bytearray((tree.path / where).read_bytes())
        program[18:20] = b"\xb7\x00"
        tree.program(where, bytes(program))

    return breaks


def amazon_mpi(tree: Tree) -> None:
    tree.library(f"{AMAZON_MPI}/libmpi.so.40", "libmpi-without-pmix")
    tree.write("etc/ld.so.conf.d/01-openmpi.conf", f"ROOT/{AMAZON_MPI}\n")


BREAKS: dict[str, tuple[Break, ...]] = {
    "01": (
        Break("of 25.11", lambda t: t.script("usr/sbin/slurmd", "echo slurm 25.11.3"), "'slurm 25.11.3'"),
        Break("of 26.051", lambda t: t.script("usr/sbin/slurmd", "echo slurm 26.051.3"), "'slurm 26.051.3'"),
        Break("series not given", lambda t: t.environment.pop("SLURM_SERIES"), "is a build argument"),
    ),
    "02": (
        Break("no entrypoint", lambda t: t.remove("usr/local/bin/entrypoint.sh"), "missing or not executable"),
        Break("DLC's entrypoint", lambda t: t.script("usr/local/bin/entrypoint.sh", "exec $@"), "not Slinky's"),
        Break("no sshd", lambda t: t.remove("usr/sbin/sshd"), "sshd: not on PATH"),
        Break("other uid", lambda t: t.replace("etc/passwd", "401:401", "998:998"), "user slurm: not uid and gid 401"),
    ),
    "03": (
        Break("built on arm", lambda t: t.script("tools/uname", "echo aarch64"), "aarch64"),
        Break("slurmd for arm", other_machine("usr/sbin/slurmd"), "slurmd: not a program for x86_64"),
        Break("python for arm", other_machine("usr/local/bin/python3.12"), "python3.12: not a program for x86_64"),
    ),
    "04": (
        Break(
            "no torch",
            lambda t: t.remove(f"{SITE}/torch/__init__.py", f"{SITE}/torch/distributed.py"),
            "python3 cannot import torch",
        ),
        Break("CUDA 12.9", lambda t: t.replace(f"{SITE}/torch/__init__.py", "13.0", "12.9"), "2.9.0+cu130 12.9"),
        Break("torch 2.8", lambda t: t.replace(f"{SITE}/torch/__init__.py", "2.9.0", "2.8.0"), "2.8.0+cu130 13.0"),
    ),
    "05": (
        Break(
            "a CPU build",
            lambda t: t.replace(
                f"{SITE}/torch/distributed.py",
                "def is_nccl_available(): return True",
                "def is_nccl_available(): return False",
            ),
            "torch.distributed: no nccl",
        ),
    ),
    "06": (
        Break(
            "CUDA's NCCL before torch's own",
            lambda t: t.replace(
                f"{SITE}/torch/__init__.py",
                'Path(__file__).parents[1] / "nvidia/nccl/lib/libnccl.so.2"',
                f'"ROOT/{CUDA}/libnccl.so.2"',
            ),
            f"{CUDA}/libnccl.so.2, not the one in its own packages",
        ),
        Break(
            "torch without NCCL",
            lambda t: t.replace(f"{SITE}/torch/__init__.py", "ctypes.CDLL(str(NCCL))", ""),
            "loaded none",
        ),
    ),
    "07": (
        Break(
            "another libssl",
            lambda t: t.write(f"{SITE}/ssl.py", "raise ImportError('libssl.so.3: cannot open')"),
            "libssl.so.3: cannot open",
        ),
        Break("trl missing", lambda t: t.remove(f"{SITE}/trl.py"), "No module named 'trl'"),
        Break(
            "another peft than pinned",
            lambda t: t.replace(f"{SHARE}/requirements.txt", "peft==", "peft==99."),
            "requirements.txt pins 99.",
        ),
        Break(
            "a pin breaks botocore",
            lambda t: t.replace(
                f"{SITE}/pip/__main__.py",
                "print(",
                "print('botocore 1.44.8 has requirement python-dateutil<3, but you have 4.0.');print(",
            ),
            "botocore 1.44.8 has requirement python-dateutil<3",
        ),
    ),
    "08": (
        Break(
            "libefa missing",
            lambda t: t.script("opt/amazon/efa/bin/fi_info", "echo libefa.so.1: cannot open; exit 127"),
            "libefa.so.1: cannot open; a library of it is missing",
        ),
        Break(
            "libfabric 1.9",
            lambda t: t.replace("opt/amazon/efa/bin/fi_info", "libfabric: 2.1.0", "libfabric: 1.9.0"),
            "got '1.9'",
        ),
    ),
    "09": (
        Break("fi_info broken", lambda t: t.script("opt/amazon/efa/bin/fi_info", "exit 1"), "fi_info -l: cannot run"),
        Break("no efa", lambda t: t.replace("opt/amazon/efa/bin/fi_info", "efa:", "verbs:"), "no efa among verbs:"),
    ),
    "10": (
        Break(
            "old folder named",
            lambda t: t.write(CONF, f"ROOT/{EFA}\nROOT/opt/amazon/aws-ofi-nccl/lib\n"),
            "does not name",
        ),
        Break("no plugin", lambda t: t.remove(f"{PLUGIN}/libnccl-net.so", f"{PLUGIN}/libnccl-net-ofi.so"), "0 folders"),
        Break(
            "two plugins",
            lambda t: t.library(f"{PLUGIN}/x86_64-linux-gnu/libnccl-net.so", "libnccl-net-ofi.so"),
            "in 2 folders",
        ),
    ),
    "11": (
        Break(
            "a library missing",
            lambda t: t.remove(f"{LIBRARIES}/libmade-up-efa.so.1"),
            "libmade-up-efa.so.1 => not found",
        ),
        Break(
            "the distribution's first",
            lambda t: t.move(CONF, "etc/ld.so.conf.d/zz-efa.conf"),
            f"{LIBRARIES}/libfabric.so.1'",
        ),
    ),
    "12": (
        Break(
            "only under its new name",
            lambda t: t.remove(f"{PLUGIN}/libnccl-net.so"),
            "libnccl-net.so: cannot open shared object file: No such file or directory; with this environment",
        ),
        Break(
            "found by an ENV only",
            run_all(lambda t: t.write(CONF, f"ROOT/{EFA}\n"), set_environment(LD_LIBRARY_PATH=f"ROOT/{PLUGIN}")),
            "with no environment, as a job",
        ),
        Break(
            "no plugin inside",
            lambda t: t.library(f"{PLUGIN}/libnccl-net-ofi.so", "plugin-without-symbol"),
            "no ncclNetPlugin symbol",
        ),
    ),
    "13": (
        Break("relative", set_environment(LD_LIBRARY_PATH=f"lib:ROOT/{EFA}"), "library folder 'lib': not absolute"),
        Break("empty item", set_environment(LD_LIBRARY_PATH=f"ROOT/{EFA}:"), "has an empty item"),
        Break(
            "stale", set_environment(LD_LIBRARY_PATH="ROOT/opt/aws-ofi-nccl/lib"), "aws-ofi-nccl/lib: does not exist"
        ),
        Break("stale in ld.so.conf.d", lambda t: t.write(CONF, "ROOT/opt/amazon/aws-ofi-nccl/lib\n"), "does not exist"),
    ),
    "14": (
        Break("Amazon's MPI", amazon_mpi, "/opt/amazon/openmpi: in the loader's cache"),
        Break(
            "the distribution's libfabric first", lambda t: t.move(CONF, "etc/ld.so.conf.d/zz-efa.conf"), "EFA's must"
        ),
        Break("no PMIx", lambda t: t.remove(f"{LIBRARIES}/libpmix.so.2"), "libpmix.so.2: not in the loader's cache"),
        Break("no MPI", lambda t: t.remove(f"{LIBRARIES}/libmpi.so.40"), "libmpi.so.40: not in the loader's cache"),
    ),
    "15": (
        Break("no plugin", lambda t: t.remove(f"{LIBRARIES}/slurm/mpi_pmix_v5.so"), "Slurm has no such plugin"),
        Break(
            "opens a name that only the development package has",
            lambda t: t.library(f"{LIBRARIES}/slurm/mpi_pmix_v5.so", "mpi_pmix-unversioned"),
            "opens libpmix.so, which is nowhere",
        ),
        Break(
            "two PMIx",
            run_all(
                lambda t: t.library(f"{LIBRARIES}/slurm/mpi_pmix_v5.so", "mpi_pmix-unversioned"),
                lambda t: t.library(f"{LIBRARIES}/pmix2/lib/libpmix.so", "libpmix-4"),
            ),
            "two versions do not talk",
        ),
        Break(
            "MPI without PMIx",
            lambda t: t.library(f"{LIBRARIES}/libmpi.so.40", "libmpi-without-pmix"),
            "uses no libpmix.so.2",
        ),
        Break(
            "PMIx 4",
            lambda t: t.library(f"{LIBRARIES}/pmix2/lib/libpmix.so.2", "libpmix-4"),
            "is PMIx 4.2.2, mpi_pmix_v5.so refuses",
        ),
    ),
    "16": (
        Break("ten programs", lambda t: t.remove("tmp/nccl-tests/build/hypercube_perf"), "10 programs"),
        Break("an empty one", lambda t: t.program("tmp/nccl-tests/build/hypercube_perf", b""), "10 programs"),
        Break("Amazon's MPI", run_all(amazon_mpi), f"{AMAZON_MPI}/libmpi.so.40, whose PMIx is not Slurm's"),
        Break(
            "without MPI=1",
            lambda t: t.library("tmp/nccl-tests/build/all_reduce_perf", "perf-without-mpi"),
            "not linked to libmpi",
        ),
        Break("no NCCL", lambda t: t.remove(f"{CUDA}/libnccl.so.2"), "libnccl.so.2 => not found"),
    ),
    "17": (
        Break("the DLC's key", lambda t: t.write("root/.ssh/id_rsa", "key"), "root/.ssh/id_rsa"),
        Break("the DLC's authorized key", lambda t: t.write("root/.ssh/authorized_keys", "key"), "authorized_keys"),
        Break("a munge key", lambda t: t.write("etc/munge/munge.key", "key"), "munge.key"),
        Break("a host key", lambda t: t.write("etc/ssh/ssh_host_ed25519_key", "key"), "ssh_host_ed25519_key"),
        Break(
            "a private key elsewhere",
            lambda t: t.write("etc/pki/x.pem", "-----BEGIN RSA " + "PRIVATE KEY-----"),
            "x.pem",
        ),
        Break("cloud credentials", lambda t: t.write("root/.aws/credentials", "x"), ".aws/credentials"),
    ),
    "18": (
        Break("64 MiB", lambda t: t.write("etc/security/limits.d/x.conf", "* hard memlock 65536\n"), "memlock 65536"),
    ),
    "19": (
        Break("a dangling link", lambda t: t.link("usr/local/cuda", "cuda-12.9"), "No such file"),
        Break(
            "CUDA 12.9",
            lambda t: t.replace("usr/local/cuda-13.0/bin/nvcc", "release 13.0,", "release 12.9,"),
            "release 12.9",
        ),
    ),
    "20": (
        Break(
            "in the library folder",
            lambda t: t.library(f"{LIBRARIES}/libcuda.so.1", "libcuda.so.1"),
            "libcuda.so.1: the driver's library",
        ),
        Break(
            "the loader knows compat",
            lambda t: t.write("etc/ld.so.conf.d/cuda.conf", "ROOT/usr/local/cuda-13.0/compat\n"),
            "names a libcuda.so",
        ),
    ),
    "21": (
        Break("no P2P", set_environment(NCCL_P2P_DISABLE="1"), "environment: NCCL_P2P_DISABLE"),
        Break("a provider", set_environment(FI_PROVIDER="efa"), "environment: FI_PROVIDER"),
        Break("all GPUs to every pod", set_environment(NVIDIA_VISIBLE_DEVICES="all"), "NVIDIA_VISIBLE_DEVICES"),
        Break(
            "the DLC's nccl.conf",
            lambda t: t.write("etc/nccl.conf", "NCCL_SOCKET_IFNAME=^docker0,lo\n"),
            "before any script can",
        ),
    ),
    "22": (
        Break(
            "CUDA's headers as they came",
            lambda t: t.write("usr/local/cuda-13.0/include/crt/math_functions.h", made_up.MATH_FUNCTIONS),
            "exception specification is incompatible",
        ),
    ),
    "23": (
        Break(
            "apptainer broken", lambda t: t.script("usr/bin/apptainer", "echo no; exit 1"), "apptainer --version: no"
        ),
        Break("no apptainer", lambda t: t.remove("usr/bin/apptainer"), "apptainer: not on PATH"),
        Break("no user namespaces", lambda t: t.remove("usr/bin/newuidmap"), "newuidmap: not on PATH"),
    ),
    "24": (
        Break("missing", lambda t: t.remove("etc/slurmd-image"), "missing or empty"),
        Break(
            "of another Slurm",
            lambda t: t.replace("etc/slurmd-image", "26.05.2-", "26.05.1-"),
            "does not begin with 26.05.2-torch2.9-cu130-mpi",
        ),
        Break("two lines", lambda t: t.replace("etc/slurmd-image", " ", "\n"), "more than one line"),
    ),
    "25": (
        Break("none", lambda t: t.remove("usr/local/bin/python3", "usr/bin/python3"), "not on a login's PATH"),
        Break("only the distribution's", lambda t: t.remove("usr/local/bin/python3"), "jobs would run"),
        Break(
            "link to the distribution's",
            lambda t: t.link("usr/local/bin/python3", "ROOT/usr/bin/python3"),
            "not to the container's python3.12",
        ),
        Break(
            "supervisord by PATH", lambda t: t.script("usr/bin/supervisord", ""), "supervisord: starts with '#!/bin/sh'"
        ),
        Break(
            "no supervisor",
            lambda t: t.remove("usr/lib/python3/dist-packages/supervisor.py"),
            "cannot import supervisor",
        ),
    ),
}
CASES = [(number, case) for number, cases in BREAKS.items() for case in cases]


def test_every_assertion_has_a_broken_tree_that_it_is_for() -> None:
    assert sorted(BREAKS) == NUMBERS


def test_the_twenty_assertions_of_the_specification_are_there() -> None:
    assert len(NUMBERS) >= 20
    assert [f"{number:02}" for number in range(1, len(NUMBERS) + 1)] == NUMBERS


def test_all_assertions_hold_on_a_good_image(image: Tree) -> None:
    done = image.assertion()
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"{len(ASSERTIONS)} assertions hold"


@pytest.mark.parametrize(("number", "case"), CASES, ids=[f"{n}-{c.what.replace(' ', '-')}" for n, c in CASES])
def test_an_assertion_fails_on_the_image_that_it_is_for(number: str, case: Break, image: Tree) -> None:
    case.breaks(image)
    done = image.assertion(number)
    assert done.returncode == 1, f"it holds: {done.stdout}{done.stderr}"
    assert case.says in done.stdout
    assert "Prevents: " in done.stdout


def test_all_that_is_broken_is_named_at_once(image: Tree) -> None:
    image.environment["NCCL_PROTO"] = "simple"
    image.remove("etc/slurmd-image")
    done = image.assertion("18", "21", "24")
    assert done.returncode == 1
    assert done.stderr == "2 of 3 assertions failed: 21-no-job-settings 24-image-line\n"
    assert done.stdout.startswith("ok 18-locked-memory: ")


def test_a_loader_cache_longer_than_a_pipe_is_read_to_its_end(image: Tree) -> None:
    rest = "awk 'BEGIN { while (n++ < 9999) print \"libother.so (libc6,x86-64) => /lib/libother.so\" }'"
    image.replace("usr/sbin/ldconfig", 'grep -F "$root/"', f'{{ grep -F "$root/"; {rest}; }}')
    done = image.assertion("14", "15", "20")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", ASSERTIONS, ids=lambda path: path.stem)
def test_an_assertion_says_what_it_prevents_and_what_to_do(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    assert lines[1].startswith("# Prevents: ")
    said = [line.split('fail "', 1)[1] for line in lines if 'fail "' in line]
    assert said
    for text in said:
        assert text.count("; ") >= 1, f"no remedy: {text}"
