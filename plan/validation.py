"""What JobValidation puts into the cluster: job scripts, the runner's own files, and the Kubernetes Job that runs
them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from facts import names, versions
from jobs.checks import HEALTH, SUITE_TIMES
from jobs.render import render
from jobs.results import HEALTH_PREFIX
from plan.charts import Json, Values
from plan.contract import ClusterContract
from plan.image import image_tag
from settings.models import Settings

_ROOT: Final = pathlib.Path(__file__).parent.parent
_RUNNER_FILES: Final = ("jobs/__init__.py", "jobs/checks.py", "jobs/results.py", "jobs/runner.py", "jobs/shells.py")
_SAVING_SECONDS: Final = 120  # the runner ends itself before the Job's deadline, to save what it found
_MOUNT: Final = "/validation"  # the runner's files; below it `scripts` and `ssh`
KEY_FILE: Final = "id_ed25519"
KNOWN_HOSTS_FILE: Final = "known_hosts"

# A ConfigMap has no folders: `judges.nccl.py` stands for `judges/nccl.py`.
_MAIN: Final = '''"""Lays the flat files beside this one out as packages, then runs the checks."""
import pathlib, sys, tempfile

here = pathlib.Path(__file__).parent
root = pathlib.Path(tempfile.mkdtemp(prefix="validation-"))
for file in here.glob("*.*.py"):
    target = root / (file.stem.replace(".", "/") + file.suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(file.read_text())
sys.path.insert(0, str(root))
from jobs.runner import main

sys.exit(main())
'''


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidationPlan:
    """files: {name: text} of the runner and judges (stdlib only) and of the contract; scripts: {name: sbatch text}.

    command: the runner's argument vector inside the pod; health_command: the same for health checks, which run at
    health_schedule (None: never) and never beside each other. login_host: service DNS name that it reaches by SSH.
    revision: digest of everything whose change must run the checks again (part of the Job's name).
    """

    enabled: bool
    namespace: str
    image: str
    files: Mapping[str, str]
    scripts: Mapping[str, str]
    command: tuple[str, ...]
    health_command: tuple[str, ...]
    health_schedule: str | None
    health_timeout_seconds: int
    login_host: str
    timeout_seconds: int
    revision: str
    results_config_map: str
    node_selector: Mapping[str, str]

    @property
    def pod(self) -> Values:
        """The Job's pod."""
        return self._pod(self.command)

    @property
    def health(self) -> Values | None:
        """The CronJob of health checks: the same pod with another suite."""
        if self.health_schedule is None:
            return None
        job: Values = {
            "backoffLimit": 0,
            "activeDeadlineSeconds": self.health_timeout_seconds,
            "template": {"spec": self._pod(self.health_command)},
        }
        return {
            "schedule": self.health_schedule,
            "timeZone": "Etc/UTC",
            "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 600,  # one that was missed is not made up for
            "successfulJobsHistoryLimit": 1,
            "failedJobsHistoryLimit": 3,
            "jobTemplate": {"spec": job},
        }

    @staticmethod
    def without_health(results: Mapping[str, str] | None) -> Mapping[str, str]:
        """What the Job wrote. Health checks write beside it, each hour something else, which would be a change of the
        stack's outputs."""
        return {key: text for key, text in (results or {}).items() if not key.startswith(HEALTH_PREFIX)}

    def _pod(self, command: tuple[str, ...]) -> Values:
        """As a manifest. One volume of three sources: a second one could not be mounted inside a ConfigMap, which is
        read-only.
        """
        scripts: Values = {
            "name": names.JOBS_CONFIG_MAP,
            "items": [{"key": key, "path": f"scripts/{key}"} for key in self.scripts],
        }
        ssh: Values = {
            "name": names.VALIDATION_NAME,
            "items": [{"key": key, "path": f"ssh/{key}", "mode": 0o400} for key in (KEY_FILE, KNOWN_HOSTS_FILE)],
        }
        runner: Values = {
            "name": "runner",
            "image": self.image,
            "command": list(command),
            # The runner writes what it found; where it could not, its last lines say more than an exit code.
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{"name": "files", "mountPath": _MOUNT, "readOnly": True}],
        }
        sources: list[Json] = [{"configMap": {"name": names.VALIDATION_NAME}}, {"configMap": scripts}, {"secret": ssh}]
        return {
            "restartPolicy": "Never",
            "serviceAccountName": names.VALIDATION_NAME,
            "nodeSelector": dict(self.node_selector),
            "containers": [runner],
            "volumes": [{"name": "files", "projected": {"sources": sources}}],
        }


def plan_validation(settings: Settings, contract: ClusterContract) -> ValidationPlan:
    """The runner finds `scripts` and `ssh` below the folder that its files are mounted on."""
    scripts = {
        f"{nodeset.name}.{name}": text
        for nodeset in contract.nodesets
        for name, text in render(contract, nodeset).items()
    }
    files = runner_files(contract)
    image = f"{versions.SLINKY_IMAGES}/login:{versions.SLINKY_IMAGE_TAG}"
    wanted, quick_seconds = settings.validation, settings.validation.timeout_minutes * 60
    login_host = f"{names.LOGIN_SERVICE}.{names.NAMESPACE_SLURM}.svc"
    revision = _revision(
        scripts,
        files["contract.json"],
        settings.image.prebuilt or image_tag(settings),
        versions.SLURM.version,
        wanted.suites,
    )

    def command(suites: tuple[str, ...]) -> tuple[str, ...]:
        return (
            "python3",
            "-B",
            _MOUNT,
            f"--login={login_host}",
            *(f"--suite={suite}" for suite in suites),
            f"--revision={revision}",
            f"--timeout-seconds={quick_seconds - _SAVING_SECONDS}",
            f"--results={names.NAMESPACE_SLURM}/{names.RESULTS_CONFIG_MAP}",
            *(("--drain",) if wanted.drain_failed_nodes else ()),
        )

    return ValidationPlan(
        enabled=settings.validation.enabled,
        namespace=names.NAMESPACE_SLURM,
        image=image,
        files=files,
        scripts=scripts,
        command=command(wanted.suites),
        health_command=command((HEALTH,)),
        health_schedule=wanted.health_schedule,
        health_timeout_seconds=quick_seconds * SUITE_TIMES[HEALTH],
        login_host=login_host,
        timeout_seconds=quick_seconds * sum(SUITE_TIMES[suite] for suite in wanted.suites),
        revision=revision,
        results_config_map=names.RESULTS_CONFIG_MAP,
        node_selector={names.ROLE_LABEL: names.ROLE_CORE},
    )


def runner_files(contract: ClusterContract) -> dict[str, str]:
    """The runner, the judges and the contract, flat as a ConfigMap holds them."""
    described = json.dumps(dataclasses.asdict(contract), indent=1, sort_keys=True)
    sources = [_ROOT / name for name in _RUNNER_FILES] + sorted((_ROOT / "judges").glob("*.py"))
    flat = {".".join(path.relative_to(_ROOT).parts): path.read_text() for path in sources}
    return {"__main__.py": _MAIN, "contract.json": described, **flat}


def _revision(
    scripts: Mapping[str, str], contract: str, image: str, chart_version: str, suites: tuple[str, ...]
) -> str:
    """What the verdict depends on. The judges do not belong to it: a better rule is no reason to take GPUs from
    users.
    """
    text = json.dumps([sorted(scripts.items()), contract, image, chart_version, suites])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
