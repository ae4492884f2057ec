"""Submissions, PMIx, the build, isolation, pairs, node reports, storage, inference, and texts of no known form."""

from __future__ import annotations

import dataclasses
import re

import pytest

from judges.build import judge_build
from judges.detect import judge_any
from judges.fabric import judge_fi_info
from judges.health import judge_node_report
from judges.inference import judge_inference
from judges.isolation import judge_isolation
from judges.pairwise import judge_pairs
from judges.pmix import judge_listing, judge_run
from judges.storage import judge_storage
from judges.submission import job_id, judge_submission
from judges.verdict import combine, error, failed, passed, skipped, worst
from plan.nodegroups import MEMLOCK_BYTES
from tests.judges.logs import L4, Nodes, finetune, nccl, sanity


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ("sbatch: error: Invalid generic resource (gres) specification", "gres-unknown"),  # 22.05
        ("sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification", "gres-unknown"),
        (
            "sbatch: error: Batch job submission failed: Requested node configuration is not available",
            "node-configuration",
        ),
        (
            "sbatch: error: invalid partition specified: nope",
            "no-partition",
        ),
        ("sbatch: error: Memory specification can not be satisfied", "memory"),
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "no-controller",
        ),
        (
            "sbatch: error: Requested time limit is invalid (missing or exceeds some limit)",
            "time-limit",
        ),
        ("sbatch: error: Unable to open file nope.sbatch", "no-script"),
        (
            "srun: Required node not available (down, drained or reserved)\nsrun: error: Unable to allocate resources",
            "node-not-available",
        ),
        ("sbatch: error: something that nobody has seen", "refused"),
    ],
)
def test_a_refused_submission_names_its_cause(answer: str, cause: str) -> None:
    verdict = judge_submission(answer)
    assert (verdict.status, verdict.cause) == ("failed", cause)


def test_a_submission_passes_only_with_a_job_id() -> None:
    assert judge_submission("Submitted batch job 41\n").status == "passed"
    assert job_id("41;lab\n") == 41
    assert judge_submission("").status == "error"
    assert judge_submission("sbatch: warning: 41 is a fine number\n").status == "error"


def test_a_listing_can_only_say_no_and_a_run_proves_pmix() -> None:
    listing = "MPI plugin types are...\n\tnone\n\tpmix\nspecific pmix plugin versions available: pmix_v5\n"
    assert judge_listing(listing).status == "passed"
    assert judge_listing(listing.replace("\tpmix\n", "\tpmi2\n")).cause == "pmix-missing"
    assert judge_listing("").status == "error"
    # The plugin is listed, yet cannot load its library: as a real Slurm prints it.
    assert judge_run("srun: error: pmi/pmix: can not load PMIx library\n", ranks=4).cause == "pmix-missing"
    ranks = "".join(f"pmix rank {rank} of 4 namespace slurm.pmix.2.1\n" for rank in (2, 0, 3, 1))
    assert judge_run(ranks, ranks=4).status == "passed"
    assert judge_run(ranks, ranks=8).cause == "wrong-world-size"
    assert (
        judge_run("".join(f"pmix rank 0 of 1 namespace singleton.{n}\n" for n in range(4)), ranks=4).cause
        == "mpi-singletons"
    )
    assert judge_run("pmix rank none of 4 namespace none\n" * 4, ranks=4).status == "failed"
    assert judge_run("", ranks=4).status == "failed"


_PROGRAMS = "all_gather all_reduce alltoall alltoallv broadcast gather hypercube reduce reduce_scatter scatter sendrecv"
BUILD = (
    "CUDA architectures: sm_89\n"
    + "".join(
        f"-rwxr-xr-x 1 root root 3404848 Dec  1 10:00 /shared/nccl-tests/build/{name}_perf\n"
        for name in _PROGRAMS.split()
    )
    + "\tlibcuda.so.1 => not found\n\tlibmpi.so.40 => /lib/x86_64-linux-gnu/libmpi.so.40 (0x00007f0000000000)\n"
)


@pytest.mark.parametrize(
    ("place", "replacement", "cause"),
    [
        (r"/lib/x86_64-linux-gnu/libmpi", "/opt/amazon/openmpi/lib/libmpi", "wrong-mpi"),
        (r"(?m)^.*alltoallv_perf\n", "", "programs-missing"),
        (r"-rwxr-xr-x( .*sendrecv)", r"-rw-r--r--\1", "program-broken"),
        (r"3404848( .*sendrecv)", r"0\1", "program-broken"),
        (r"sm_89", "sm_90", "wrong-arch"),
        (r"libcuda.so.1 =>", "libnccl.so.2 =>", "library-missing"),
        (r"(?m)^.*libmpi.*\n", "", "not-built"),
    ],
)
def test_a_build_with_one_fault_fails_by_its_name(place: str, replacement: str, cause: str) -> None:
    assert judge_build(BUILD, cuda_arch="sm_89").status == "passed"
    assert judge_build(re.sub(place, replacement, BUILD), cuda_arch="sm_89").cause == cause


