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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from jobs.checks import SUITES, Check, Nodeset, checks
from jobs.results import CheckResult, ConfigMapError, JobRecord, Report, config_map_data, measured, write_config_map
from jobs.shells import LocalShell, Shell, SshShell, Unreachable, archive
from judges.accounting import Job, judge_job, parse_sacct, parse_scontrol
from judges.signs import explain
from judges.submission import job_id, judge_submission
from judges.verdict import Verdict, error, skipped

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


class Runner:
    """One run of a suite, or of the checks in `names`. scripts: {`<nodeset>.<file>`: text}. say: takes progress
    lines.
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
        say: Callable[[str], None] = print,
    ) -> None:
        self._shell, self._cluster, self._scripts, self._say = shell, cluster, scripts, say
        self._deadline = time.monotonic() + timeout_seconds
        self._timeout_seconds = timeout_seconds
        known = {check.name: check for check in checks(backend=backend)}
        self._checks = [known[name] for name in names or SUITES[suite]]
        self.report = Report(
            cluster=cluster.name, suite=suite, revision=revision, started=_now(), nodesets=cluster.nodesets
        )
        self._folder = f"{cluster.shared_path}/validation/jobs/{revision}"

    def run(self) -> Report:
        """Every check of the suite on every nodeset. Never raises for what the cluster does or says."""
        for nodeset in self._cluster.nodesets:
            for check in self._checks:
                self._say(f"{nodeset.name} {check.name} ...")
                result = self._check(check, nodeset)
                self.report.results.append(result)
                self._say(f"{nodeset.name} {check.name}: {result.verdict.status} ({result.verdict.reason})")
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

    def _check(self, check: Check, nodeset: Nodeset) -> CheckResult:
        started, jobs = _now(), list[JobRecord]()
        verdict = self._unmet(check, nodeset)
        if verdict is None:
            try:
                self._sleep(0)
                verdict = self._commands(check, nodeset) if check.commands else self._jobs(check, nodeset, jobs)
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
        return CheckResult(
            nodeset=nodeset.name, check=check.name, verdict=verdict, started=started, finished=_now(), jobs=tuple(jobs)
        )

    def _unmet(self, check: Check, nodeset: Nodeset) -> Verdict | None:
        done = {result.check: result.verdict.status for result in self.report.results if result.nodeset == nodeset.name}
        if nodeset.nodes < check.minimum_nodes:
            return skipped("too-few-nodes", f"needs {check.minimum_nodes} nodes, {nodeset.name} has {nodeset.nodes}")
        unmet = [name for name in check.after if done.get(name) not in ("passed", None)]
        return skipped("depends-on", f"not run, because {', '.join(unmet)} did not pass") if unmet else None

    def _commands(self, check: Check, nodeset: Nodeset) -> Verdict:
        """Asked again while the cluster is still coming up, for half of the run's time at most."""
        patience = min(self._deadline, time.monotonic() + self._timeout_seconds / 2)
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

    def _jobs(self, check: Check, nodeset: Nodeset, records: list[JobRecord]) -> Verdict:
        """Each script as a job; the first that does not complete decides, and its log may name the cause."""
        self._stage(nodeset)
        logs: dict[str, str] = {}
        for script in check.scripts:
            answer = self._shell.run(f"cd {shlex.quote(self._home(nodeset))} && sbatch --parsable {script}.sbatch")
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
        said, turn, silent_since = "", 0, None
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
    )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    home = pathlib.Path(sys.argv[0]).resolve()
    home = home if home.is_dir() else home.parent
    parser = argparse.ArgumentParser(prog="runner", description="Run and judge checks on a Slurm cluster.")
    parser.add_argument("--suite", choices=sorted(SUITES), default="quick")
    names = [check.name for check in checks(backend="nccl")]
    parser.add_argument("--checks", nargs="+", choices=names, default=(), help="these checks instead of a suite")
    parser.add_argument("--login", help="host of the login service; without it commands run here (--local)")
    parser.add_argument("--local", action="store_true", help="this machine has the Slurm commands")
    parser.add_argument("--contract", type=pathlib.Path, default=home / "contract.json")
    parser.add_argument("--scripts", type=pathlib.Path, default=home / "scripts", help="folder of <nodeset>.<script>")
    parser.add_argument("--ssh", type=pathlib.Path, default=home / "ssh", help="folder with id_ed25519 and known_hosts")
    parser.add_argument("--revision", default="manual")
    parser.add_argument("--timeout-seconds", type=float, default=1800)
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
    runner = Runner(
        shell,
        read_contract(arguments.contract.read_text()),
        {path.name: path.read_text() for path in arguments.scripts.iterdir() if path.is_file()},
        suite="chosen" if arguments.checks else arguments.suite,
        names=arguments.checks,
        revision=arguments.revision,
        timeout_seconds=arguments.timeout_seconds,
        backend=arguments.backend,
        say=say,
    )
    report = runner.run()
    try:
        say(f"results: {runner.save()}")
    except (Unreachable, OSError) as lost:
        say(f"results could not be saved on the shared folder: {lost}")
    if arguments.results:
        namespace, _, name = arguments.results.partition("/")
        try:
            write_config_map(namespace, name, config_map_data(report))
        except ConfigMapError as lost:
            say(f"results could not be written to the ConfigMap: {lost}")
    print(report.text(), flush=True)
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
