"""Images are registered where they would be pushed; random values and keys are real."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_ssh_private_key, load_ssh_public_key

from localcloud import docker, random, tls
from localcloud.cloud import cloud_at
from localcloud.provider import UNKNOWN, Provider, ProviderError, Urn

IMAGE = "docker:index/image:Image"
KEY = "tls:index/privateKey:PrivateKey"
BYTES = "random:index/randomBytes:RandomBytes"
PASSWORD = "random:index/randomPassword:RandomPassword"


def urn(token: str) -> Urn:
    return Urn(f"urn:pulumi:dev::p::{token}::x")


def failures(provider: Provider, token: str, inputs: dict[str, Any]) -> dict[str, str]:
    return {f.property: f.reason for f in provider.check(urn(token), {}, inputs)[1]}


def made(provider: Provider, token: str, inputs: dict[str, Any], *, preview: bool = False) -> dict[str, Any]:
    return provider.create(urn(token), inputs, preview)[1]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> tuple[docker.Provider, str]:
    state = tmp_path_factory.mktemp("cloud")
    ecr = cloud_at(state).client("ecr", "us-west-2")
    made = ecr.create_repository(repositoryName="slurmd", imageTagMutability="IMMUTABLE")["repository"]
    return docker.Provider(state), made["repositoryUri"]


@pytest.fixture
def context(tmp_path: Path) -> Path:
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    return tmp_path


def image(provider: docker.Provider, name: str, context: Path, **more: Any) -> tuple[str, dict[str, Any]]:
    checked, found = provider.check(urn(IMAGE), {}, {"imageName": name, "build": {"context": str(context)}, **more})
    assert not found, found
    return provider.create(urn(IMAGE), checked, False)


def test_a_digest_follows_from_every_file_of_the_context(registry: tuple[docker.Provider, str], context: Path) -> None:
    provider, repository = registry
    first = image(provider, f"{repository}:a", context)[1]
    assert first["repoDigest"].startswith(f"{repository}@sha256:")
    assert image(provider, f"{repository}:b", context)[1]["repoDigest"] == first["repoDigest"]
    (context / "file").write_text("x")
    assert image(provider, f"{repository}:c", context)[1]["repoDigest"] != first["repoDigest"]
    assert provider.read(urn(IMAGE), "", {"imageName": "i"}, first) is not None


def test_a_changed_context_shows_in_the_plan(registry: tuple[docker.Provider, str], context: Path) -> None:
    provider, repository = registry
    inputs = {"imageName": f"{repository}:a", "build": {"context": str(context)}}
    before, _ = provider.check(urn(IMAGE), {}, inputs)
    (context / "file").write_text("x")
    after, _ = provider.check(urn(IMAGE), {}, inputs)
    assert provider.diff(urn(IMAGE), "", before, {}, after).changes == ["build.contextDigest"]


def test_what_dockerignore_keeps_out_changes_nothing(registry: tuple[docker.Provider, str], context: Path) -> None:
    provider, repository = registry
    inputs = {"imageName": f"{repository}:a", "build": {"context": str(context)}}
    (context / ".dockerignore").write_text("# all but the sources\n*\n!src\n**/*.pyc\n")
    (context / "src").mkdir()
    before = provider.check(urn(IMAGE), {}, inputs)[0]
    for name in ("notes.txt", "src/a.pyc"):
        (context / name).touch()
    assert provider.check(urn(IMAGE), {}, inputs)[0] == before
    (context / "src" / "a.py").touch()
    after = provider.check(urn(IMAGE), {}, inputs)[0]
    (context / "Dockerfile").write_text("FROM other\n")
    assert before != after != provider.check(urn(IMAGE), {}, inputs)[0]


def test_a_second_image_under_an_immutable_tag_is_refused(registry: tuple[docker.Provider, str], context: Path) -> None:
    provider, repository = registry
    image(provider, f"{repository}:once", context)
    image(provider, f"{repository}:once", context)
    (context / "file").write_text("x")
    with pytest.raises(ProviderError, match="tag once of slurmd is immutable"):
        image(provider, f"{repository}:once", context)


def test_an_image_needs_its_repository_and_its_context(registry: tuple[docker.Provider, str], context: Path) -> None:
    provider, repository = registry
    with pytest.raises(ProviderError, match="ECR refused the push"):
        image(provider, f"{repository}x:a", context)
    image(provider, f"{repository}x:a", context, skipPush=True)
    assert "build.context" in failures(provider, IMAGE, {"imageName": f"{repository}:a", "build": {"context": "/none"}})
    (context / "Dockerfile").unlink()
    build = {"context": str(context)}
    assert "build.dockerfile" in failures(provider, IMAGE, {"imageName": f"{repository}:a", "build": build})
    assert (
        "ECR repositories only"
        in failures(provider, IMAGE, {"imageName": "ghcr.io/a/b:c", "build": build})["imageName"]
    )
    assert "build.contxt" in failures(provider, IMAGE, {"imageName": f"{repository}:a", "build": {"contxt": "."}})


def test_an_image_that_somebody_removed_is_gone_at_refresh(
    registry: tuple[docker.Provider, str], context: Path
) -> None:
    provider, repository = registry
    _, state = image(provider, f"{repository}:gone", context)
    ecr = cloud_at(provider.state_dir).client("ecr", "us-west-2")
    digest = state["repoDigest"].partition("@")[2]
    ecr.batch_delete_image(repositoryName="slurmd", imageIds=[{"imageDigest": digest}])
    assert provider.read(urn(IMAGE), "", {}, state) is None


def test_random_values_differ_and_fit_their_length(tmp_path: Path) -> None:
    provider = random.Provider(tmp_path)
    one, two = (made(provider, BYTES, {"length": 1024}) for _ in range(2))
    assert base64.b64decode(one["base64"]).hex() == one["hex"] != two["hex"] and len(one["hex"]) == 2048
    assert made(provider, BYTES, {"length": 4}, preview=True)["hex"] == UNKNOWN
    drawn = made(provider, "random:index/randomId:RandomId", {"byteLength": 4, "prefix": "p-"})
    assert drawn["hex"].startswith("p-") and len(drawn["hex"]) == 10


def test_a_password_has_the_characters_asked_for(tmp_path: Path) -> None:
    provider = random.Provider(tmp_path)
    drawn = made(provider, PASSWORD, {"length": 24, "special": False, "minNumeric": 20})["result"]
    assert len(drawn) == 24 and drawn.isalnum()
    assert sum(letter.isdigit() for letter in drawn) >= 20
    with pytest.raises(ProviderError, match="too short"):
        made(provider, PASSWORD, {"length": 2, "minLower": 3})


def test_a_changed_length_draws_anew(tmp_path: Path) -> None:
    assert random.Provider(tmp_path).diff(urn(BYTES), "", {"length": 1}, {}, {"length": 2}).replaces == ["length"]


@pytest.mark.parametrize(
    "inputs", [{"algorithm": "ED25519"}, {"algorithm": "ECDSA", "ecdsaCurve": "P256"}, {"algorithm": "RSA"}]
)
def test_a_private_key_is_one_key_in_all_its_forms(tmp_path: Path, inputs: dict[str, Any]) -> None:
    provider = tls.Provider(tmp_path)
    checked, found = provider.check(urn(KEY), {}, inputs)
    key = made(provider, KEY, checked)
    public = load_ssh_public_key(key["publicKeyOpenssh"].encode())
    assert not found and key["publicKeyOpenssh"].endswith("\n")
    assert load_ssh_private_key(key["privateKeyOpenssh"].encode(), None).public_key() == public
    assert load_pem_private_key(key["privateKeyPem"].encode(), None).public_key() == public
    digest = hashlib.sha256(base64.b64decode(key["publicKeyOpenssh"].split()[1])).digest()
    assert key["publicKeyFingerprintSha256"] == "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def test_unknown_algorithms_curves_and_properties_are_refused(tmp_path: Path) -> None:
    provider = tls.Provider(tmp_path)
    assert "algorithm" in failures(provider, KEY, {"algorithm": "DSA"})
    assert "ecdsaCurve" in failures(provider, KEY, {"algorithm": "ECDSA"})
    assert "rsaBit" in failures(provider, KEY, {"algorithm": "RSA", "rsaBit": 1})
    assert "lenght" in failures(random.Provider(tmp_path), BYTES, {"length": 1, "lenght": 1})
