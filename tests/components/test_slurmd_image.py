from __future__ import annotations

import pytest

from components.slurmd_image import SlurmdImage, SlurmdImageArgs
from plan.image import ImagePlan, plan_image
from tests.plan.build import example
from tests.recorder import built
from tools.recording import Record

IMAGE = "docker:index/image:Image"


def image_of(plan: ImagePlan) -> Record:
    def make() -> dict[str, object]:
        image = SlurmdImage("slurmd", SlurmdImageArgs(plan=plan))
        return {"repository": image.repository, "digest": image.digest}

    return built(make)


@pytest.fixture(scope="module")
def record() -> Record:
    return image_of(plan_image(example("dev")))


def test_the_image_is_built_from_the_plan_and_pushed_to_its_own_repository(record: Record) -> None:
    plan, image = plan_image(example("dev")), record.one(IMAGE).inputs
    assert image["imageName"].endswith(f"/slurmd:{plan.tag}")
    assert image["build"]["context"] == plan.context
    assert image["build"]["dockerfile"] == f"{plan.context}/Dockerfile"
    assert image["build"]["platform"] == "linux/amd64"
    assert image["build"]["args"] == dict(plan.build_args)
    assert image["registry"]["username"] == "AWS"


def test_the_registry_token_is_a_secret(record: Record) -> None:
    assert {"registry", "registry.password"} & record.one(IMAGE).secret_paths


def test_a_tag_in_the_repository_never_changes_its_image(record: Record) -> None:
    repository = record.one("aws:ecr/repository:Repository").inputs
    assert repository["imageTagMutability"] == "IMMUTABLE"
    assert repository["imageScanningConfiguration"] == {"scanOnPush": True}
    assert repository["encryptionConfigurations"] == [{"encryptionType": "KMS"}]
    assert (
        record.one("aws:ecr/lifecyclePolicy:LifecyclePolicy").inputs["policy"]
        == plan_image(example("dev")).lifecycle_policy
    )


def test_workers_get_repository_and_digest_and_no_tag(record: Record) -> None:
    assert record.outputs["digest"] == "sha256:" + "0" * 64
    assert record.outputs["repository"].endswith("/slurmd")


def test_a_prebuilt_image_makes_nothing_so_that_a_preview_needs_no_docker() -> None:
    plan = plan_image(example("prod"))
    record = image_of(plan)
    assert [r.type for r in record.resources] == ["slurm-eks:index:SlurmdImage"]
    assert f"{record.outputs['repository']}@{record.outputs['digest']}" == plan.prebuilt
