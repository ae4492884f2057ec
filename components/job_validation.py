"""Jobs that prove the cluster: scripts in a ConfigMap, and a Kubernetes Job that submits them over SSH and judges.

Does not own: what is checked or how it is judged (`jobs/`, `judges/`), the key that opens the login (SlurmCluster).
The Job's failure is the update's failure: the provider waits for it. It runs again when the plan's revision changes,
and once more when it had failed; nothing else starts it, so an update of a tag does not take GPUs from users.
Health checks run on a schedule from the same pod, on nodes that nobody uses; what they find fails no update.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pulumi
import pulumi_kubernetes as kubernetes

from facts import names
from plan.validation import KEY_FILE, KNOWN_HOSTS_FILE, ValidationPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class JobValidationArgs:
    """private_key: opens the login. host_public_keys: {key type: OpenSSH line} of the login pods, the only hosts that
    the runner talks to."""

    plan: ValidationPlan
    private_key: pulumi.Input[str]
    host_public_keys: Mapping[str, pulumi.Input[str]]


class JobValidation(pulumi.ComponentResource):
    """results: {check: JSON text of its result}, as the runner wrote them."""

    results: pulumi.Output[Mapping[str, str]]

    def __init__(self, name: str, args: JobValidationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{names.TOKEN_PREFIX}:JobValidation", name, None, opts)
        self._name, self._plan, self._mine = name, args.plan, pulumi.ResourceOptions(parent=self)
        plan = args.plan
        needed: list[pulumi.Resource] = [
            self._config_map("runner", names.VALIDATION_NAME, plan.files, self._mine),
            self._config_map("scripts", names.JOBS_CONFIG_MAP, plan.scripts, self._mine),
            # The runner writes here from inside the cluster; what it wrote must not look like drift to be undone.
            self._config_map(
                "results",
                plan.results_config_map,
                {},
                pulumi.ResourceOptions(parent=self, ignore_changes=["data"]),
            ),
            kubernetes.core.v1.Secret(
                f"{name}-ssh",
                metadata=self._meta(names.VALIDATION_NAME),
                string_data={
                    KEY_FILE: pulumi.Output.secret(args.private_key),
                    # Known before the first connection, so that checking can be strict.
                    KNOWN_HOSTS_FILE: pulumi.Output.all(*args.host_public_keys.values()).apply(
                        lambda keys: "".join(f"{plan.login_host} {str(key).strip()}\n" for key in keys)
                    ),
                },
                opts=self._mine,
            ),
            *self._access(),
        ]
        longer = f"{plan.timeout_seconds + 300}s"
        job = self._job(
            pulumi.ResourceOptions(
                parent=self,
                depends_on=needed,  # it mounts and uses them by name only
                # The Job's own deadline must strike first: then the error says which, and not just that time was up.
                custom_timeouts=pulumi.CustomTimeouts(create=longer, update=longer),
            )
        )
        if plan.health is not None:  # whatever the Job says: it may have drained what they are to try again
            kubernetes.batch.v1.CronJob(
                f"{name}-health",
                metadata=self._meta(f"{names.VALIDATION_NAME}-health"),
                spec=cast("kubernetes.batch.v1.CronJobSpecArgs", plan.health),
                opts=pulumi.ResourceOptions(parent=self, depends_on=needed),
            )
        written = kubernetes.core.v1.ConfigMap.get(
            f"{name}-written",
            # By the Job's id, which no preview knows of a Job to come: its metadata would be known, and a preview that
            # looks for results before there are any fails.
            job.id.apply(lambda _: f"{plan.namespace}/{plan.results_config_map}"),
            opts=self._mine,
        )
        self.results = written.data.apply(plan.without_health)
        self.register_outputs({"results": self.results})

    def _meta(self, name: str) -> kubernetes.meta.v1.ObjectMetaArgs:
        return kubernetes.meta.v1.ObjectMetaArgs(name=name, namespace=self._plan.namespace)

    def _config_map(
        self, role: str, name: str, data: Mapping[str, str], opts: pulumi.ResourceOptions
    ) -> kubernetes.core.v1.ConfigMap:
        return kubernetes.core.v1.ConfigMap(f"{self._name}-{role}", metadata=self._meta(name), data=data, opts=opts)

    def _access(self) -> list[pulumi.Resource]:
        """The pod may write its results and nothing else."""
        account = kubernetes.core.v1.ServiceAccount(
            self._name, metadata=self._meta(names.VALIDATION_NAME), opts=self._mine
        )
        role = kubernetes.rbac.v1.Role(
            self._name,
            metadata=self._meta(names.VALIDATION_NAME),
            rules=[
                kubernetes.rbac.v1.PolicyRuleArgs(
                    api_groups=[""],
                    resources=["configmaps"],
                    resource_names=[self._plan.results_config_map],
                    verbs=["get", "patch"],
                )
            ],
            opts=self._mine,
        )
        binding = kubernetes.rbac.v1.RoleBinding(
            self._name,
            metadata=self._meta(names.VALIDATION_NAME),
            role_ref=kubernetes.rbac.v1.RoleRefArgs(
                api_group="rbac.authorization.k8s.io", kind="Role", name=names.VALIDATION_NAME
            ),
            subjects=[
                kubernetes.rbac.v1.SubjectArgs(
                    kind="ServiceAccount", name=names.VALIDATION_NAME, namespace=self._plan.namespace
                )
            ],
            opts=self._mine,
        )
        return [account, role, binding]

    def _job(self, opts: pulumi.ResourceOptions) -> kubernetes.batch.v1.Job:
        return kubernetes.batch.v1.Job(
            self._name,
            metadata=kubernetes.meta.v1.ObjectMetaArgs(
                name=f"{names.VALIDATION_NAME}-{self._plan.revision}",
                namespace=self._plan.namespace,
                # A Job that failed never leaves that state; without this, neither would any later update.
                annotations={"pulumi.com/replaceUnready": "true"},
            ),
            spec=kubernetes.batch.v1.JobSpecArgs(
                backoff_limit=0,  # a check that passes at the second try has found something
                active_deadline_seconds=self._plan.timeout_seconds,
                # A manifest has Kubernetes' own spelling of each key; the SDK takes that too, its types do not know it.
                template=kubernetes.core.v1.PodTemplateSpecArgs(
                    spec=cast("kubernetes.core.v1.PodSpecArgs", self._plan.pod)
                ),
            ),
            opts=opts,
        )
