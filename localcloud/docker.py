"""Stand-in for pulumi-docker's Image: no daemon, no build; what would be pushed is registered in the local ECR.

The digest follows from every file of the build context and the build arguments, so it changes when the image would and
only then. Relative paths are seen from the program's directory.
"""

from __future__ import annotations

import hashlib
import json
import re
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from localcloud import provider, sdk
from localcloud.cloud import cloud_at
from localcloud.provider import UNKNOWN, Failure, Properties, ProviderError, Urn, Value, has_unknown

_TYPE = "docker:index/image:Image"
_ECR = re.compile(
    r"(?P<registry>\d{12}\.dkr\.ecr\.(?P<region>[\w-]+)\.amazonaws\.com)/(?P<repository>[^:@]+)(:(?P<tag>[\w.-]+))?"
)
_COMPUTED = ("repoDigest", "baseImageName", "registryServer", "context", "dockerfile", "platform")


class Provider(provider.Provider):
    package = "docker"
    version = sdk.package_version("docker")

    def check(self, urn: Urn, olds: Properties, news: Properties) -> tuple[Properties, list[Failure]]:
        if urn.type != _TYPE:
            return news, [Failure("", f"{urn.type}: the local cloud makes images only")]
        failures = sdk.check_inputs(urn.type, news)
        build = _map(news.get("build"))
        context = Path(str(build.get("context") or "."))
        dockerfile = Path(str(build.get("dockerfile") or context / "Dockerfile"))
        seen = self.directory.resolve()
        if failures or has_unknown(build):
            return news, failures
        for name, path in (("build.context", context), ("build.dockerfile", dockerfile)):
            if not (seen / path).exists():
                failures.append(Failure(name, f"got {path}; there is no such path in {seen}"))
        name = news["imageName"]
        if name != UNKNOWN and not _ECR.fullmatch(str(name)):
            failures.append(Failure("imageName", f"got {name}; the local cloud has ECR repositories only"))
        filled: Properties = {**build, "context": str(context), "dockerfile": str(dockerfile)}
        if not failures:
            filled["contextDigest"] = _digest(seen / context, seen / dockerfile, build)
        return {**news, "build": filled}, failures

    def create(self, urn: Urn, inputs: Properties, preview: bool) -> tuple[str, Properties]:
        if preview:
            return "", {**inputs, **dict.fromkeys(_COMPUTED, UNKNOWN)}
        return str(inputs["imageName"]), self._pushed(inputs)

    def update(
        self, urn: Urn, id: str, old_inputs: Properties, state: Properties, news: Properties, preview: bool
    ) -> Properties:
        return {**news, **dict.fromkeys(_COMPUTED, UNKNOWN)} if preview else self._pushed(news)

    def read(self, urn: Urn, id: str, inputs: Properties, state: Properties) -> tuple[Properties, Properties] | None:
        repository, _, digest = str(state.get("repoDigest")).partition("@")
        found = _ECR.fullmatch(repository)
        if not found or inputs.get("skipPush"):
            return inputs, state
        ecr = cloud_at(self.state_dir).client("ecr", found["region"])
        try:
            ecr.describe_images(repositoryName=found["repository"], imageIds=[{"imageDigest": digest}])
        except ecr.exceptions.ClientError:
            return None
        return inputs, state

    def _pushed(self, inputs: Properties) -> Properties:
        """Register the image's manifest under its tag; the outputs that follow."""
        image, build = str(inputs["imageName"]), _map(inputs["build"])
        found = _ECR.fullmatch(image)
        if found is None:
            raise ProviderError(f"imageName: got {image}; the local cloud has ECR repositories only")
        config = {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": 1,
            "digest": f"sha256:{build['contextDigest']}",
        }
        media = "application/vnd.docker.distribution.manifest.v2+json"
        manifest = json.dumps({"schemaVersion": 2, "mediaType": media, "config": config, "layers": []}, sort_keys=True)
        digest = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
        if not inputs.get("skipPush"):
            ecr = cloud_at(self.state_dir).client("ecr", found["region"])
            tagged = {"repositoryName": found["repository"], "imageTag": found["tag"] or "latest"}
            try:
                self._refuse_another_under_a_fixed_tag(ecr, tagged, digest)
                ecr.put_image(imageManifest=manifest, imageManifestMediaType=media, imageDigest=digest, **tagged)
            except ecr.exceptions.ImageAlreadyExistsException:
                pass  # the same image under the same tag: a push of it changes nothing either
            except ecr.exceptions.ClientError as error:
                raise ProviderError(f"imageName: got {image}; ECR refused the push: {error}") from error
        computed: Properties = {
            "repoDigest": f"{found['registry']}/{found['repository']}@{digest}",
            "baseImageName": image,
            "registryServer": found["registry"],
            **{key: build.get(key) for key in ("context", "dockerfile", "platform")},
        }
        return {**inputs, **computed}

    def _refuse_another_under_a_fixed_tag(self, ecr: Any, tagged: dict[str, str], digest: str) -> None:
        """moto overwrites the tags of an immutable repository."""
        name, tag = tagged["repositoryName"], tagged["imageTag"]
        repository = ecr.describe_repositories(repositoryNames=[name])["repositories"][0]
        images = ecr.describe_images(repositoryName=name)["imageDetails"]
        taken = any(tag in i.get("imageTags", []) and i["imageDigest"] != digest for i in images)
        if taken and repository["imageTagMutability"] == "IMMUTABLE":
            raise ProviderError(f"imageName: tag {tag} of {name} is immutable and names another image; use a new tag")


def _digest(context: Path, dockerfile: Path, build: Properties) -> str:
    state = hashlib.sha256(
        json.dumps({k: v for k, v in build.items() if k != "contextDigest"}, sort_keys=True).encode()
    )
    state.update(dockerfile.read_bytes())  # it counts even where .dockerignore keeps it out of the context
    ignore = context / ".dockerignore"
    rules = [line for line in ignore.read_text().split() if line[0] != "#"] if ignore.exists() else []
    for file in sorted(p for p in context.rglob("*") if p.is_file()):
        name = str(file.relative_to(context))
        if not _ignored(name, rules):
            state.update(f"\0{name}\0{file.stat().st_mode & 0o111}\0".encode() + file.read_bytes())
    return state.hexdigest()


def _ignored(name: str, rules: list[str]) -> bool:
    """Whether .dockerignore keeps a file out of the context: the last rule that matches it or a folder above wins."""
    above = [name, *(str(p) for p in Path(name).parents)]
    ignored = False
    for rule in rules:
        pattern = rule.lstrip("!").strip("/")
        if any(fnmatch(path, p) for path in above for p in (pattern, pattern.removeprefix("**/"))):
            ignored = not rule.startswith("!")
    return ignored


def _map(value: Value) -> Properties:
    return value if isinstance(value, dict) else {}
