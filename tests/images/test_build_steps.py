"""What the image's own scripts find, correct and write, on the layouts that its bases have had."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.images import tree as made_up
from tests.images.tree import CUDA, EFA, IMAGE, PLUGIN, SITE, Tree

CONF = "etc/ld.so.conf.d/00-efa.conf"
MATHCALLS = "usr/include/x86_64-linux-gnu/bits/mathcalls.h"
HEADER = "usr/local/cuda-13.0/include/crt/math_functions.h"


def located(image: Tree) -> list[str]:
    """The folders that locate.sh tells the loader, without the root."""
    image.remove(CONF)
    done = image.build_step("locate.sh")
    assert done.returncode == 0, done.stderr
    assert done.stdout == (image.path / CONF).read_text()
    return [str(Path(line).relative_to(image.path)) for line in done.stdout.splitlines()]


def test_efa_comes_first_and_each_folder_once(image: Tree) -> None:
    assert located(image) == [EFA, PLUGIN, CUDA]


def test_the_folder_of_installers_before_1_44_is_found_too(image: Tree) -> None:
    image.remove(f"{PLUGIN}/libnccl-net.so", f"{PLUGIN}/libnccl-net-ofi.so")
    image.library(f"{PLUGIN}/x86_64-linux-gnu/libnccl-net.so", "libnccl-net-ofi.so")
    assert located(image)[1] == f"{PLUGIN}/x86_64-linux-gnu"
    assert image.assertion("10", "11", "12").returncode == 0


def test_a_plugin_of_the_new_name_gets_the_name_that_nccl_asks_for(image: Tree) -> None:
    image.remove(f"{PLUGIN}/libnccl-net.so")
    assert image.assertion("12").returncode == 1
    located(image)
    assert (image.path / PLUGIN / "libnccl-net.so").readlink() == Path("libnccl-net-ofi.so")
    assert image.assertion("12").returncode == 0


def test_an_nccl_outside_cuda_is_found_beside_the_cuda_runtime(image: Tree) -> None:
    image.remove(f"{CUDA}/libnccl.so.2")
    image.library("opt/nccl/build/lib/libnccl.so.2", "libnccl.so.2")
    assert located(image) == [EFA, PLUGIN, "opt/nccl/build/lib", CUDA]


def test_torchs_own_nccl_is_not_told_to_the_loader(image: Tree) -> None:
    assert (image.path / SITE / "nvidia/nccl/lib/libnccl.so.2").exists()
    assert not [folder for folder in located(image) if "site-packages" in folder]


@pytest.mark.parametrize(
    ("where", "library", "says"),
    [
        (f"{EFA}/libfabric.so.1", None, "libfabric: libfabric.so.1 is in 0 folders below /opt/amazon (none)"),
        ("opt/amazon/other/libfabric.so.1", "libfabric.so.1", "libfabric: libfabric.so.1 is in 2 folders"),
        ("usr/local/lib/libnccl.so.2", "libnccl.so.2", "NCCL: libnccl.so.2 is in 2 folders below /opt /usr/local"),
        (f"{CUDA}/libcudart.so.13", None, "CUDA runtime: libcudart.so.[0-9]* is in 0 folders"),
    ],
)
def test_what_is_missing_or_there_twice_ends_the_build(where: str, library: str | None, says: str, image: Tree) -> None:
    if library is None:
        image.remove(where)
    else:
        image.library(where, library)
    done = image.build_step("locate.sh")
    assert done.returncode == 1
    assert done.stderr.startswith(says)
    assert "the loader needs exactly one; see what the DLC image holds" in done.stderr


def test_cuda_declares_rsqrt_as_a_new_c_library_does(image: Tree) -> None:
    """These four lines of CUDA 13.0 and no others; nvcc 13.0.88 compiles with them against both C libraries."""
    image.write(HEADER, made_up.MATH_FUNCTIONS)
    assert image.build_step("cuda-glibc.sh").returncode == 0
    before, after = made_up.MATH_FUNCTIONS.splitlines(), (image.path / HEADER).read_text().splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert [line.split("rsqrt", 1)[1] for line in changed] == [
        "(double x) __THROW;",
        "f(float x) __THROW;",
        "(double a) __THROW);",
        "f(float a) __THROW);",
    ]
    assert image.build_step("cuda-glibc.sh").returncode == 0
    assert (image.path / HEADER).read_text().splitlines() == after


def test_with_an_older_c_library_cudas_headers_stay(image: Tree) -> None:
    image.write(MATHCALLS, "__MATHCALL (sqrt,, (_Mdouble_ __x));\n")
    image.write(HEADER, made_up.MATH_FUNCTIONS)
    assert image.build_step("cuda-glibc.sh").returncode == 0
    assert (image.path / HEADER).read_text() == made_up.MATH_FUNCTIONS


def test_the_image_tells_its_tag_and_its_parts_in_one_line(image: Tree) -> None:
    image.remove("etc/slurmd-image")
    done = image.build_step("describe.py")
    assert done.returncode == 0, done.stderr
    tag, *parts = (image.path / "etc/slurmd-image").read_text().split()
    assert tag == "26.05.2-torch2.9-cu130-mpi"
    versions = dict(part.split("=") for part in parts)
    assert (
        versions.items()
        >= {
            "torch": "2.9.0+cu130",
            "torch-nccl": "2.27.7",
            "nccl": "2.27.7",
            "libfabric": "2.1.0amzn5.0",
            "openmpi": "5.0.10",
            "pmix": "5.0.9",
        }.items()
    )
    assert f"transformers=={versions['transformers']}" in (IMAGE / "requirements.txt").read_text()


def test_another_build_of_torch_is_refused(image: Tree) -> None:
    image.replace(f"{SITE}/torch-2.9.0+cu130.dist-info/METADATA", "Version: 2.9.0+cu130", "Version: 2.9.0")
    done = image.build_step("describe.py")
    assert done.returncode == 1
    assert "torch: 2.9.0 is not the container's build" in done.stderr
