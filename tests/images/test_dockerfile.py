"""The Dockerfile as text: what the plan passes to it, what it copies, the paths and settings that it must not name."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest

from facts import versions
from jobs import render
from plan.image import CONTEXT, DLC_IMAGE, build_args
from settings.models import Image
from tests.images.tree import IMAGE
from tests.plan.build import example
from tools.recording import ROOT

DOCKERFILE = (IMAGE / "Dockerfile").read_text()
# Where EFA installers and DLCs of other years kept the plugin: no error anywhere, only TCP.
STALE = (r"/opt/(amazon/)?aws-ofi-nccl", r"/opt/amazon/ofi-nccl/lib/\w+-linux-gnu")


def instructions(text: str) -> list[tuple[str, str]]:
    """(instruction, arguments) without comments, continued lines joined."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", " ", lines)
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)]


def of(word: str, text: str = DOCKERFILE) -> list[str]:
    return [rest for name, rest in instructions(text) if name == word]


def problems(text: str) -> list[str]:
    """What a Dockerfile of this image must never have."""
    found = [f"stale path {stale}" for stale in STALE if re.search(stale, "\n".join(r for _, r in instructions(text)))]
    for line in of("ENV", text):
        names = re.findall(r"([A-Za-z_]\w*)=", line) or [line.split()[0]]
        for name in names:
            if re.match(r"(NCCL|FI|OFI|RDMAV)_|LD_|PYTHON|NVIDIA_VISIBLE_DEVICES", name):
                found.append(f"ENV {name}")
    found += [f"unpinned base {base}" for base in of("FROM", text) if base.endswith(":latest")]
    found += [f"ARG {name}" for name in of("ARG", text) if re.search(r"(?i)token|password|secret|key", name)]
    return found


def test_the_build_arguments_are_those_of_the_plan_and_each_is_used() -> None:
    declared = [line.split("=")[0] for line in of("ARG")]
    assert sorted(declared) == sorted(build_args(example("dev")))
    used = "\n".join(rest for word, rest in instructions(DOCKERFILE) if word != "ARG")
    scripts = "\n".join(path.read_text() for path in IMAGE.rglob("*.sh"))
    for name in declared:
        assert re.search(rf"\$\{{?{name}\b", used + scripts), f"{name} is declared and not used"


def test_both_bases_come_from_the_plan_and_are_pinned() -> None:
    stages = [line.split()[2] for line in of("FROM") if " AS " in line]
    bases = [line.split()[0] for line in of("FROM") if line.split()[0] not in stages]
    assert bases == ["${DLC_IMAGE}", "${SLURMD_IMAGE}"]
    given = build_args(example("dev"))
    for base in ("DLC_IMAGE", "SLURMD_IMAGE"):
        assert not given[base].endswith(":latest")
        assert re.search(r":[\w.-]*\d", given[base]), f"{given[base]} names no version"


def test_what_is_copied_from_the_context_exists_and_passes_the_dockerignore() -> None:
    assert ROOT / CONTEXT == IMAGE
    kept = [line[1:] for line in (IMAGE / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [s for line in of("COPY") if not line.startswith("--from=") for s in line.split()[:-1]]
    assert sources
    for source in sources:
        assert (IMAGE / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in kept), f".dockerignore hides {source}"
    assert sorted(kept) == sorted(sources), "the context holds what no COPY takes"


def test_the_final_image_waits_for_the_assertions() -> None:
    """A builder leaves out stages that nothing depends on."""
    final = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert of("FROM", final) == ["image"]
    assert of("COPY", final)[0].startswith("--from=checked ")
    checked = DOCKERFILE[DOCKERFILE.index("AS checked") : DOCKERFILE.rindex("\nFROM ")]
    assert "ARG SLURM_SERIES" in checked
    assert "bash /checks/assert.sh |" in of("RUN", checked)[-1]
    assert "pipefail" in of("SHELL", checked)[0]


def test_nothing_of_the_base_is_replaced() -> None:
    assert {word for word, _ in instructions(DOCKERFILE)} <= {"ARG", "FROM", "SHELL", "COPY", "RUN", "ENV"}
    targets = [line.split()[-1] for line in of("COPY")]
    assert not [target for target in targets if target in ("/", "/usr", "/usr/local", "/usr/bin", "/etc", "/root")]
    assert not [line for line in of("COPY") if "/usr/local/bin " in line or "openmpi" in line or "nccl.conf" in line]


def test_the_image_has_no_path_or_setting_that_it_must_not_have() -> None:
    assert problems(DOCKERFILE) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("ENV LD_LIBRARY_PATH=/opt/amazon/efa/lib:$LD_LIBRARY_PATH", "ENV LD_LIBRARY_PATH"),
        ("COPY --from=dlc /opt/aws-ofi-nccl /opt/aws-ofi-nccl", "stale path /opt/(amazon/)?aws-ofi-nccl"),
        ("RUN ls /opt/amazon/aws-ofi-nccl/lib", "stale path /opt/(amazon/)?aws-ofi-nccl"),
        ("RUN ls /opt/amazon/ofi-nccl/lib/x86_64-linux-gnu", r"stale path /opt/amazon/ofi-nccl/lib/\w+-linux-gnu"),
        ("ENV CUDA_HOME=/usr/local/cuda \\\n    NCCL_P2P_DISABLE=1", "ENV NCCL_P2P_DISABLE"),
        ("ENV FI_PROVIDER efa", "ENV FI_PROVIDER"),
        ("ENV NVIDIA_VISIBLE_DEVICES=all", "ENV NVIDIA_VISIBLE_DEVICES"),
        ("FROM ubuntu:latest", "unpinned base ubuntu:latest"),
        ("ARG HF_TOKEN", "ARG HF_TOKEN"),
    ],
)
def test_such_a_line_would_be_found(line: str, problem: str) -> None:
    assert problems(f"{DOCKERFILE}\n{line}\n") == [problem]


