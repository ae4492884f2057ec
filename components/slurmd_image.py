"""The image that workers run: an ECR repository and a build pushed to it, or a digest that somebody else built.

Does not own: the Dockerfile (`images/slurmd`). Always hands on a digest and never a tag: two nodes of one cluster must
not run two images because a tag moved between their pulls.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws
import pulumi_docker as docker

from facts.names import TOKEN_PREFIX
from plan.image import ImagePlan


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmdImageArgs:
    """plan: what to build and where to push it, or the prebuilt digest."""

    plan: ImagePlan


class SlurmdImage(pulumi.ComponentResource):
    """repository and digest (`sha256:...`): the two halves that the slurm chart takes."""

    repository: pulumi.Output[str]
    digest: pulumi.Output[str]

    def __init__(self, name: str, args: SlurmdImageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{TOKEN_PREFIX}:SlurmdImage", name, None, opts)
        plan = args.plan
        reference = self._build(name, plan) if plan.prebuilt is None else pulumi.Output.from_input(plan.prebuilt)
        self.repository = reference.apply(lambda text: text.partition("@")[0])
        self.digest = reference.apply(lambda text: text.partition("@")[2])
        self.register_outputs({"repository": self.repository, "digest": self.digest})

    def _build(self, name: str, plan: ImagePlan) -> pulumi.Output[str]:
        mine = pulumi.ResourceOptions(parent=self)
        repository = aws.ecr.Repository(
            name,
            name=plan.repository_name,
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
            encryption_configurations=[aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type="KMS")],
            force_delete=True,  # holds only what this stack built and can build again; keep images by `prebuilt`
            tags=dict(plan.tags),
            opts=mine,
        )
        aws.ecr.LifecyclePolicy(name, repository=repository.name, policy=plan.lifecycle_policy, opts=mine)
        token = aws.ecr.get_authorization_token_output(
            registry_id=repository.registry_id, opts=pulumi.InvokeOptions(parent=self)
        )
        image = docker.Image(
            name,
            image_name=pulumi.Output.concat(repository.repository_url, ":", plan.tag),
            build=docker.DockerBuildArgs(
                context=plan.context,
                dockerfile=f"{plan.context}/Dockerfile",
                platform=plan.platform,
                args=dict(plan.build_args),
            ),
            registry=docker.RegistryArgs(
                server=repository.repository_url,
                username=token.user_name,
                password=pulumi.Output.secret(token.password),
            ),
            opts=mine,
        )
        return image.repo_digest
