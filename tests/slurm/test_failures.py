"""Failures made on a real Slurm, each judged by what that Slurm said."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest

from judges.accounting import judge_job, parse_rest, parse_sacct, parse_scontrol
from judges.nodes import judge_nodes, judge_sinfo, judge_slurmd_log
from judges.signs import explain
from judges.submission import judge_submission
from tests.slurm.lab import DAEMONS, Lab

pytestmark = pytest.mark.slurm
RESTAPI_PORT = 17820


def _verdict(lab: Lab, job: str) -> tuple[str, str]:
    (found,) = parse_sacct(lab.sacct(job))
    verdict = judge_job(found)
    return verdict.status, verdict.cause


def _controllers(lab: Lab, job: str) -> tuple[str, str]:
    (found,) = parse_scontrol(lab.run(f"scontrol -d -o show job {job}"))
    verdict = judge_job(found)
    return verdict.status, verdict.cause


def _nodes(lab: Lab) -> tuple[str, str]:
    verdict = judge_nodes(lab.run("scontrol -o show node"), gres=lab.nodeset.gres, names=lab.nodeset.node_names)
    return verdict.status, verdict.cause


def test_jobs_that_end_badly_are_judged_alike_by_accounting_and_by_the_controller(lab: Lab) -> None:
    long = lab.submit("--time=1 --mem=100 --wrap 'sleep 300'")
    hungry = lab.submit("--mem=50 --wrap \"python3 -c 'import time; x = bytearray(400 << 20); time.sleep(60)'\"")
    failing = lab.submit("--mem=50 --wrap 'exit 3'")
    hidden = lab.submit("--mem=50 --wrap \"srun --mpi=none -n1 sh -c 'exit 7'; echo Done.\"")
    good = lab.submit("--mem=50 --wrap 'srun --mpi=none -n1 hostname'")
    waiting = lab.submit(f"--mem=50 --dependency=afterok:{failing} --wrap hostname")
    for job in (failing, hidden, good, hungry):
        lab.wait(job)
    lab.asked(f"scontrol -d -o show job {waiting}", "DependencyNeverSatisfied")
    (unmet,) = parse_scontrol(lab.run(f"scontrol -d -o show job {waiting}"))
    assert (unmet.hopeless, judge_job(unmet).cause) == (True, "not-finished")
    lab.run(f"scancel {waiting}")
    lab.wait(waiting)
    lab.wait(long)
    expected = {
        good: ("passed", "ok"),
        failing: ("failed", "failed"),
        hidden: ("failed", "hidden-step"),
        hungry: (
            "failed",
            "failed",
        ),  # cgroups would say OUT_OF_MEMORY; here Slurm itself watches, and only the log tells
        waiting: ("failed", "cancelled"),
        long: ("failed", "timeout"),
    }
    assert {job: _verdict(lab, job) for job in expected} == expected
    assert {job: _controllers(lab, job) for job in expected} == expected
    why = explain((lab.shared / "logs" / f"wrap-{hungry}.out").read_text())
    assert why is not None
    assert why.cause == "oom-kill"
    assert "|COMPLETED|0:0|7:0|" in lab.sacct(hidden)  # what makes it hidden


def test_slurmrestds_answer_is_judged_as_the_controllers_is(lab: Lab) -> None:
    good, failing = lab.submit("--mem=50 --wrap hostname"), lab.submit("--mem=50 --wrap 'exit 3'")
    lab.wait(good)
    lab.wait(failing)
    token = lab.run("scontrol token username=root lifespan=600").strip().removeprefix("SLURM_JWT=")
    request = urllib.request.Request(
        f"http://127.0.0.1:{RESTAPI_PORT}/slurm/v0.0.38/jobs",
        headers={"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": token},
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        jobs = {job.job_id: judge_job(job).status for job in parse_rest(response.read().decode())}
    assert (jobs[good], jobs[failing]) == ("passed", "failed")


def test_a_job_lost_with_its_node_is_no_success_and_the_node_comes_back_by_itself(lab: Lab) -> None:
    job = lab.submit("--no-requeue --nodelist=slinky-1 --mem=50 --wrap 'exec sleep 100'")
    lab.until("slinky-1", "mix|alloc")
    stepd = re.findall(rf"^ *(\d+) slurmstepd: \[{job}\.", lab.run("ps -eo pid,args"), re.MULTILINE)
    lab.run(f"kill -KILL {' '.join(stepd)}")
    lab.stop("slurmd-slinky-1", signal="KILL")
    lab.until("slinky-1", "down*", seconds=90)
    assert _nodes(lab) == ("failed", "not-responding")
    lab.start("slurmd-slinky-1")
    lab.until("slinky-1", "idle")
    lab.wait(job)
    assert _verdict(lab, job) == ("failed", "node-fail")
    assert "|NODE_FAIL|0:0|" in lab.sacct(job)  # the exit code says nothing
    assert _nodes(lab) == ("passed", "ok")


def test_a_node_set_down_as_its_pod_ends_is_down_until_its_successor_registers(lab: Lab) -> None:
    reason = "slurm-operator: Pod is terminating"
    lab.run(f"scontrol update nodename=slinky-1 state=down reason='{reason}'")
    assert _nodes(lab) == ("failed", "down-after-restart")
    lab.restart("slurmd-slinky-1")
    lab.until("slinky-1", "idle")  # ReturnToService=2, as the product renders it
    assert _nodes(lab) == ("passed", "ok")


def test_without_return_to_service_the_node_stays_down_until_it_is_resumed_as_the_verdict_says(lab: Lab) -> None:
    lab.conf.write_text(lab.conf.read_text().replace("ReturnToService=2", "ReturnToService=0"))
    lab.run("scontrol reconfigure")
    lab.run("scontrol update nodename=slinky-1 state=down reason='slurm-operator: Pod is terminating'")
    lab.restart("slurmd-slinky-1")
    lab.run("sleep 3")
    verdict = judge_nodes(lab.run("scontrol -o show node slinky-1"))
    assert verdict.cause == "down-after-restart"
    lab.run(verdict.remedy.split(";")[0])
    lab.until("slinky-1", "idle")


def test_without_gres_types_every_gpu_job_is_refused_and_the_runner_stops_at_the_nodes(
    lab: Lab, tmp_path: Path
) -> None:
    lab.conf.write_text(lab.conf.read_text().replace("GresTypes=gpu\n", ""))
    lab.restart(*DAEMONS)
    lab.until("slinky-0", "idle")
    lab.until("slinky-1", "idle")
    code, results, said = lab.check(tmp_path, "nodes", "sanity")
    assert code == 1, said
    assert results["nodes"]["verdict"]["cause"] == "gres-null"
    assert "GresTypes=gpu" in results["nodes"]["verdict"]["remedy"]
    assert results["sanity"]["verdict"]["status"] == "skipped"
    refused = judge_submission(lab.run(f"sbatch --gres={lab.nodeset.gres} --wrap hostname"))
    assert (refused.status, refused.cause) == ("failed", "gres-unknown")


def test_a_node_with_fewer_gpus_than_configured_is_invalid_though_its_gres_looks_right(lab: Lab) -> None:
    gres = lab.folder / "etc" / "gres.conf"
    gres.write_text(re.sub(r"(slinky-1/nvidia)\[0-3\]", r"\1[0-1]", gres.read_text()))
    lab.restart("slurmd-slinky-1")
    lab.until("slinky-1", "inval")
    verdict = judge_nodes(lab.run("scontrol -o show node"), gres=lab.nodeset.gres)
    assert verdict.cause == "invalid-reg"
    assert "slurmd sees 2 of 4 GPUs" in verdict.reason
    assert "Gres=gpu:nvidia_l4:4" in lab.run("scontrol -o show node slinky-1")
    assert judge_sinfo(lab.run('sinfo -N -o "%N %t %C %G"'), gres=lab.nodeset.gres).cause == "invalid-reg"
    assert judge_slurmd_log((lab.folder / "log" / "slurmd-slinky-0.log").read_text()).status == "passed"


def test_a_drained_node_tells_its_reason_and_a_job_for_it_is_refused(lab: Lab) -> None:
    lab.run("scontrol update nodename=slinky-1 state=drain reason='health:fabric: 1.28 < 3.5'")
    verdict = judge_nodes(lab.run("scontrol -o show node"))
    assert verdict.cause == "drained"
    assert "health:fabric: 1.28 < 3.5" in verdict.reason
    assert judge_submission(lab.run("srun --immediate=2 -w slinky-1 hostname")).cause == "node-not-available"


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ("--gres=gpu:h100:1", "node-configuration"),
        ("--gres=nonsense:1", "gres-unknown"),
        ("--partition=nowhere", "no-partition"),
        ("--mem=9999999", "memory"),
    ],
)
def test_what_sbatch_refuses_is_named(lab: Lab, options: str, cause: str) -> None:
    answer = lab.run(f"sbatch {options} --wrap hostname -o /dev/null")
    verdict = judge_submission(answer)
    assert (verdict.status, verdict.cause) == ("failed", cause), answer


@pytest.mark.parametrize("options", ["--nodes=7", "--time=9-0"])
def test_what_sbatch_takes_and_the_partition_never_starts_is_hopeless(lab: Lab, options: str) -> None:
    job = lab.submit(f"{options} --wrap hostname")
    lab.asked(f"scontrol -d -o show job {job}", "Reason=Partition")
    (found,) = parse_scontrol(lab.run(f"scontrol -d -o show job {job}"))
    lab.run(f"scancel {job}")
    assert found.hopeless, found
