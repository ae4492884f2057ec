"""The runner against a Slurm made of a few answers: what it does when the cluster is slow, wrong, or gone."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs import results, runner
from jobs.checks import SUITES, Nodeset, checks
from jobs.results import EXIT_FAILED, EXIT_NO_BASELINE, EXIT_NOT_RUN, EXIT_PASSED, config_map_data
from jobs.runner import Cluster, Runner, read_contract
from jobs.shells import Answer, Unreachable
from plan import make_plan
from settings.load import from_stack_file
from tests.judges.logs import L4, nccl, sanity, transport
from tools.engine import ROOT

NODESET = Nodeset(
    name="slinky",
    partition="slinky",
    instance_type="g6.12xlarge",
    nodes=2,
    gpus_per_node=4,
    gres="gpu:nvidia_l4:4",
    efa_interfaces=1,
)
CLUSTER = Cluster(name="slurm-dev", shared_path="/shared", accounting=False, nodesets=(NODESET,))
SINFO = "NODELIST STATE CPUS(A/I/O/T) GRES\n" + "".join(f"{name} idle 0/48/0/48 {L4.gres}\n" for name in L4.node_names)
NODES = "".join(f"NodeName={name} Gres={L4.gres} State=IDLE+DYNAMIC_NORM\n" for name in L4.node_names)


def record(state: str = "COMPLETED", reason: str = "None", derived: str = "0:0") -> str:
    return (
        f"JobId=7 JobName=x JobState={state} Reason={reason} ExitCode=0:0 DerivedExitCode={derived} "
        "ReqNodeList=(null) NodeList=slinky-[0-1] BatchHost=slinky-0\n"
    )


@dataclasses.dataclass
class FakeSlurm:
    """Answers by command. states: what the controller says of job 7, the last one for ever. log: of any job."""

    log: str = ""
    states: list[str] = dataclasses.field(default_factory=lambda: [record()])
    sinfo: list[str] = dataclasses.field(default_factory=lambda: [SINFO])
    sbatch: Answer = dataclasses.field(default_factory=lambda: Answer(code=0, out="7\n", err=""))
    sacct: str = ""
    asked: list[str] = dataclasses.field(default_factory=list[str])
    saved: dict[str, bytes] = dataclasses.field(default_factory=dict[str, bytes])
    gone: bool = False
    refuses: str = ""  # commands with this in them end with code 1

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        self.asked.append(command)
        if self.gone:
            raise Unreachable("connect to host slurm-login port 22: Connection refused")
        if self.refuses and self.refuses in command:
            return Answer(code=1, out="", err="it does not work\n")
        answers: dict[str, Callable[[], str]] = {
            r"^sinfo": lambda: self.sinfo.pop(0) if len(self.sinfo) > 1 else self.sinfo[0],
            r"^scontrol -o show node": lambda: NODES,
            r"^scontrol -d -o show job": lambda: self.states.pop(0) if len(self.states) > 1 else self.states[0],
            r"^sacct": lambda: self.sacct,
            r"^cat /shared/logs": lambda: self.log,
        }
        if " sbatch " in command:
            return self.sbatch
        if stdin and ".json" in command:
            self.saved[command] = stdin
        for pattern, answer in answers.items():
            if re.search(pattern, command):
                return Answer(code=0, out=answer(), err="")
        return Answer(code=0, out="", err="")


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time passes only by sleeping, and sleeping takes none."""
    now = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(runner.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def _run(slurm: FakeSlurm, *names: str, cluster: Cluster = CLUSTER, said: list[str] | None = None) -> results.Report:
    made = Runner(
        slurm,
        cluster,
        {"slinky.sanity.sbatch": "script", "other.sanity.sbatch": "foreign"},
        suite="quick",
        names=names,
        revision="r1",
        timeout_seconds=600,
        say=(said if said is not None else []).append,
    )
    return made.run()


def _verdict(report: results.Report, check: str) -> tuple[str, str]:
    (found,) = [result.verdict for result in report.results if result.check == check]
    return found.status, found.cause


def test_a_good_job_passes_and_leaves_its_record() -> None:
    slurm = FakeSlurm(log="version torch 2.9.0\n" + sanity())
    report = _run(slurm, "nodes", "sanity")
    assert (report.status, report.exit_code) == ("passed", EXIT_PASSED)
    (job,) = report.results[1].jobs
    assert (job.job_id, job.state, job.nodes, job.log) == (7, "COMPLETED", "slinky-[0-1]", "/shared/logs/sanity-7.out")
    assert job.versions == {"torch": "2.9.0"}
    assert len(job.log_sha256) == 64
    assert "cd /shared/validation/jobs/r1/slinky && sbatch --parsable sanity.sbatch" in slurm.asked


def test_a_benchmark_leaves_its_bandwidths_with_their_floors_even_when_it_fails() -> None:
    report = _run(FakeSlurm(log=nccl(peak=2.0) + "finished: exit 0\n"), "nccl-allreduce")
    assert _verdict(report, "nccl-allreduce") == ("failed", "below-floor")
    (job,) = report.results[0].jobs
    assert len(job.measurements) == 22
    last = job.measurements[-1]
    assert (last.collective, last.size_bytes, last.busbw, last.floor) == ("all_reduce", 1 << 30, 2.0, 3.5)
    assert job.measurements[0].floor is None
    (nodeset,) = json.loads(json.dumps(report.document()))["nodesets"]
    assert (nodeset["name"], nodeset["instance_type"]) == ("slinky", "g6.12xlarge")


def test_a_job_that_is_no_benchmark_measures_nothing() -> None:
    assert _run(FakeSlurm(log=sanity() + nccl()), "sanity").results[0].jobs[0].measurements == ()


def test_the_line_rate_comes_from_the_contract() -> None:
    contract = make_plan(from_stack_file(ROOT / "Pulumi.dev.yaml", "dev")).contract
    (nodeset,) = read_contract(json.dumps(dataclasses.asdict(contract))).nodesets
    assert nodeset.network_gbps == 40


def test_a_job_that_failed_is_failed_with_the_cause_that_its_log_names() -> None:
    log = (
        sanity().split("backend")[0]
        + "torch.distributed.elastic...RendezvousConnectionError: The connection has failed\n"
    )
    report = _run(FakeSlurm(log=log, states=[record("FAILED")]), "sanity")
    assert _verdict(report, "sanity") == ("failed", "rendezvous-timeout")
    assert report.exit_code == EXIT_FAILED


def test_a_good_log_does_not_turn_a_lost_job_into_a_passed_one() -> None:
    assert _verdict(_run(FakeSlurm(log=sanity(), states=[record("NODE_FAIL", "NodeDown")]), "sanity"), "sanity") == (
        "failed",
        "node-fail",
    )
    assert (
        _verdict(_run(FakeSlurm(log=sanity(), states=[record(derived="1:0")]), "sanity"), "sanity")[1] == "hidden-step"
    )


def test_accounting_is_asked_where_there_is_one_and_its_steps_count() -> None:
    cluster = dataclasses.replace(CLUSTER, accounting=True)
    header = "JobID|JobName|State|ExitCode|DerivedExitCode|NodeList|Reason\n7|x|COMPLETED|0:0|0:0|slinky-[0-1]|None\n"
    good = FakeSlurm(log=sanity(), sacct=header + "7.batch|batch|COMPLETED|0:0||slinky-0|\n")
    assert _verdict(_run(good, "sanity", cluster=cluster), "sanity") == ("passed", "ok")
    bad = FakeSlurm(
        log=sanity(), sacct=header + "7.batch|batch|COMPLETED|0:0||slinky-0|\n7.0|x|FAILED|1:0||slinky-0|\n"
    )
    assert _verdict(_run(bad, "sanity", cluster=cluster), "sanity") == ("failed", "hidden-step")


def test_a_job_that_the_controller_has_forgotten_is_an_error_unless_accounting_knows_it() -> None:
    forgotten = "slurm_load_jobs error: Invalid job id specified\n"
    report = _run(FakeSlurm(log=sanity(), states=[forgotten]), "sanity")
    assert (_verdict(report, "sanity")[0], report.exit_code) == ("error", EXIT_NOT_RUN)


def test_a_job_that_does_not_start_in_time_is_cancelled_and_an_error() -> None:
    slurm = FakeSlurm(states=[record("PENDING", "Resources")])
    report = _run(slurm, "sanity")
    assert _verdict(report, "sanity") == ("error", "out-of-time")
    assert "scancel 7" in slurm.asked
    assert report.exit_code == EXIT_NOT_RUN


def test_a_job_that_can_never_start_is_given_up_at_once() -> None:
    slurm = FakeSlurm(states=[record("PENDING", "PartitionTimeLimit")])
    assert _verdict(_run(slurm, "sanity"), "sanity")[0] == "error"
    assert sum("show job" in command for command in slurm.asked) == 1


def test_a_refused_submission_fails_with_its_cause() -> None:
    refused = Answer(
        code=1,
        out="",
        err="sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
    )
    assert _verdict(_run(FakeSlurm(sbatch=refused), "sanity"), "sanity") == ("failed", "node-configuration")


def test_no_login_is_an_error_of_every_check_and_never_a_failure() -> None:
    report = _run(FakeSlurm(gone=True), "nodes", "sanity")
    assert _verdict(report, "nodes") == ("error", "not-responding")
    assert _verdict(report, "sanity")[0] == "skipped"
    assert (report.status, report.exit_code) == ("error", EXIT_NOT_RUN)


@pytest.mark.parametrize(
    ("refuses", "check", "cause"),
    [("sinfo", "nodes", "not-responding"), ("mkdir -p /shared/validation/jobs", "sanity", "login-unreachable")],
)
def test_a_command_that_does_not_work_is_an_error_that_says_so(refuses: str, check: str, cause: str) -> None:
    report = _run(FakeSlurm(refuses=refuses), check)
    assert _verdict(report, check) == ("error", cause)
    assert "it does not work" in report.results[0].verdict.reason


def test_results_that_could_not_be_saved_are_not_passed_over() -> None:
    slurm = FakeSlurm(refuses=".json")
    made = Runner(slurm, CLUSTER, {}, suite="quick", names=("nodes",), revision="r1", timeout_seconds=600, say=print)
    made.run()
    with pytest.raises(OSError, match="it does not work"):
        made.save()


def test_a_login_that_is_away_while_the_job_runs_is_asked_again_and_given_up_after_some_minutes() -> None:
    slurm = FakeSlurm(log=sanity())
    answer, away = slurm.run, [True] * 5

    def run(command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        if "show job" in command and away:
            if len(away) < 99:
                away.pop()
            raise Unreachable("Connection refused")
        return answer(command, stdin=stdin, timeout=timeout)

    slurm.run = run  # type: ignore[method-assign]
    assert _run(slurm, "sanity").status == "passed"
    away.extend([True] * 99)
    assert _verdict(_run(slurm, "sanity"), "sanity") == ("error", "login-unreachable")


def test_what_was_found_before_the_time_was_over_is_kept_and_nothing_more_is_submitted() -> None:
    slurm = FakeSlurm(states=[record("RUNNING")])
    report = _run(slurm, "node", "sanity")
    assert [result.verdict.cause for result in report.results] == ["out-of-time", "out-of-time"]
    assert sum(" sbatch " in command for command in slurm.asked) == 1


def test_nodes_that_are_still_starting_are_waited_for_and_a_wrong_configuration_is_not() -> None:
    starting = SINFO.replace("slinky-1 idle", "slinky-1 idle*")
    slurm = FakeSlurm(sinfo=[starting, starting, SINFO])
    assert _run(slurm, "nodes").status == "passed"
    wrong = FakeSlurm(sinfo=[SINFO.replace("gpu:nvidia_l4:4\n", "(null)\n")])
    report = _run(wrong, "nodes", "sanity")
    assert _verdict(report, "nodes") == ("failed", "gres-null")
    assert sum(command.startswith("sinfo") for command in wrong.asked) == 1
    assert _verdict(report, "sanity") == ("skipped", "depends-on")
    assert report.exit_code == EXIT_FAILED


def test_a_log_that_arrives_late_is_waited_for() -> None:
    slurm = FakeSlurm(log=sanity())
    late, whole = ["", sanity().split("finished")[0]], slurm.run
    slurm.run = lambda command, **more: (  # type: ignore[method-assign]
        Answer(code=0, out=late.pop(0), err="") if late and command.startswith("cat ") else whole(command, **more)
    )
    assert _run(slurm, "sanity").status == "passed"


def test_a_completed_job_without_a_log_is_an_error() -> None:
    assert _verdict(_run(FakeSlurm(log=""), "sanity"), "sanity") == ("error", "empty-log")


def test_a_number_without_a_reference_has_an_exit_code_of_its_own() -> None:
    other = dataclasses.replace(NODESET, instance_type="g6.24xlarge")
    log = nccl(dataclasses.replace(L4, instance_type="g6.24xlarge")) + "finished: exit 0\n"
    report = _run(FakeSlurm(log=log), "nccl-allreduce", cluster=dataclasses.replace(CLUSTER, nodesets=(other,)))
    assert (report.status, report.exit_code) == ("no baseline", EXIT_NO_BASELINE)


def test_a_node_that_fails_its_pairs_is_named_though_slurm_calls_the_job_completed() -> None:
    log = f"pair slinky-0 slinky-1 exit 1\n{transport()}Test NCCL failure common.cu:1005\nfinished: exit 0\n"
    report = _run(FakeSlurm(log=log, states=[record(derived="1:0")]), "pairwise")
    assert _verdict(report, "pairwise") == ("failed", "nccl-error")


def test_a_check_that_needs_two_nodes_is_skipped_on_one() -> None:
    one = dataclasses.replace(CLUSTER, nodesets=(dataclasses.replace(NODESET, nodes=1),))
    assert _verdict(_run(FakeSlurm(), "pairwise", cluster=one), "pairwise") == ("skipped", "too-few-nodes")


def test_the_report_is_saved_whole_and_the_summary_names_evidence_and_remedy() -> None:
    slurm = FakeSlurm(log=sanity().replace("network AWS Libfabric", "network Socket"))
    made = Runner(
        slurm, CLUSTER, {}, suite="quick", names=("sanity",), revision="r1", timeout_seconds=600, say=lambda _: None
    )
    report = made.run()
    path = made.save()
    assert re.fullmatch(r"/shared/validation/\d{4}-\d\d-\d\dT\d{6}Z-quick\.json", path)
    (document,) = map(json.loads, slurm.saved.values())
    assert document["status"] == "failed"
    assert document["checks"][0]["verdict"]["cause"] == "socket-transport"
    assert document["checks"][0]["jobs"][0]["log_sha256"]
    text = report.text()
    assert "Using network Socket" in text
    assert "remedy: " in text
    data = config_map_data(report)
    assert sorted(data) == ["slinky.sanity", "summary"]
    assert json.loads(data["slinky.sanity"])["status"] == "failed"
    assert all(re.fullmatch(r"[-._a-zA-Z0-9]+", key) for key in data)


def test_results_of_an_earlier_run_do_not_stay_in_the_config_map(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str, bytes | None]] = []

    def request(method: str, path: str, body: bytes | None = None) -> bytes:
        sent.append((method, path, body))
        return b'{"data": {"slinky.old": "x", "summary": "y"}}'

    monkeypatch.setattr(results, "_request", request)
    results.write_config_map("slurm", "slurm-validation-results", {"summary": "z"})
    method, path, body = sent[-1]
    assert (method, path) == ("PATCH", "/api/v1/namespaces/slurm/configmaps/slurm-validation-results")
    assert json.loads(body or b"")["data"] == {"slinky.old": None, "summary": "z"}


def test_a_contract_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 2; this runner knows version 1"):
        read_contract('{"version": 2}')


def test_suites_name_only_checks_that_exist_after_what_they_depend_on() -> None:
    known = {check.name: check for check in checks(backend="nccl")}
    for suite, names in SUITES.items():
        for place, name in enumerate(names):
            assert set(known[name].after) <= set(names[:place]), (suite, name)


def test_every_job_of_every_check_has_a_script() -> None:
    templates = {
        path.name.removesuffix(".sbatch.j2") for path in Path(runner.__file__).parent.glob("templates/*.sbatch.j2")
    }
    used = {script for check in checks(backend="nccl") for script in check.scripts}
    assert used == templates
