"""Health runs against a Slurm made of a few answers: who is left in peace, who is drained, who comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from jobs import results, runner
from jobs.results import CheckResult, Report, config_map_data, together
from jobs.runner import Runner
from jobs.shells import Answer
from judges.verdict import Verdict, error, failed, passed
from tests.jobs.test_runner import CLUSTER, NODESET, FakeSlurm, record
from tests.judges.logs import L4

SCRIPTS = {
    "slinky.node.sbatch": "#SBATCH --nodes=2\n",
    "slinky.inference.sbatch": "#SBATCH --nodes=1\n",
}


def report_of(*names: str, broken: str = "") -> str:
    """The node job's log on these nodes."""
    log = ""
    for name in names:
        gpus = range(3 if name == broken else 4)
        log += f"node {name} memlock unlimited\nnode {name} shm_mib 9000\nnode {name} shared writable\n"
        log += "".join(f"node {name} gpu {index}, NVIDIA L4, 0, 31, 16, 16\n" for index in gpus)
        log += f"node {name} efa     domain: rdmap0s6-rdm\nnode {name} efa     provider: efa\n"
    ranks = 2 * len(names)
    return (
        log
        + "".join(f"pmix rank {r} of {ranks} namespace slurm.pmix.7.1\n" for r in range(ranks))
        + "finished: exit 0\n"
    )