def test_the_versions_that_scripts_name_are_those_of_the_bases() -> None:
    release = re.search(r":(\d+\.\d+)\.\d+-gpu-py(\d)(\d+)-cu(\d\d)(\d)-", DLC_IMAGE)
    assert release
    torch, major, minor, cuda, cuda_minor = release.groups()
    assert set(re.findall(r"/python(\d\.\d+)", DOCKERFILE)) == {f"{major}.{minor}"}
    assert set(re.findall(r"cuda-(\d+\.\d+)", DOCKERFILE)) == {f"{cuda}.{cuda_minor}"}
    assert f'{torch}.*" {cuda}.{cuda_minor}")' in (IMAGE / "assert.d/04-torch.sh").read_text()
    assert rf"release {cuda}\.{cuda_minor}," in (IMAGE / "assert.d/19-cuda-toolkit.sh").read_text()
    tag = f"torch{torch}-cu{cuda}{cuda_minor}-mpi"
    assert f"-{tag} " in (IMAGE / "assert.d/24-image-line.sh").read_text()
    assert Image().tag == f"{versions.SLURM_PATCH}-{tag}"
    assert f"torch=={torch}.0" in (IMAGE / "dlc.in").read_text()


def test_the_build_tries_the_nccl_tests_that_the_job_compiles() -> None:
    clone = next(line for line in of("RUN") if "git clone" in line)
    assert f"--branch {render.NCCL_TESTS_TAG} " in clone
    assert f" = {render.NCCL_TESTS_COMMIT} " in clone


def test_python_packages_are_pinned_with_hashes_and_leave_the_containers_own_alone() -> None:
    text = (IMAGE / "requirements.txt").read_text()
    blocks = [block for block in re.split(r"\n(?=\S)", text.strip()) if block]
    names = set()
    for block in blocks:
        pin = re.match(r"([\w.-]+)==\S+ \\\n", block)
        assert pin, block.splitlines()[0]
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", block), pin[1]
        names.add(pin[1])
    wanted = re.findall(r"^([\w-]+)", (IMAGE / "requirements.in").read_text(), re.MULTILINE)
    assert {"accelerate", "datasets", "peft", "transformers", "trl"} == set(wanted) <= names
    theirs = re.compile(r"torch|torch\w+|triton|numpy|nvidia-.*|setuptools|pip")
    assert not [name for name in names if theirs.fullmatch(name)]
    assert "://" not in text


def test_the_readme_lists_each_assertion_with_what_it_prevents() -> None:
    listed = re.findall(r"^\| (\d\d) \| `([\w-]+)` \| (.*) \|$", (IMAGE / "README.md").read_text(), re.MULTILINE)
    files = sorted((IMAGE / "assert.d").glob("*.sh"))
    prevents = [path.read_text().splitlines()[1].removeprefix("# Prevents: ") for path in files]
    assert listed == [(p.stem[:2], p.stem[3:], text) for p, text in zip(files, prevents, strict=True)]
