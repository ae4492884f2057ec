"""`python3 -m tools.pulumi_cli`: a Pulumi CLI of the pinned version or newer; prints its path.

Tries in turn what is on PATH, the vendor's installer and `go build` from tools/pulumi-cli; the last two leave their
work under .cache/ and are not repeated. Each way is bounded in time; when none works, the message says why each failed.
Only a built CLI gets our Python language host laid beside it: an installed one brings the vendor's.
Standard library only: it may run before .venv exists.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.progress import CommandFailed, run

VERSION = "v3.274.1"  # tools/pulumi-cli/go.mod requires the same
ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
MODULE = ROOT / "tools" / "pulumi-cli"
INSTALLER = "https://get.pulumi.com/"
INSTALLER_ANSWER_SECONDS = 5
INSTALLER_LIMIT_SECONDS = 300
DOWNLOAD_LIMIT_SECONDS = 300
BUILD_LIMIT_SECONDS = 2700
LAUNCHER = """#!/bin/sh
# Laid by tools/pulumi_cli.py: runs the language host of this clone with the Python of its .venv.
here=${0%/*}
export PULUMI_LANGUAGE_PYTHON_EXEC="$here/pulumi-language-python-exec"
exec "$here/../../.venv/bin/python" -I "$here/../../tools/language_host/pulumi-language-python" "$@"
"""


class Unobtainable(Exception):
    """No way led to a CLI; the text lists the ways and what each needed."""


class _Unusable(Exception):
    """Why one way did not lead to a CLI."""


def obtain(path: str | None = None) -> Path:
    """The CLI's path, by the first way that works; `path` stands for the environment's PATH."""
    path = os.environ.get("PATH", os.defpath) if path is None else path
    ways: dict[str, Callable[[str], Path]] = {
        "on PATH": _on_path,
        f"the vendor's installer ({INSTALLER})": _installed,
        "go build (tools/pulumi-cli)": _built,
    }
    reasons: list[str] = []
    for name, way in ways.items():
        try:
            return way(path)
        except (_Unusable, CommandFailed) as failure:
            reasons.append(f"  {name}: {failure}")
    raise Unobtainable(
        f"no Pulumi CLI {VERSION} or newer could be had. Tried:\n"
        + "\n".join(reasons)
        + f"\nwhat to do: install Pulumi {VERSION} or newer (https://www.pulumi.com/docs/install/), or Go "
        + f"{_go_version_wanted()} or newer with a module proxy in reach; then run it again."
    )


def _usable(binary: Path) -> bool:
    """Whether `binary` is a CLI of the pinned version or newer; raises if it is one that is too old or broken."""
    if not binary.exists():
        return False
    env = os.environ | {"PULUMI_SKIP_UPDATE_CHECK": "true"}
    try:
        result = subprocess.run([binary, "version"], env=env, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Unusable(f"{binary} does not run: {error}") from error
    if _numbers(result.stdout) < _numbers(VERSION):
        raise _Unusable(f"{binary} is {result.stdout.strip() or 'of no version'}, older than {VERSION}")
    return True


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", version.strip())
    return tuple(int(number) for number in found.groups()) if found else ()


def _on_path(path: str) -> Path:
    found = shutil.which("pulumi", path=path)
    if not found or not _usable(Path(found)):
        raise _Unusable("there is no pulumi")
    host = "pulumi-language-python"
    if not (Path(found).resolve().parent / host).exists() and not shutil.which(host, path=path):
        raise _Unusable(f"{found} has no {host} beside it, which an installed CLI brings")
    return Path(found)


def _installed(path: str) -> Path:
    root = CACHE / "installed"
    binary = root / "bin" / "pulumi"
    if _usable(binary):
        return binary
    try:
        with urllib.request.urlopen(INSTALLER, timeout=INSTALLER_ANSWER_SECONDS) as answer:
            script = answer.read()
    except OSError as error:
        raise _Unusable(f"no answer ({getattr(error, 'reason', error)})") from error
    root.mkdir(parents=True, exist_ok=True)
    installer = root / "install.sh"
    installer.write_bytes(script)
    command = ["sh", installer, "--version", VERSION.removeprefix("v"), "--install-root", root, "--no-edit-path"]
    run(f"installing Pulumi {VERSION}", command, limit_seconds=INSTALLER_LIMIT_SECONDS, env=_with_path(path))
    if not _usable(binary):
        raise _Unusable(f"it ended well but left no {binary}")
    return binary


def _built(path: str) -> Path:
    binary = CACHE / "bin" / "pulumi"
    executor = binary.with_name("pulumi-language-python-exec")
    if not (executor.exists() and _usable(binary)):
        _build(binary, executor, _with_path(path))
    launcher = binary.with_name("pulumi-language-python")
    if not launcher.exists() or launcher.read_text() != LAUNCHER:
        launcher.write_text(LAUNCHER)
        launcher.chmod(0o755)
    return binary


def _build(binary: Path, executor: Path, env: Mapping[str, str]) -> None:
    go = shutil.which("go", path=env["PATH"])
    if not go:
        raise _Unusable(f"there is no go; {_go_version_wanted()} or newer is needed")
    scratch = CACHE / "go"  # 3 GB; the user's own Go caches in HOME stay as they are
    env = {
        "GOPATH": str(scratch),
        "GOMODCACHE": str(scratch / "modules"),
        "GOCACHE": str(scratch / "build"),
        **env,
        "CGO_ENABLED": "0",
        "GOWORK": "off",
        "GOFLAGS": "-buildvcs=false -modcacherw -mod=readonly",
    }

    def step(title: str, *words: str | Path, lines_are: str = "", limit_seconds: float = BUILD_LIMIT_SECONDS) -> str:
        return run(title, [go, *words], cwd=MODULE, env=env, limit_seconds=limit_seconds, lines_are=lines_are)

    # Fails soon where go is older than go.mod allows, or no module proxy is in reach.
    sdk = "github.com/pulumi/pulumi/sdk/v3"
    step("downloading the SDK's sources", "mod", "download", sdk, limit_seconds=DOWNLOAD_LIMIT_SECONDS)
    # Flags of the vendor's own release build; without the stamp the CLI knows no version.
    stamp = f"-s -w -X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={VERSION}"
    binary.parent.mkdir(parents=True, exist_ok=True)
    fresh = binary.with_suffix(".new")
    step(
        f"building the Pulumi CLI {VERSION} (once, about 4 minutes on 2 cores)",
        *("build", "-v", "-trimpath", "-tags", "osusergo,grpcnotrace", "-ldflags", stamp, "-o", fresh),
        "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        lines_are="modules and packages",
    )
    sources = step("looking up the SDK's sources", "list", "-m", "-f", "{{.Dir}}", sdk).strip()
    shutil.copyfile(Path(sources) / "python" / "cmd" / executor.name, executor)
    fresh.replace(binary)
    run("removing what the build needed", ["rm", "-rf", scratch], limit_seconds=BUILD_LIMIT_SECONDS)


def _with_path(path: str) -> dict[str, str]:
    return {**os.environ, "PATH": path}


def _go_version_wanted() -> str:
    found = re.search(r"^go (\S+)$", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found, "go.mod names its Go version"
    return found.group(1)


if __name__ == "__main__":
    try:
        print(obtain())
    except Unobtainable as failure:
        print(failure, file=sys.stderr)
        sys.exit(2)
