from __future__ import annotations

import base64

import pytest

from components.slurm_cluster import SlurmCluster, SlurmClusterArgs
from plan import make_plan
from plan.slurm import SlurmPlan
from settings.models import Settings
from tests.plan.build import Login, example, stack
from tests.recorder import before, built, on_kubernetes
from tools.recording import Record

RELEASE = "kubernetes:helm.sh/v3:Release"
SECRET = "kubernetes:core/v1:Secret"
KEY = "tls:index/privateKey:PrivateKey"
OURS = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDlxXz1hXzJ2lyHZgMQRBxh3XTgEzkFIxP7R2zgU4q0D us@example.org"


def slurm_of(settings: Settings, *, validation: bool = True, accounting_host: str | None = None) -> Record:
    plan = make_plan(settings).slurm

    def make() -> dict[str, object]:
        slurm = SlurmCluster(
            "hpc",
            SlurmClusterArgs(
                plan=plan,
                image_repository="registry.invalid/slurmd",
                image_digest="sha256:" + "1" * 64,
                accounting_host=accounting_host,
                validation_access=validation,
            ),
            on_kubernetes(),
        )
        return {
            "fingerprints": slurm.host_key_fingerprints,
            "login": slurm.login_private_key,
            "validation": slurm.validation_private_key,
        }

    return built(make)


def dev_plan() -> SlurmPlan:
    return make_plan(example("dev")).slurm


@pytest.fixture(scope="module")
def dev() -> Record:
    return slurm_of(example("dev"))


def values(record: Record) -> dict[str, object]:
    return record.one(RELEASE).inputs["values"]


def authorized(record: Record) -> list[str]:
    (login,) = values(record)["loginsets"].values()  # type: ignore[attr-defined]
    return login["rootSshAuthorizedKeys"].splitlines()


def test_the_chart_makes_no_key_because_a_render_would_rotate_it(dev: Record) -> None:
    for slot, (secret, key) in {"slurmKey": ("slurm-auth", "slurm.key"), "jwtKey": ("slurm-jwt", "jwt.key")}.items():
        assert values(dev)[slot] == {"create": False, "secretRef": {"name": secret, "key": key}}
        (made,) = (r for r in dev.of(SECRET) if r.inputs["metadata"]["name"] == secret)
        assert made.inputs["data"].keys() == {key}


def test_keys_and_nothing_else_are_in_immutable_secrets_and_marked_secret(dev: Record) -> None:
    assert len(dev.of(SECRET)) == 3
    for secret in dev.of(SECRET):
        assert secret.inputs["immutable"] is True
        assert any(path.startswith("data") for path in secret.secret_paths), secret.name
        assert secret.inputs["metadata"]["namespace"] == "slurm"


def test_login_pods_find_host_keys_that_outlive_them_under_the_names_that_sshd_knows(dev: Record) -> None:
    (secret,) = (r for r in dev.of(SECRET) if r.inputs["metadata"]["name"] == "slurm-login-login-ssh-host-keys")
    files = {f"ssh_host_{kind}_key{end}" for kind in ("ed25519", "rsa", "ecdsa") for end in ("", ".pub")}
    assert secret.inputs["data"].keys() == files
    private = base64.b64decode(secret.inputs["data"]["ssh_host_ed25519_key"]).decode()
    assert private == "private key of hpc-host-ed25519\n"


def test_host_keys_are_of_the_three_types_that_clients_ask_for(dev: Record) -> None:
    kinds = {r.name: (r.inputs["algorithm"], r.inputs.get("rsaBits"), r.inputs.get("ecdsaCurve")) for r in dev.of(KEY)}
    assert kinds["hpc-host-ed25519"] == ("ED25519", None, None)
    assert kinds["hpc-host-rsa"] == ("RSA", 4096, None)
    assert kinds["hpc-host-ecdsa"] == ("ECDSA", None, "P256")
    assert dev.outputs["fingerprints"] == {k: f"SHA256:hpc-host-{k}" for k in dev_plan().host_key_types}


def test_no_daemon_starts_before_its_keys_are_there(dev: Record) -> None:
    assert {(SECRET, r.name) for r in dev.of(SECRET)} <= before(dev, dev.one(RELEASE))


def test_every_nodeset_runs_the_image_by_digest(dev: Record) -> None:
    nodesets = values(dev)["nodesets"]
    assert nodesets.keys() == set(dev_plan().nodeset_names)  # type: ignore[attr-defined]
    for nodeset in nodesets.values():  # type: ignore[attr-defined]
        assert nodeset["slurmd"]["image"] == {"repository": "registry.invalid/slurmd", "digest": "sha256:" + "1" * 64}


def test_without_authorized_keys_a_pair_is_made_and_its_private_half_is_a_secret_output(dev: Record) -> None:
    assert authorized(dev) == ["ssh-mock key-of-hpc-login", "ssh-mock key-of-hpc-validation"]
    assert dev.outputs["login"] == "private key of hpc-login\n"
    assert {"login", "validation"} <= dev.secret_outputs


def test_the_users_own_keys_are_taken_and_none_is_made_for_them() -> None:
    record = slurm_of(stack(login=Login(allowed_cidrs=("203.0.113.7/32",), authorized_keys=(OURS,))), validation=False)
    assert authorized(record) == [OURS]
    assert record.outputs["login"] is record.outputs["validation"] is None
    assert {r.name for r in record.of(KEY)} == {f"hpc-host-{kind}" for kind in ("ed25519", "rsa", "ecdsa")}


def test_with_accounting_the_chart_is_told_the_databases_address() -> None:
    told = values(slurm_of(example("prod"), accounting_host="db.invalid"))["accounting"]
    assert told["storageConfig"]["host"] == "db.invalid"  # type: ignore[index]


def test_no_secret_is_among_the_charts_values(dev: Record) -> None:
    assert dev.one(RELEASE).secret_paths == frozenset()
    assert "private key" not in str(values(dev))