class Health(FakeSlurm):
    """With nodes that can be drained and resumed."""

    def __init__(self, log: str, **states: str) -> None:
        super().__init__(log=log)
        self.nodes = dict.fromkeys(L4.node_names, "IDLE Reason=")
        self.nodes |= {name.replace("_", "-"): state for name, state in states.items()}

    def run(self, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        if command.startswith("scontrol -o show node"):
            self.asked.append(command)
            text = "".join(f"NodeName={name} Gres={L4.gres} State={state}\n" for name, state in self.nodes.items())
            return Answer(code=0, out=text, err="")
        if update := re.match(r"scontrol update nodename=(\S+) state=(\w+)(?: reason='(.*)')?", command):
            self.nodes[update[1]] = "IDLE Reason=" if update[2] == "resume" else f"IDLE+DRAIN Reason={update[3]}"
        return super().run(command, stdin=stdin, timeout=timeout)

    @property
    def updates(self) -> list[str]:
        return [command for command in self.asked if re.match(r"scontrol (update|create|delete)", command)]


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(runner.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(runner.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))


def _run(slurm: FakeSlurm, *names: str, drain: bool = False, suite: str = "health") -> dict[str, Verdict]:
    made = Runner(
        slurm,
        CLUSTER,
        SCRIPTS,
        suite=suite,
        names=names,
        revision="r1",
        timeout_seconds=600,
        drain=drain,
        say=lambda _: None,
    )
    return {result.check: result.verdict for result in made.run().results}


def _submitted(slurm: FakeSlurm) -> list[str]:
    return [command.partition("sbatch ")[2] for command in slurm.asked if " sbatch " in command]


def test_health_jobs_stand_last_in_the_queue_on_all_nodes_that_are_idle() -> None:
    slurm = Health(report_of(*L4.node_names))
    assert _run(slurm, "node")["node"].status == "passed"
    assert _submitted(slurm) == ["--parsable --exclusive --nice=2147483645 --nodes=2 node.sbatch"]


def test_a_node_in_use_is_left_in_peace_and_is_skipped_and_not_passed() -> None:
    slurm = Health(report_of("slinky-0"), slinky_1="MIXED Reason=")
    found = _run(slurm, "node")
    assert _submitted(slurm) == ["--parsable --exclusive --nice=2147483645 --exclude=slinky-1 --nodes=1 node.sbatch"]
    assert (found["node"].status, found["node-busy"].status) == ("passed", "skipped")
    assert "slinky-1" in found["node-busy"].reason


def test_nothing_is_submitted_when_all_nodes_are_in_use() -> None:
    slurm = Health("", slinky_0="ALLOCATED Reason=", slinky_1="MIXED Reason=")
    assert _run(slurm, "node")["node"].status == "skipped"
    assert _submitted(slurm) == []


def test_a_health_job_that_does_not_start_at_once_is_cancelled_and_skipped() -> None:
    slurm = Health("")
    slurm.states = [record("PENDING", "Resources")]
    found = _run(slurm, "node")
    assert (found["node"].status, found["node"].cause) == ("skipped", "nodes-busy")
    assert "scancel 7" in slurm.asked


def test_a_node_that_fails_alone_is_drained_and_only_with_the_setting() -> None:
    slurm = Health(report_of(*L4.node_names, broken="slinky-1"))
    assert "drain" not in _run(slurm, "node")
    assert slurm.updates == []
    found = _run(slurm, "node", drain=True)
    assert found["drain"].reason == "drained slinky-1 (health:node: slinky-1 shows 3 of 4 GPUs)"
    assert slurm.updates == [
        "scontrol update nodename=slinky-1 state=drain reason='health:node: slinky-1 shows 3 of 4 GPUs'"
    ]


def test_a_run_after_a_change_drains_as_well_and_the_failure_stays_one() -> None:
    slurm = Health(report_of(*L4.node_names, broken="slinky-1"))
    found = _run(slurm, "node", drain=True, suite="quick")
    assert (found["node"].status, found["drain"].status) == ("failed", "passed")


def test_all_nodes_failing_is_a_common_cause_that_drains_none_and_says_so() -> None:
    slurm = Health("node slinky-0 memlock unlimited\nnode slinky-1 memlock unlimited\nfinished: exit 0\n")
    found = _run(slurm, "node", drain=True)
    assert (found["drain"].status, found["drain"].cause) == ("error", "common-cause")
    assert slurm.updates == []


def test_a_node_of_ours_is_tried_behind_a_reservation_and_comes_back_when_it_passes() -> None:
    slurm = Health(report_of("slinky-1"), slinky_1="IDLE+DRAIN Reason=health:node: slinky-1 shows 3 of 4 GPUs")
    found = _run(slurm, "nodes", drain=True)
    assert found["recheck-slinky-1"].status == "passed"
    assert found["recheck-slinky-1"].reason.startswith("resumed slinky-1: node passed again")
    assert [command.split(" users")[0] for command in slurm.updates] == [
        "scontrol delete reservationname=validation-slinky-1",
        "scontrol create reservationname=validation-slinky-1 nodes=slinky-1",
        "scontrol update nodename=slinky-1 state=resume",
        "scontrol delete reservationname=validation-slinky-1",
    ]
    assert "--reservation=validation-slinky-1" in _submitted(slurm)[0]


def test_a_node_that_fails_again_is_drained_before_its_reservation_ends() -> None:
    slurm = Health(report_of("slinky-1", broken="slinky-1"), slinky_1="IDLE+DRAIN Reason=health:node: hot")
    assert _run(slurm, "nodes", drain=True)["recheck-slinky-1"].status == "failed"
    assert [command.split(" ")[1:4] for command in slurm.updates[-2:]] == [
        ["update", "nodename=slinky-1", "state=drain"],
        ["delete", "reservationname=validation-slinky-1"],
    ]
    assert slurm.nodes["slinky-1"] == "IDLE+DRAIN Reason=health:node: slinky-1 shows 3 of 4 GPUs"


def test_a_node_that_could_not_be_tried_again_keeps_its_old_reason() -> None:
    slurm = Health("", slinky_1="IDLE+DRAIN Reason=health:node: hot")
    slurm.states = [record("PENDING", "Resources")]
    assert _run(slurm, "nodes", drain=True)["recheck-slinky-1"].status == "skipped"
    assert slurm.nodes["slinky-1"] == "IDLE+DRAIN Reason=health:node: hot"


@pytest.mark.parametrize("reason", ["kernel upgrade", "slurm-operator: Pod is terminating", "unhealthy:node: x"])
def test_a_node_that_someone_else_drained_is_left_alone(reason: str) -> None:
    slurm = Health(report_of("slinky-1"), slinky_1=f"IDLE+DRAIN Reason={reason}")
    assert "recheck-slinky-1" not in _run(slurm, "nodes", drain=True)
    assert slurm.updates == []


@pytest.mark.parametrize("state", ["DOWN+DRAIN", "IDLE+DRAIN+INVALID_REG", "ALLOCATED+DRAIN"])
def test_a_node_of_ours_that_slurm_would_not_resume_or_that_still_works_is_not_tried(state: str) -> None:
    slurm = Health(report_of("slinky-1"), slinky_1=f"{state} Reason=health:node: hot")
    assert "recheck-slinky-1" not in _run(slurm, "nodes", drain=True)
    assert slurm.updates == []


def test_a_drain_that_slurm_refuses_is_an_error() -> None:
    slurm = Health(report_of(*L4.node_names, broken="slinky-1"))
    slurm.refuses = "state=drain"
    assert _run(slurm, "node", drain=True)["drain"].cause == "refused"


def _report(suite: str, **checks: Verdict) -> Report:
    made = [
        CheckResult(nodeset=NODESET.name, check=name, verdict=verdict, started="a", finished="b")
        for name, verdict in checks.items()
    ]
    return Report(cluster="c", suite=suite, revision="r", started="a", finished="b", results=made)


def test_health_results_have_keys_of_their_own_and_neither_kind_removes_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[bytes] = []

    def request(method: str, path: str, body: bytes | None = None) -> bytes:
        sent.append(body or b"")
        return b'{"data": {"slinky.old": "x", "summary": "y", "health_slinky.old": "x"}}'

    monkeypatch.setattr(results, "_request", request)
    results.write_config_map("slurm", "x", config_map_data(_report("health", node=passed("fine"))))
    data = json.loads(sent[-1])["data"]
    assert set(data) == {"health_slinky.node", "health_summary", "health_slinky.old"}
    assert data["health_slinky.old"] is None
    results.write_config_map("slurm", "x", config_map_data(_report("quick", node=passed("fine"))))
    assert set(json.loads(sent[-1])["data"]) == {"slinky.node", "summary", "slinky.old"}


def test_a_check_that_two_suites_share_runs_once_and_counts_once() -> None:
    slurm = Health(report_of(*L4.node_names))
    quick = _report("quick", nodes=passed("seen"), node=passed("fine"))
    made = Runner(
        slurm, CLUSTER, SCRIPTS, suite="full", names=("nodes", "node"), revision="r1", timeout_seconds=600,
        earlier=quick.results, say=lambda _: None,
    )  # fmt: skip
    whole = together([quick, made.run()])
    assert _submitted(slurm) == []
    assert (whole.suite, len(whole.results), whole.status) == ("quick+full", 2, "passed")


def test_the_summary_tells_what_failed_from_what_could_not_run_in_one_line() -> None:
    assert _report("quick", node=passed("x"), sanity=failed("c", "wrong\nsum")).summary() == (
        "quick: failed: slinky sanity: wrong sum"
    )
    assert _report("quick", node=error("c", "no login")).summary() == "quick: could not run: slinky node: no login"
    assert _report("quick", node=passed("x")).summary() == "quick: passed (1 of 1 checks passed)"


@pytest.mark.parametrize(
    ("gpus", "code", "says"), [(3, 1, "failed: slinky nodes"), (0, 2, "could not run: slinky nodes")]
)
def test_the_pods_message_is_the_summary_and_the_exit_code_follows_the_saved_results(
    gpus: int, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    message, written = tmp_path / "termination-log", list[Sequence[str]]()
    message.write_text("")
    (tmp_path / "scripts").mkdir()
    contract = {"version": 1, "cluster_name": "c", "shared_path": "/shared", "accounting": False}
    nodeset = {key: getattr(NODESET, key) for key in NODESET.__dataclass_fields__ if key != "only"}
    (tmp_path / "contract.json").write_text(json.dumps({**contract, "nodesets": [nodeset]}))
    slurm = FakeSlurm(
        sinfo=["NODELIST STATE CPUS(A/I/O/T) GRES\nslinky-0 idle 0/1/0/1 gpu:nvidia_l4:3\nslinky-1 idle 0/1/0/1 x\n"]
    )
    slurm.gone = gpus == 0
    monkeypatch.setattr(runner, "LocalShell", lambda: slurm)
    monkeypatch.setattr(runner, "_TERMINATION_LOG", message)
    monkeypatch.setattr(runner, "write_config_map", lambda _n, _m, data: written.append(sorted(data)))
    got = runner.main(
        [
            "--local",
            "--checks",
            "nodes",
            f"--contract={tmp_path}/contract.json",
            f"--scripts={tmp_path}/scripts",
            "--results=a/b",
        ]
    )
    assert (got, written) == (code, [["slinky.nodes", "summary"]])
    assert says in message.read_text()
    assert capsys.readouterr().out.rstrip().endswith(message.read_text())
