from __future__ import annotations

from dataclasses import replace

import pytest

from components.job_validation import JobValidation, JobValidationArgs
from plan import make_plan
from plan.validation import ValidationPlan
from tests.plan.build import example
from tests.recorder import before, built, on_kubernetes
from tools.recording import Record

JOB = "kubernetes:batch/v1:Job"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def dev_plan() -> ValidationPlan:
    return make_plan(example("dev")).validation


def validation_of(plan: ValidationPlan) -> Record:
    def make() -> dict[str, object]:
        validation = JobValidation(
            "check",
            JobValidationArgs(
                plan=plan,
                private_key="the private key",
                host_public_keys={"ed25519": "ssh-ed25519 AAAA1\n", "rsa": "ssh-rsa AAAA2\n"},
            ),
            on_kubernetes(),
        )
        return {"results": validation.results}

    return built(make)


@pytest.fixture(scope="module")
def record() -> Record:
    return validation_of(dev_plan())


def test_a_check_that_fails_once_has_failed_and_ends_by_its_own_deadline_first(record: Record) -> None:
    job = record.one(JOB)
    assert job.inputs["spec"]["backoffLimit"] == 0
    assert job.inputs["spec"]["activeDeadlineSeconds"] == dev_plan().timeout_seconds
    assert job.create_timeout == f"{dev_plan().timeout_seconds + 300}s"
    assert job.inputs["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_the_checks_run_again_when_the_revision_changes_and_when_nothing_else_does(record: Record) -> None:
    def job_of(plan: ValidationPlan) -> dict[str, object]:
        return dict(validation_of(plan).one(JOB).inputs)

    plan = dev_plan()
    assert record.one(JOB).inputs["metadata"]["name"] == f"slurm-validation-{plan.revision}"
    assert job_of(replace(plan, files={**plan.files, "jobs.runner.py": "better"})) == record.one(JOB).inputs
    assert job_of(replace(plan, revision="other"))["metadata"] != record.one(JOB).inputs["metadata"]


def test_a_failed_job_is_replaced_by_the_next_update(record: Record) -> None:
    assert record.one(JOB).inputs["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}


def test_the_job_starts_when_its_files_keys_and_rights_are_there(record: Record) -> None:
    needed = {kind for kind, _ in before(record, record.one(JOB))}
    assert {
        CONFIG_MAP,
        "kubernetes:core/v1:Secret",
        "kubernetes:core/v1:ServiceAccount",
        "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding",
    } <= needed


def test_the_runner_finds_scripts_and_keys_below_its_own_folder_in_one_volume(record: Record) -> None:
    pod = record.one(JOB).inputs["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,) = container["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/validation")
    assert "/validation" in container["command"]
    runner, scripts, ssh = volume["projected"]["sources"]
    assert runner["configMap"] == {"name": "slurm-validation"}
    assert {i["path"] for i in scripts["configMap"]["items"]} == {f"scripts/{name}" for name in dev_plan().scripts}
    assert {(i["path"], i["mode"]) for i in ssh["secret"]["items"]} == {
        ("ssh/id_ed25519", 0o400),
        ("ssh/known_hosts", 0o400),
    }


def test_the_runner_talks_to_hosts_whose_keys_it_knows_beforehand_and_to_no_other(record: Record) -> None:
    secret = record.one("kubernetes:core/v1:Secret")
    host = dev_plan().login_host
    assert secret.inputs["stringData"]["known_hosts"] == f"{host} ssh-ed25519 AAAA1\n{host} ssh-rsa AAAA2\n"
    assert any(path.startswith("stringData") for path in secret.secret_paths)


def test_the_pod_may_write_its_results_and_nothing_else(record: Record) -> None:
    (rule,) = record.one("kubernetes:rbac.authorization.k8s.io/v1:Role").inputs["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["slurm-validation-results"],
        "verbs": ["get", "patch"],
    }


def test_results_are_no_drift_and_are_read_when_the_job_has_ended(record: Record) -> None:
    assert record.one(CONFIG_MAP, "check-results").ignore_changes == ("data",)
    (read,) = record.reads
    assert read.inputs["id"] == "slurm/slurm-validation-results"


def test_checks_run_beside_the_control_software_and_not_on_gpu_nodes(record: Record) -> None:
    assert record.one(JOB).inputs["spec"]["template"]["spec"]["nodeSelector"] == {"role": "core"}


def test_health_checks_run_on_their_schedule_one_at_a_time_from_the_same_pod(record: Record) -> None:
    spec = record.one("kubernetes:batch/v1:CronJob").inputs["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == ("23 4 * * *", "Forbid")
    job = spec["jobTemplate"]["spec"]
    assert (job["backoffLimit"], job["activeDeadlineSeconds"]) == (0, dev_plan().health_timeout_seconds)
    pod, other = job["template"]["spec"], record.one(JOB).inputs["spec"]["template"]["spec"]
    assert "--suite=health" in pod["containers"][0]["command"]
    assert {**pod, "containers": []} == {**other, "containers": []}


def test_health_checks_do_not_wait_for_the_job_that_may_fail(record: Record) -> None:
    needed = {kind for kind, _ in before(record, record.one("kubernetes:batch/v1:CronJob"))}
    assert CONFIG_MAP in needed
    assert JOB not in needed


def test_without_a_schedule_there_are_no_health_checks() -> None:
    assert validation_of(replace(dev_plan(), health_schedule=None)).of("kubernetes:batch/v1:CronJob") == []


def test_the_pods_message_is_what_the_runner_wrote_or_its_last_lines(record: Record) -> None:
    (container,) = record.one(JOB).inputs["spec"]["template"]["spec"]["containers"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
