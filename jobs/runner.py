"""Runs checks on a cluster exactly as a user would: through the login service, with sbatch, and with patience.

Owns the flow: wait for the login, copy the scripts, submit, wait, fetch the log, have it judged, save, say. Owns no
rule and no script. A check that could not run is an error, never a failure and never a pass. Standard library only
and Python 3.10: this file, its neighbours and `judges/` are mounted into a pod of Slinky's login image.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import pathlib
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from jobs.checks import HEALTH, SUITE_TIMES, SUITES, Check, Nodeset, checks
from jobs.results import (
    CheckResult,
    ConfigMapError,
    JobRecord,
    Report,
    config_map_data,
    measured,
    together,
    write_config_map,
)
from jobs.shells import LocalShell, Shell, SshShell, Unreachable, archive
from judges.accounting import Job, judge_job, parse_sacct, parse_scontrol
from judges.nodes import Node, parse_nodes
from judges.remedy import drained_by, drains, reason_of, standing
from judges.signs import explain
from judges.submission import job_id, judge_submission
from judges.verdict import Verdict, error, passed, skipped

CONTRACT_VERSION = 1
# Causes that end by themselves while pods start; all others are judged at once.
_SETTLES = re.compile(
    r"no-nodes|node-missing|not-responding|node-down|down-after-restart|not-available|node-unk.*|no-state"
)
_FINISHED = re.compile(r"^finished: exit \d+", re.MULTILINE)
_VERSION = re.compile(r"^(?:\[\w+\]:)?version (\S+) (.+)$", re.MULTILINE)
_LOG_SETTLES_SECONDS = 90  # NFS attribute caches of the login node may lag behind the node that wrote
_SILENCE_SECONDS = 300
_POLL_SECONDS = (1, 2, 3, 5, 10)
_SHOW_NODES = "scontrol -o show node"
# Health checks: last in every queue, and gone from it when they cannot start at once (sbatch has no --immediate).
_NICE = 2147483645  # the most that Slurm takes (NICE_OFFSET - 3)
_AT_ONCE_SECONDS = 60
_TERMINATION_LOG = pathlib.Path("/dev/termination-log")  # the kubelet makes it; what is in it is the pod's message


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Out of the contract's JSON: what the runner needs of it."""

    name: str
    shared_path: str
    accounting: bool
    nodesets: tuple[Nodeset, ...]


def read_contract(text: str) -> Cluster:
    """Raises: ValueError for a contract whose meaning this runner does not know."""
    document = cast("dict[str, Any]", json.loads(text))
    if document["version"] != CONTRACT_VERSION:
        raise ValueError(f"contract: version {document['version']}; this runner knows version {CONTRACT_VERSION}")
    names = {item.name for item in fields(Nodeset)}
    return Cluster(
        name=document["cluster_name"],
        shared_path=document["shared_path"],
        accounting=document["accounting"],
        nodesets=tuple(
            Nodeset(**{key: value for key, value in nodeset.items() if key in names})
            for nodeset in document["nodesets"]
        ),
    )


class OutOfTime(Exception):
    """The run's own deadline passed."""


class Refused(Exception):
    """Slurm did not do what an administrator may ask of it."""


class Busy(Exception):
    """A health check would have had to wait for a node."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a check's jobs go. options: for sbatch. members: all nodes of the nodeset."""

    nodeset: Nodeset
    options: str = ""
    members: tuple[str, ...] = ()