def _isolation(asked: int, visible: int, kernels: int, unmasked: int, openable: int) -> str:
    counts = f"asked {asked} visible {visible} kernels {kernels} unmasked {unmasked} openable {openable} present 4"
    return f"isolation {counts}\n"


def test_isolation_wants_exactly_the_gpus_that_were_asked_for() -> None:
    good, none = _isolation(1, 1, 1, 1, 1), _isolation(0, 0, 0, 0, 0)
    assert judge_isolation(good, none).status == "passed"
    assert judge_isolation(_isolation(1, 4, 4, 4, 4), none).cause == "gpus-not-isolated"
    assert judge_isolation(good, _isolation(0, 4, 4, 4, 4)).cause == "gpus-not-isolated"
    hidden = judge_isolation(_isolation(1, 1, 1, 4, 4), none)  # Slurm set the variable, nothing took the devices away
    assert hidden.cause == "gpus-not-isolated"
    assert "CUDA_VISIBLE_DEVICES" in hidden.reason
    assert judge_isolation(_isolation(1, 0, 0, 0, 1), none).cause == "gpus-missing"
    assert judge_isolation(_isolation(1, 1, 0, 1, 1), none).cause == "gpus-missing"
    assert judge_isolation(none, good).cause == "wrong-job"
    assert judge_isolation("", none).status == "error"


def _pairs(nodes: Nodes, slow: str = "", dead: str = "") -> str:
    text = ""
    for i, a in enumerate(nodes.node_names):
        for b in nodes.node_names[i + 1 :]:
            both = dataclasses.replace(nodes, nodes=2, names=(a, b))
            log = nccl(both, sizes=(1 << 28,), peak=2.0 if slow in (a, b) else 4.0)
            text += f"pair {a} {b} exit {int(dead in (a, b))}\n" + ("" if dead in (a, b) else log)
    return text


def test_pairs_name_the_node_that_is_bad_in_all_of_its_pairs() -> None:
    four = dataclasses.replace(L4, nodes=4)
    assert judge_pairs(_pairs(four), nodeset=four).status == "passed"
    slow = judge_pairs(_pairs(four, slow="slinky-2"), nodeset=four)
    assert slow.cause == "bad-node"
    assert slow.reason.startswith("slinky-2 ")
    dead = judge_pairs(_pairs(four, dead="slinky-3"), nodeset=four)
    assert dead.cause == "bad-node"
    assert dead.reason.startswith("slinky-3 ")


def test_a_bad_pair_of_two_nodes_blames_neither_and_missing_pairs_fail() -> None:
    verdict = judge_pairs(_pairs(L4, dead="slinky-1"), nodeset=L4)
    assert verdict.status == "failed"
    assert verdict.cause != "bad-node"
    three = dataclasses.replace(L4, nodes=3)
    assert judge_pairs(_pairs(L4), nodeset=three).cause == "pairs-missing"
    assert judge_pairs("", nodeset=L4).status == "error"
    assert judge_pairs(_pairs(L4).replace("exit 0", "exit 1"), nodeset=L4).cause == "exit-code"


NODE = "".join(
    f"node {name} memlock unlimited\nnode {name} shm_mib 96000\nnode {name} efa domain: rdmap0s29-dgrm\n"
    f"node {name} efa domain: rdmap0s29-rdm\nnode {name} shared writable\n"
    + "".join(f"node {name} gpu {index}, NVIDIA L4, 0, 31, 16, 16\n" for index in range(4))
    for name in L4.node_names
)


@pytest.mark.parametrize(
    ("place", "replacement", "cause"),
    [
        (r"node slinky-1 gpu 3.*\n", "", "gpu-count"),
        (r"(?m)^node slinky-1 gpu .*$", "node slinky-1 gpu bash: nvidia-smi: command not found", "gpu-count"),
        (r"(slinky-1 gpu 2, NVIDIA L4), 0", r"\1, 3", "gpu-ecc"),
        (r"(slinky-1 gpu 2, NVIDIA L4, 0), 31", r"\1, 91", "gpu-hot"),
        (r"(slinky-1 gpu 2, NVIDIA L4, 0, 31), 16", r"\1, 8", "gpu-pcie"),
        (r"slinky-1 gpu 2, NVIDIA L4,", "slinky-1 gpu 2, NVIDIA L40S,", "wrong-gpu"),
        (r"slinky-1 memlock unlimited", "slinky-1 memlock 65536", "locked-memory-limit"),
        (r"slinky-1 shm_mib 96000", "slinky-1 shm_mib 64", "shm-too-small"),
        (r"slinky-1 shared writable", "slinky-1 shared broken", "shared-folder"),
        (r"node slinky-1 efa .*\n", "", "no-efa"),
        (r"(?m)^node slinky-1 efa .*$", "node slinky-1 efa fi_getinfo: -61", "no-efa"),
        (r"slinky-1 efa domain: rdmap0s29-rdm", "slinky-1 efa domain: rdmap1s27-rdm", "efa-count"),
        (r"node slinky-1 .*\n", "", "node-silent"),
    ],
)
def test_a_node_with_one_fault_fails_by_its_name(place: str, replacement: str, cause: str) -> None:
    assert judge_node_report(NODE, nodeset=L4).status == "passed"
    verdict = judge_node_report(re.sub(place, replacement, NODE), nodeset=L4)
    assert (verdict.status, verdict.cause) == ("failed", cause)


