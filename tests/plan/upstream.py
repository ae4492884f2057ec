"""What others know about our values: the charts themselves, helm, promtool, recorded results of the real operator.

Each is optional, so that the pure tests run anywhere; a test that needs one skips and says what is missing. Archives of
the pinned charts are looked for in the folder that the environment variable `SLURM_EKS_CHARTS` names (the same folder
that the setting `charts.folder` takes), helm and promtool on PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from plan.charts import Json, ReleasePlan, Values
from tests.plan.build import ROOT

REFERENCE = ROOT.parent / "shared" / "data"
KUBERNETES = "1.36.0"


def reference(path: str) -> Path:
    """A file of the reference data that lies beside the repository."""
    file = REFERENCE / path
    if not file.exists():
        pytest.skip(f"no reference data: {path} is not beside the repository")
    return file


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on PATH")
    return found


def charts_folder() -> Path:
    folder = os.environ.get("SLURM_EKS_CHARTS")
    if not folder:
        pytest.skip("no charts: SLURM_EKS_CHARTS names no folder of chart archives")
    return Path(folder)


def archive(release: ReleasePlan) -> Path:
    """The archive of a release's chart, wherever the settings take charts from."""
    name = release.chart.rsplit("/", 1)[-1].removesuffix(f"-{release.version}.tgz")
    file = charts_folder() / f"{name}-{release.version}.tgz"
    if not file.exists():
        pytest.skip(f"no chart: {file.name} is not in the folder of chart archives")
    return file


def rendered(release: ReleasePlan, values: Values, folder: Path) -> list[Values]:
    """The objects that helm makes of a chart and our values."""
    helm = tool("helm")
    chart = archive(release)
    file = folder / f"{release.name}.values.json"
    file.write_text(json.dumps(values))
    command = [helm, "template", release.name, str(chart), "--namespace", release.namespace]
    run = subprocess.run(
        [*command, "--kube-version", KUBERNETES, "--values", str(file)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return [document for document in yaml.safe_load_all(run.stdout) if document]


def chart_defaults(release: ReleasePlan) -> Values:
    """values.yaml of a chart, with those of its dependencies below their names."""
    defaults: Values = {}
    with tarfile.open(archive(release)) as tar:
        for member in tar.getmembers():
            parts = member.name.split("/")
            content = tar.extractfile(member)
            if content is None or parts[-1] != "values.yaml":
                continue
            if len(parts) == 2:
                defaults = {**(yaml.safe_load(content) or {}), **defaults}
            elif len(parts) == 4 and parts[1] == "charts":
                parent = defaults.get(parts[2])
                own = yaml.safe_load(content) or {}
                defaults[parts[2]] = {**own, **parent} if isinstance(parent, dict) else own
    return defaults


def unknown_paths(values: Json, defaults: Json, path: str = "") -> list[str]:
    """Paths of values that a chart's values.yaml does not have. What it leaves empty ({}, null) may hold anything, and
    so may a node selector, whose keys are labels."""
    if not isinstance(values, dict) or not defaults or path.endswith(".nodeSelector"):
        return []
    if not isinstance(defaults, dict):
        return [path] if defaults is not None else []
    unknown: list[str] = []
    for key, value in values.items():
        below = f"{path}.{key}"
        unknown += unknown_paths(value, defaults[key], below) if key in defaults else [below]
    return unknown


class _Readable(yaml.SafeDumper):
    """Texts of several lines as blocks, nothing by reference."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def compare_with_golden(name: str, data: Json) -> None:
    """Golden files show in a review what a change does to charts; `UPDATE_GOLDEN=1` writes them anew."""
    file = ROOT / "tests" / "golden" / name
    text = yaml.dump(data, Dumper=_Readable, sort_keys=False, width=120, allow_unicode=True)
    if os.environ.get("UPDATE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert yaml.safe_load(file.read_text()) == yaml.safe_load(text), f"{name} differs: see UPDATE_GOLDEN"
