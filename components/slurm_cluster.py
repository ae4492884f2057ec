"""The Slurm cluster: its keys and the slurm chart's release.

Does not own: chart values (`plan/slurm.py`), namespace, volumes, operators, the load balancer before the login pods.
All keys are made here and given to the chart by reference. A key that the chart makes itself is random in each render:
one lost lookup and every daemon, every token and every known_hosts file of every user is worthless.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes
import pulumi_random as random
import pulumi_tls as tls

from components._helm import release
from facts import names
from plan.charts import Json, Values
from plan.slurm import SlurmPlan, with_deploy_values


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmClusterArgs:
    """image_*: the workers' image. accounting_host: DNS name of slurmdbd's database, None without accounting.
    validation_access: make one more login key, for the jobs that check the cluster."""

    plan: SlurmPlan
    image_repository: pulumi.Input[str]
    image_digest: pulumi.Input[str]
    accounting_host: pulumi.Input[str] | None
    validation_access: bool


class SlurmCluster(pulumi.ComponentResource):
    """host_key_fingerprints: {key type: `SHA256:...`} to compare at the first ssh. host_public_keys: {key type: line}.
    login_private_key: of the generated pair, None when the settings name authorized keys (validation_... likewise)."""

    host_key_fingerprints: Mapping[str, pulumi.Output[str]]
    host_public_keys: Mapping[str, pulumi.Output[str]]
    login_private_key: pulumi.Output[str] | None
    validation_private_key: pulumi.Output[str] | None

    def __init__(self, name: str, args: SlurmClusterArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{names.TOKEN_PREFIX}:SlurmCluster", name, None, opts)
        plan = args.plan
        self._name, self._namespace, self._mine = name, plan.namespace, pulumi.ResourceOptions(parent=self)

        slurm_key = random.RandomBytes(f"{name}-slurm", length=plan.slurm_key_bytes, opts=self._mine)
        jwt_key = random.RandomBytes(f"{name}-jwt", length=plan.jwt_key_bytes, opts=self._mine)
        host_keys = {kind: self._ssh_key(f"host-{kind}", kind) for kind in plan.host_key_types}
        secrets = [
            self._secret("slurm", names.SLURM_KEY_SECRET[0], {names.SLURM_KEY_SECRET[1]: slurm_key.base64}),
            self._secret("jwt", names.JWT_KEY_SECRET[0], {names.JWT_KEY_SECRET[1]: jwt_key.base64}),
            self._secret("host-keys", names.HOST_KEYS_SECRET, _host_key_files(host_keys)),
        ]
        self.host_key_fingerprints = {k: key.public_key_fingerprint_sha256 for k, key in host_keys.items()}
        self.host_public_keys = {k: key.public_key_openssh for k, key in host_keys.items()}

        authorized: list[pulumi.Input[str]] = list(plan.authorized_keys)
        self.login_private_key = self._login_key("login", authorized) if plan.generate_login_key else None
        self.validation_private_key = self._login_key("validation", authorized) if args.validation_access else None

        release(
            name,
            plan.release,
            # Known to the chart by name only; a daemon that starts without its key crashes until the kubelet sees it.
            pulumi.ResourceOptions(parent=self, depends_on=secrets),
            values=_values(args, authorized),
        )
        self.register_outputs({"host_key_fingerprints": self.host_key_fingerprints})

    def _ssh_key(self, role: str, kind: str) -> tls.PrivateKey:
        return tls.PrivateKey(
            f"{self._name}-{role}",
            algorithm=kind.upper(),
            rsa_bits=4096 if kind == "rsa" else None,
            ecdsa_curve="P256" if kind == "ecdsa" else None,
            opts=self._mine,
        )

    def _login_key(self, role: str, authorized: list[pulumi.Input[str]]) -> pulumi.Output[str]:
        key = self._ssh_key(role, "ed25519")
        authorized.append(key.public_key_openssh)
        return pulumi.Output.secret(key.private_key_openssh)

    def _secret(self, role: str, secret_name: str, data: Mapping[str, pulumi.Input[str]]) -> kubernetes.core.v1.Secret:
        return kubernetes.core.v1.Secret(
            f"{self._name}-{role}",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=secret_name, namespace=self._namespace),
            immutable=True,  # the operator replaces host keys that it may write to, and nobody can edit a key by hand
            data=data,
            opts=self._mine,
        )


def _values(args: SlurmClusterArgs, authorized: list[pulumi.Input[str]]) -> Mapping[str, object]:
    """The plan's values, with Outputs only in the slots that wait for the deployment: a preview shows the rest."""

    def filled(repository: str, digest: str, host: str, *keys: str) -> Values:
        return with_deploy_values(
            args.plan.release.values,
            image_repository=repository,
            image_digest=digest,
            authorized_keys=[key.strip() for key in keys],
            accounting_host=None if args.accounting_host is None else host,
        )

    known = pulumi.Output.all(args.image_repository, args.image_digest, args.accounting_host or "", *authorized)
    rendered = known.apply(lambda texts: filled(*map(str, texts)))

    def slots(planned: Json, sample: Json, path: tuple[str, ...]) -> object:
        if isinstance(sample, dict):
            inner = planned if isinstance(planned, dict) else {}
            return {key: slots(inner.get(key), value, (*path, key)) for key, value in sample.items()}
        return sample if sample == planned else rendered.apply(lambda values: _at(values, path))

    sample = filled("repository", "digest", "host", "key")
    return {key: slots(args.plan.release.values.get(key), value, (key,)) for key, value in sample.items()}


def _at(values: Json, path: tuple[str, ...]) -> Json:
    for key in path:
        values = values[key] if isinstance(values, dict) else None
    return values


def _host_key_files(keys: Mapping[str, tls.PrivateKey]) -> dict[str, pulumi.Output[str]]:
    files: dict[str, pulumi.Output[str]] = {}
    for kind, key in keys.items():
        files[f"ssh_host_{kind}_key"] = pulumi.Output.secret(key.private_key_openssh).apply(_base64)
        files[f"ssh_host_{kind}_key.pub"] = key.public_key_openssh.apply(_base64)
    return files


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