def test_the_limit_that_our_nodes_set_counts_as_none() -> None:
    limit = str(MEMLOCK_BYTES // 1024)  # what `ulimit -l` prints
    assert judge_node_report(NODE.replace("memlock unlimited", f"memlock {limit}"), nodeset=L4).status == "passed"


def test_ecc_that_a_card_does_not_count_is_no_fault() -> None:
    assert judge_node_report(NODE.replace("L4, 0,", "L4, [N/A],"), nodeset=L4).status == "passed"


def test_efa_devices_are_counted_not_lines_and_only_of_provider_efa() -> None:
    text = "provider: efa\n    domain: rdmap0s29-rdm\nprovider: efa\n    domain: rdmap0s29-dgrm\n"
    assert judge_fi_info(text, efa_interfaces=1).status == "passed"
    assert judge_fi_info(text, efa_interfaces=4).cause == "efa-count"
    assert judge_fi_info(text.replace("efa", "tcp"), efa_interfaces=1).cause == "no-efa"
    assert judge_fi_info("", efa_interfaces=1).status == "error"
    assert judge_fi_info("bash: fi_info: command not found\n", efa_interfaces=1).cause == "no-libfabric"


STORAGE = "".join(
    f"node {name} write_seconds 1.20\nnode {name} stat_seconds 0.01\nnode {name} read same\nnode {name} "
    "free_percent 99\n"
    for name in L4.node_names
)


@pytest.mark.parametrize(
    ("place", "replacement", "cause"),
    [
        ("slinky-1 read same", "slinky-1 read differs", "shared-folder"),
        ("slinky-1 write_seconds 1.20", "slinky-1 write_seconds 31", "shared-slow"),
        ("slinky-1 stat_seconds 0.01", "slinky-1 stat_seconds 5", "shared-slow"),
        ("slinky-1 free_percent 99", "slinky-1 free_percent 3", "no-space"),
        ("node slinky-1 write_seconds 1.20\n", "", "node-silent"),
    ],
)
def test_storage_with_one_fault_fails_by_its_name(place: str, replacement: str, cause: str) -> None:
    assert judge_storage(STORAGE, nodeset=L4).status == "passed"
    assert judge_storage(STORAGE.replace(place, replacement), nodeset=L4).cause == cause


def test_a_node_that_says_nothing_of_its_storage_fails() -> None:
    silent = "".join(line for line in STORAGE.splitlines(keepends=True) if "slinky-1" not in line)
    assert judge_storage(silent, nodeset=L4).cause == "node-silent"
    assert judge_storage(STORAGE + "dd: No space left on device", nodeset=L4).cause == "no-space"


def test_inference_wants_finite_numbers_all_tokens_and_text() -> None:
    log = "logits finite True\ntext 'A scheduler decides.'\ngenerated 32 tokens in 1.90 s, 16.8 tokens/s\n"
    assert judge_inference(log).status == "passed"
    assert judge_inference(log.replace("True", "False")).cause == "not-finite"
    assert judge_inference(log.replace("generated 32", "generated 3")).cause == "too-few-tokens"
    assert judge_inference(log.replace("'A scheduler decides.'", "'  '")).cause == "empty-text"
    assert judge_inference(log.replace("generated", "made")).cause == "no-result"
    assert judge_inference(log + "CUDA out of memory").cause == "cuda-out-of-memory"
    assert judge_inference("").status == "failed"


@pytest.mark.parametrize("text", ["", "\n", "hello", "COMPLETED\n", "OK\n", "0\n", '{"jobs": []}', '{"job_state": 1'])
def test_a_text_of_no_known_form_never_passes(text: str) -> None:
    assert all(verdict.status != "passed" for verdict in judge_any(text, L4)[1])


def test_the_kind_of_a_log_is_told_by_its_form() -> None:
    assert judge_any(nccl(), L4)[0] == "nccl-tests"
    assert judge_any(sanity(), L4)[0] == "sanity"
    assert judge_any(finetune(), L4)[0] == "fine-tune"
    assert [verdict.status for verdict in judge_any(nccl(collective="all_gather"), L4)[1]] == ["passed"]


def test_a_whole_is_as_good_as_its_worst_part_and_nothing_is_no_pass() -> None:
    good, bad, unable, left_out = passed("a"), failed("x", "b"), error("y", "c"), skipped("z", "d")
    assert worst([good, bad, unable]).status == "failed"
    assert worst([good, unable]).status == "error"
    assert combine(good, left_out).status == "passed"
    assert combine(left_out, left_out).status == "skipped"
    assert worst([]).status == "error"