class Runner:
    """One run of a suite, or of the checks in `names`. scripts: {`<nodeset>.<file>`: text}. say: takes progress
    lines. earlier: results that are taken over instead of checked again. drain: take nodes that failed out of service.

    Suite health takes no node from anyone: its jobs go to nodes that are idle, at once or not at all.
    """

    def __init__(
        self,
        shell: Shell,
        cluster: Cluster,
        scripts: Mapping[str, str],
        *,
        suite: str,
        names: Sequence[str] = (),
        revision: str,
        timeout_seconds: float,
        backend: str = "nccl",
        drain: bool = False,
        earlier: Iterable[CheckResult] = (),
        say: Callable[[str], None] = print,
    ) -> None:
        self._shell, self._cluster, self._scripts, self._say = shell, cluster, scripts, say
        self._deadline = time.monotonic() + timeout_seconds
        self._timeout_seconds = timeout_seconds
        known = {check.name: check for check in checks(backend=backend)}
        self._known = known
        self._checks = [known[name] for name in names or SUITES[suite]]
        self._drain, self._gentle = drain, suite == HEALTH
        self._earlier = {(result.nodeset, result.check): result for result in earlier}
        self.report = Report(
            cluster=cluster.name, suite=suite, revision=revision, started=_now(), nodesets=cluster.nodesets
        )
        self._folder = f"{cluster.shared_path}/validation/jobs/{revision}"

    def run(self) -> Report:
        """Every check of the suite on every nodeset. Never raises for what the cluster does or says."""
        for nodeset in self._cluster.nodesets:
            for check in self._checks:
                self._say(f"{nodeset.name} {check.name} ...")
                self._add(self._earlier.get((nodeset.name, check.name)) or self._check(check, nodeset))
            if self._drain:
                self._remedy(nodeset)
        self.report.finished = _now()
        return self.report

    def save(self) -> str:
        """The report on the shared folder. Raises: Unreachable, OSError when it could not be written."""
        folder = f"{self._cluster.shared_path}/validation"
        name = f"{self.report.started.replace(':', '')}-{self.report.suite}.json"
        answer = self._shell.run(
            f"mkdir -p {shlex.quote(folder)} && cd {shlex.quote(folder)} && "
            f"cat > {name}.part && mv {name}.part {name} && ln -sfn {name} latest-{self.report.suite}.json",
            stdin=json.dumps(self.report.document(), indent=1).encode(),
        )
        if answer.code:
            raise OSError(answer.text.strip())
        return f"{folder}/{name}"

    def _add(self, result: CheckResult) -> None:
        self.report.results.append(result)
        self._say(f"{result.nodeset} {result.check}: {result.verdict.status} ({result.verdict.reason})")

    def _check(self, check: Check, nodeset: Nodeset) -> CheckResult:
        return self._result(
            check.name, nodeset, lambda jobs: self._unmet(check, nodeset) or self._try(check, nodeset, jobs)
        )

    def _try(self, check: Check, nodeset: Nodeset, jobs: list[JobRecord]) -> Verdict:
        if check.commands:
            return self._commands(check, nodeset)
        if not self._gentle:
            return self._jobs(check, Place(nodeset=nodeset), jobs)
        nodes = self._nodes(nodeset)
        free = tuple(node.name for node in nodes if standing(node) == "free")
        if busy := [node.name for node in nodes if standing(node) == "busy"]:
            taken = skipped("nodes-busy", f"not checked, in use: {', '.join(busy)}")
            self._add(_instant(nodeset, f"{check.name}-busy", taken))
        if len(free) < check.minimum_nodes:
            return skipped("nodes-busy", f"needs {check.minimum_nodes} idle nodes, {len(free)} of {nodeset.nodes} are")
        return self._jobs(check, self._place(nodeset, free), jobs)

    def _place(self, nodeset: Nodeset, names: tuple[str, ...], reservation: str = "") -> Place:
        others = [name for name in nodeset.node_names if name not in names]
        options = ["--exclusive", f"--nice={_NICE}"]  # exclusive: else a user's job could share a node with it
        options += [f"--exclude={','.join(others)}"] if others else []
        options += [f"--reservation={reservation}"] if reservation else []
        part = replace(nodeset, nodes=len(names), only=names)
        return Place(nodeset=part, options=" ".join(options), members=nodeset.node_names)

    def _nodes(self, nodeset: Nodeset) -> list[Node]:
        return [node for node in parse_nodes(self._must(_SHOW_NODES)) if node.name in nodeset.node_names]

    def _must(self, command: str) -> str:
        """Raises: Refused when it does not work; nothing is known of the nodes then."""
        answer = self._shell.run(command)
        if answer.code:
            raise Refused(f"{command}: {answer.text.strip()[:300]}")
        return answer.out

    def _remedy(self, nodeset: Nodeset) -> None:
        """What was drained by us is tried again by a health run; what failed now is drained, within the bound."""

        def drain(_: list[JobRecord]) -> Verdict:
            results = [*self._earlier.values(), *self.report.results]
            found = [(result.check, result.verdict) for result in results if result.nodeset == nodeset.name]
            chosen = drains(found, self._nodes(nodeset), members=nodeset.node_names)
            if isinstance(chosen, Verdict):
                return chosen
            for one in chosen:
                self._set_drained(one.node, one.reason)
            told = ", ".join(f"{one.node} ({one.reason})" for one in chosen)
            return passed(f"drained {told}") if chosen else skipped("nothing-to-drain", "no node is to be drained")

        def again(nodes: list[Node]) -> None:
            for node in nodes:
                if standing(node) == "ours" and drained_by(node) in self._known:
                    self._add(
                        self._result(
                            f"recheck-{node.name}", nodeset, lambda jobs, n=node: self._recheck(n, nodeset, jobs)
                        )
                    )

        result = self._result("drain", nodeset, drain)
        if self._gentle:
            try:
                again(self._nodes(nodeset) if result.verdict.status == "skipped" else [])
            except (Unreachable, Refused) as gone:
                result = _instant(nodeset, "drain", error("not-responding", str(gone)))
        if result.verdict.cause != "nothing-to-drain":
            self._add(result)

    def _recheck(self, node: Node, nodeset: Nodeset, jobs: list[JobRecord]) -> Verdict:
        """Slurm starts nothing on a drained node, so the node is opened to a reservation of ours only, and given back
        to users when the check that drained it has passed.
        """
        check = self._known[drained_by(node)]
        if not check.scripts:
            return skipped("no-job", f"{node.name} was drained by a check that runs no job on it")
        free = [other.name for other in self._nodes(nodeset) if standing(other) == "free"]
        names = (node.name, *free[: check.minimum_nodes - 1])
        if len(names) < check.minimum_nodes:
            return skipped("nodes-busy", f"needs {check.minimum_nodes - 1} idle nodes beside {node.name}")
        reservation = f"validation-{node.name}"
        self._shell.run(f"scontrol delete reservationname={reservation}")  # of a run that was killed
        self._must(
            f"scontrol create reservationname={reservation} nodes={','.join(names)} users=$(id -un) starttime=now "
            f"duration={max(10, int(self._timeout_seconds // 60))} flags=ignore_jobs"
        )
        verdict = error("not-tried", f"{node.name} could not be tried again")
        try:
            self._must(f"scontrol update nodename={node.name} state=resume")
            verdict = self._jobs(check, self._place(nodeset, names, reservation), jobs)
        finally:
            if verdict.status != "passed":
                why = reason_of(check.name, verdict.reason) if verdict.status == "failed" else node.reason
                self._set_drained(node.name, why)
            self._release(reservation)
        if verdict.status == "passed":
            return passed(f"resumed {node.name}: {check.name} passed again: {verdict.reason}")
        return verdict

    def _set_drained(self, name: str, reason: str) -> None:
        self._must(f"scontrol update nodename={name} state=drain reason={shlex.quote(reason)}")

    def _release(self, reservation: str) -> None:
        """It cannot go while its last job is still completing."""
        for _ in range(15):
            if self._shell.run(f"scontrol delete reservationname={reservation}").code == 0:
                return
            time.sleep(2)
        self._say(f"  reservation {reservation} stays until its time is over")

    def _result(self, name: str, nodeset: Nodeset, run: Callable[[list[JobRecord]], Verdict]) -> CheckResult:
        started, jobs = _now(), list[JobRecord]()
        try:
            self._sleep(0)
            verdict = run(jobs)
        except Unreachable as gone:
            verdict = error(
                "login-unreachable",
                f"the login service does not answer: {gone}",
                remedy="its pod, service, key and host keys",
            )
        except OutOfTime as late:
            verdict = error(
                "out-of-time",
                str(late),
                remedy="a longer validation.timeout_minutes, or see why the queue does not move",
            )
        except Refused as refused:
            verdict = error(
                "refused", str(refused), remedy="the same by hand on a login node; then the controller's log"
            )
        except Busy as waiting:
            verdict = skipped("nodes-busy", str(waiting))
        return CheckResult(
            nodeset=nodeset.name, check=name, verdict=verdict, started=started, finished=_now(), jobs=tuple(jobs)
        )

    def _unmet(self, check: Check, nodeset: Nodeset) -> Verdict | None:
        done = {result.check: result.verdict.status for result in self.report.results if result.nodeset == nodeset.name}
        if nodeset.nodes < check.minimum_nodes:
            return skipped("too-few-nodes", f"needs {check.minimum_nodes} nodes, {nodeset.name} has {nodeset.nodes}")
        # Health jobs go to nodes that are idle, whatever the others are.
        after = [name for name in check.after if not (self._gentle and name == "nodes")]
        unmet = [name for name in after if done.get(name) not in ("passed", None)]
        return skipped("depends-on", f"not run, because {', '.join(unmet)} did not pass") if unmet else None

    def _commands(self, check: Check, nodeset: Nodeset) -> Verdict:
        """Asked again while the cluster is still coming up, for half of the run's time at most."""
        patience = min(self._deadline, time.monotonic() + (0 if self._gentle else self._timeout_seconds / 2))
        while True:
            verdict = self._ask(check, nodeset)
            if verdict.status == "passed" or not _SETTLES.fullmatch(verdict.cause) or time.monotonic() > patience:
                return verdict
            self._say(f"  {verdict.reason}; waiting")
            self._sleep(min(10.0, max(0.0, patience - time.monotonic()) + 0.1))

    def _ask(self, check: Check, nodeset: Nodeset) -> Verdict:
        texts: dict[str, str] = {}
        for name, command in (check.commands or {}).items():
            try:
                answer = self._shell.run(command)
            except Unreachable as gone:
                return error(
                    "not-responding",
                    f"the login service does not answer: {gone}",
                    remedy="its pod, service, key and host keys",
                )
            if answer.code:
                return error(
                    "not-responding",
                    f"{name} does not answer: {answer.text.strip()[:300]}",
                    remedy="scontrol ping; the controller pod",
                )
            texts[name] = answer.out
        return check.judge(texts, nodeset)

    def _jobs(self, check: Check, place: Place, records: list[JobRecord]) -> Verdict:
        """Each script as a job; the first that does not complete decides, and its log may name the cause."""
        nodeset = place.nodeset
        self._stage(nodeset)
        logs: dict[str, str] = {}
        for script in check.scripts:
            options = self._options(script, place)
            answer = self._shell.run(
                f"cd {shlex.quote(self._home(nodeset))} && sbatch --parsable {options}{script}.sbatch"
            )
            number = job_id(answer.out) if answer.code == 0 else None
            if number is None:
                return judge_submission(answer.text)
            self._say(f"  {script}: job {number}")
            job = self._wait(number, script)
            log_path = f"{self._cluster.shared_path}/logs/{script}-{number}.out"
            log = self._log(log_path)
            records.append(
                JobRecord(
                    script=script,
                    job_id=number,
                    state=job.state or "unknown",
                    nodes=job.nodes,
                    log=log_path,
                    log_sha256=hashlib.sha256(log.encode()).hexdigest(),
                    versions={name: value.strip() for name, value in _VERSION.findall(log)},
                    measurements=measured(log, check.collective, nodeset),
                )
            )
            logs[script] = log
            ended = judge_job(job)
            if ended.status == "passed" and not log.strip():
                return error("empty-log", f"job {number} completed, but {log_path} is empty or not there")
            if ended.status != "passed" and not (ended.cause == "hidden-step" and check.judges_steps):
                judged = check.judge(logs, nodeset) if script == check.scripts[-1] and log.strip() else None
                return _with_cause(ended, log, judged)
        return check.judge(logs, nodeset)

    def _options(self, script: str, place: Place) -> str:
        """On a part of the nodeset, what wants the whole of it wants the part."""
        if not place.options:
            return ""
        text = self._scripts.get(f"{place.nodeset.name}.{script}.sbatch", "")
        whole = f"#SBATCH --nodes={len(place.members)}\n" in text
        return f"{place.options} --nodes={place.nodeset.nodes if whole else 1} "

    def _home(self, nodeset: Nodeset) -> str:
        return f"{self._folder}/{nodeset.name}"

    def _stage(self, nodeset: Nodeset) -> None:
        """Scripts and programs into a folder of this revision, as a user would copy them."""
        prefix = f"{nodeset.name}."
        files = {name.removeprefix(prefix): text for name, text in self._scripts.items() if name.startswith(prefix)}
        home, logs = shlex.quote(self._home(nodeset)), shlex.quote(f"{self._cluster.shared_path}/logs")
        answer = self._shell.run(f"mkdir -p {home} {logs} && tar -x -C {home} -f -", stdin=archive(files))
        if answer.code:
            raise Unreachable(f"scripts could not be copied to {self._home(nodeset)}: {answer.text.strip()}")

    def _wait(self, number: int, script: str) -> Job:
        """Until the job has finished, by the controller's record, and by accounting where there is one."""
        said, turn, silent_since, submitted = "", 0, None, time.monotonic()
        while True:
            try:
                job = self._controller(number)
            except Unreachable as gone:  # the job runs on while the login pod or the controller is replaced
                silent_since = silent_since or time.monotonic()
                if time.monotonic() > min(self._deadline, silent_since + _SILENCE_SECONDS):
                    raise
                self._say(f"  {script}: {gone}; asking again")
                time.sleep(_POLL_SECONDS[-1])
                continue
            silent_since = None
            if job is None or job.finished:
                break
            if (now := f"{job.state} {job.reason}".replace(" None", "")) != said:
                self._say(f"  {script}: job {number} {now}")
                said = now
            if self._gentle and job.state == "PENDING" and time.monotonic() > submitted + _AT_ONCE_SECONDS:
                self._shell.run(f"scancel {number}")
                raise Busy(f"job {number} did not start at once ({job.reason}) and was cancelled")
            if job.hopeless or time.monotonic() > self._deadline:
                self._shell.run(f"scancel {number}")
                raise OutOfTime(f"job {number} is still {now} and was cancelled")
            time.sleep(_POLL_SECONDS[min(turn, len(_POLL_SECONDS) - 1)])
            turn += 1
        if self._cluster.accounting and (told := self._accounting(number)):
            return told
        if job is None:
            raise Unreachable(f"neither the controller nor accounting knows job {number}")
        return job

    def _controller(self, number: int) -> Job | None:
        """None: the controller has forgotten the job (MinJobAge) or never knew it."""
        answer = self._shell.run(f"scontrol -d -o show job {number}")
        found = [job for job in parse_scontrol(answer.out) if job.job_id == str(number)]
        if found:
            return found[-1]
        if "Invalid job id" in answer.text:
            return None
        raise Unreachable(f"scontrol show job {number}: {answer.text.strip()[:300] or 'no answer'}")

    def _accounting(self, number: int) -> Job | None:
        """Rows come some seconds after the job's end."""
        for _ in range(15):
            answer = self._shell.run(
                f"sacct -P -j {number} --format=JobID,JobName,State,ExitCode,DerivedExitCode,NodeList,Reason"
            )
            found = [job for job in parse_sacct(answer.out) if job.job_id == str(number)]
            if found and found[0].finished and found[0].steps:
                return found[0]
            self._sleep(2)
        return None

    def _log(self, path: str) -> str:
        """The whole log: until its closing line is there, or some time has passed (a killed job has none)."""
        patience = time.monotonic() + _LOG_SETTLES_SECONDS
        while True:
            answer = self._shell.run(f"cat {shlex.quote(path)}", timeout=300)
            killed = "CANCELLED AT" in answer.out or "DUE TO" in answer.out
            if (answer.code == 0 and (killed or _FINISHED.search(answer.out))) or time.monotonic() > patience:
                return answer.out
            time.sleep(3)

    def _sleep(self, seconds: float) -> None:
        """Raises: OutOfTime when the run should have ended; what it found so far must still be saved."""
        if time.monotonic() > self._deadline:
            raise OutOfTime(f"the run's time of {self._timeout_seconds:g} s is over")
        time.sleep(seconds)


