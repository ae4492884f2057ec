"""How the Pulumi CLI is had, on machines that are only a PATH here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import pulumi_cli
from tools.pulumi_cli import VERSION, Unobtainable


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing got earlier, and a vendor's site that does not answer."""
    monkeypatch.setattr(pulumi_cli, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(pulumi_cli, "INSTALLER", "http://127.0.0.1:9/")


def program(directory: Path, name: str, script: str) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def refusal(path: Path | str) -> str:
    with pytest.raises(Unobtainable) as caught:
        pulumi_cli.obtain(str(path))
    return str(caught.value)


def test_without_any_way_the_message_names_each_way_its_reason_and_the_remedy(tmp_path: Path) -> None:
    text = refusal(tmp_path / "empty")
    for words in ("on PATH: there is no pulumi", "installer (http://127.0.0.1:9/): no answer", "there is no go"):
        assert words in text
    assert f"install Pulumi {VERSION} or newer" in text
    assert "or Go 1." in text


def test_a_cli_on_path_is_taken_when_it_is_new_enough_and_has_its_language_host(tmp_path: Path) -> None:
    found = program(tmp_path / "bin", "pulumi", "echo v3.999.0")
    assert "no pulumi-language-python beside it" in refusal(tmp_path / "bin")
    program(tmp_path / "bin", "pulumi-language-python", "")
    assert pulumi_cli.obtain(str(tmp_path / "bin")) == found


def test_versions_are_compared_as_numbers(tmp_path: Path) -> None:
    program(tmp_path / "bin", "pulumi-language-python", "")
    program(tmp_path / "bin", "pulumi", "echo v3.99.0")
    assert "is v3.99.0, older than" in refusal(tmp_path / "bin")
    program(tmp_path / "bin", "pulumi", "echo v10.0.0")
    assert pulumi_cli.obtain(str(tmp_path / "bin"))


def test_a_cli_that_says_no_version_is_not_taken(tmp_path: Path) -> None:
    program(tmp_path / "bin", "pulumi", "exit 1")
    assert "of no version" in refusal(tmp_path / "bin")


def test_go_that_cannot_build_is_quoted(tmp_path: Path) -> None:
    program(tmp_path / "bin", "go", "echo go.mod requires a newer go; exit 1")
    assert "go.mod requires a newer go" in refusal(tmp_path / "bin")


def test_a_build_leaves_the_cli_its_language_host_and_nothing_else_and_is_not_repeated(tmp_path: Path) -> None:
    sdk = tmp_path / "sdk"
    (sdk / "python" / "cmd").mkdir(parents=True)
    (sdk / "python" / "cmd" / "pulumi-language-python-exec").write_text("the SDK's executor")
    program(
        tmp_path / "bin",
        "go",
        f"""PATH=/usr/bin:/bin
        case $1 in
          list) echo {sdk} ;;
          build)
            echo "$CGO_ENABLED $GOMODCACHE" > {tmp_path}/asked
            mkdir -p "$GOMODCACHE"
            while [ "$1" != -o ]; do shift; done
            printf '#!/bin/sh\\necho {VERSION}\\n' > "$2"; chmod +x "$2" ;;
        esac""",
    )
    binary = pulumi_cli.obtain(str(tmp_path / "bin"))
    beside = {file.name for file in binary.parent.iterdir()}
    assert beside == {"pulumi", "pulumi-language-python", "pulumi-language-python-exec"}
    assert [folder.name for folder in pulumi_cli.CACHE.iterdir()] == ["bin"]
    assert (tmp_path / "asked").read_text().split() == ["0", str(tmp_path / "cache" / "go" / "modules")]
    assert pulumi_cli.obtain(str(tmp_path / "no-go-any-more")) == binary


def test_the_go_module_builds_the_version_that_is_asked_of_the_others() -> None:
    required = (pulumi_cli.MODULE / "go.mod").read_text()
    assert f"github.com/pulumi/pulumi/pkg/v3 {VERSION} " in required
    assert f"github.com/pulumi/pulumi/sdk/v3 {VERSION} " in required