def _with_cause(ended: Verdict, log: str, judged: Verdict | None) -> Verdict:
    """How the job ended, with what its log says of why; a log never turns a failed job into a passed one."""
    why = judged if judged and judged.status == "failed" else explain(log)
    if ended.status != "failed" or why is None:
        return ended
    return Verdict(
        status="failed",
        cause=why.cause,
        reason=f"{ended.reason}: {why.reason}",
        evidence=why.evidence,
        line=why.line,
        remedy=why.remedy or ended.remedy,
        blames=why.blames,
    )


def _instant(nodeset: Nodeset, name: str, verdict: Verdict) -> CheckResult:
    return CheckResult(nodeset=nodeset.name, check=name, verdict=verdict, started=_now(), finished=_now())


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    home = pathlib.Path(sys.argv[0]).resolve()
    home = home if home.is_dir() else home.parent
    parser = argparse.ArgumentParser(prog="runner", description="Run and judge checks on a Slurm cluster.")
    parser.add_argument(
        "--suite", choices=sorted(SUITES), action="append", help="may be given again: one after another"
    )
    names = [check.name for check in checks(backend="nccl")]
    parser.add_argument("--checks", nargs="+", choices=names, default=(), help="these checks instead of a suite")
    parser.add_argument("--login", help="host of the login service; without it commands run here (--local)")
    parser.add_argument("--local", action="store_true", help="this machine has the Slurm commands")
    parser.add_argument("--contract", type=pathlib.Path, default=home / "contract.json")
    parser.add_argument("--scripts", type=pathlib.Path, default=home / "scripts", help="folder of <nodeset>.<script>")
    parser.add_argument("--ssh", type=pathlib.Path, default=home / "ssh", help="folder with id_ed25519 and known_hosts")
    parser.add_argument("--revision", default="manual")
    parser.add_argument(
        "--timeout-seconds", type=float, default=1800, help="of suite quick; others have a multiple of it"
    )
    parser.add_argument("--drain", action="store_true", help="drain nodes that failed, resume those that passed again")
    parser.add_argument("--results", help="<namespace>/<ConfigMap> that takes the results")
    parser.add_argument(
        "--backend", choices=("nccl", "gloo"), default="nccl", help="what the sanity job must have used"
    )
    arguments = parser.parse_args(argv)
    if bool(arguments.login) == arguments.local:
        parser.error("give one of --login and --local")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """0: all passed; 1: a check failed; 2: a check could not run; 3: right, but a number has no reference."""
    arguments = _arguments(argv)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - began:6.1f}s] {text}", flush=True)

    shell: Shell = (
        LocalShell()
        if arguments.local
        else SshShell(arguments.login, key=arguments.ssh / "id_ed25519", known_hosts=arguments.ssh / "known_hosts")
    )
    cluster, scripts = (
        read_contract(arguments.contract.read_text()),
        {path.name: path.read_text() for path in arguments.scripts.iterdir() if path.is_file()},
    )
    reports: list[Report] = []
    suites: list[str] = ["chosen"] if arguments.checks else arguments.suite or ["quick"]
    for suite in suites:
        runner = Runner(
            shell,
            cluster,
            scripts,
            suite=suite,
            names=arguments.checks,
            revision=arguments.revision,
            timeout_seconds=arguments.timeout_seconds * SUITE_TIMES.get(suite, 1),
            backend=arguments.backend,
            drain=arguments.drain and suite == suites[-1],  # what is drained would be missing for the next one
            earlier=[result for report in reports for result in report.results],
            say=say,
        )
        reports.append(runner.run())
        try:
            say(f"results: {runner.save()}")
        except (Unreachable, OSError) as lost:
            say(f"results could not be saved on the shared folder: {lost}")
    report = together(reports)
    if arguments.results:
        namespace, _, name = arguments.results.partition("/")
        try:
            write_config_map(namespace, name, config_map_data(report))
        except ConfigMapError as lost:
            say(f"results could not be written to the ConfigMap: {lost}")
    print(report.text(), flush=True)
    if _TERMINATION_LOG.exists():
        _TERMINATION_LOG.write_text(report.summary()[:2000])
    print(report.summary(), flush=True)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
