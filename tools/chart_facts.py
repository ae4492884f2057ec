"""Reads Helm charts and writes what the local cloud must know of them: which values each accepts, which CRDs it brings.

    python tools/chart_facts.py --out localcloud/chart_facts FOLDER_OF_CHARTS

FOLDER_OF_CHARTS holds chart archives (`helm pull`) or unpacked charts, with their subcharts in `charts/`. A version
bump is one run of this command. Only names are written down: no default, no comment, no text of the chart.

A value is known when it stands in values.yaml or when a template reads it. How deep a known value may be filled:
`*` anything, `{}` any map, `[]` a list, `bool` a bool, `.` no map, `=key` as that key of the top. A map that a template
hands on whole (toYaml) is `{}`. The key `*` stands for every key.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import tarfile
import tempfile
from pathlib import Path
from typing import TypeAlias

import yaml

Tree: TypeAlias = "str | dict[str, Tree]"

DEPTH = 7
# Maps that every chart copies into a Kubernetes object as they are, whatever it sets in them by default.
OPEN = re.compile(
    r"(resources|nodeSelector|tolerations|affinity|podSpec|metadata|topologySpreadConstraints"
    r"|\w*[sS]ecurityContext|\w*[aA]nnotations|\w*[lL]abels|\w*Probe|\w*ConfigMap|\w*Selector|.*\..*)$"
)
# What no pattern sees. The slurm chart passes whole containers on, and maps of its own into CRDs: those hold what the
# CRD has and no more, because the API server drops the rest without a word.
CLOSED = ("slurm",)
CONTAINERS = ("slurmctld", "reconfigure", "logfile", "slurmrestd", "slurmdbd", "login", "initconf", "slurmd")
BY_HAND: dict[str, dict[str, Tree]] = {
    "slurm": {
        **{f"**.{name}": "{}" for name in CONTAINERS},
        "**.configMap": "{}",
        "**.image": "*",
        "**.service": {"metadata": "{}", "spec": "{}", "port": ".", "nodePort": "."},
        "**.secretRef": {"name": ".", "key": "."},
        "**.configMapRef": {"name": ".", "key": "."},
        "**.scheduledUpdate": {"startTime": ".", "duration": ".", "flags": "*"},
        "**.updateStrategy.rollingUpdate": {"maxUnavailable": "."},
        "**.strategy": {"type": ".", "rollingUpdate": "{}"},
        "partitions": {"*": {"enabled": "bool", "nodesets": "[]", "config": "*", "configMap": "{}"}},
        "nodesets": {"*": "=nodesetDefaults"},
        "loginsets": {"*": "=loginsetDefaults"},
    }
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("localcloud/chart_facts"))
    given = parser.parse_args()
    for path in sorted(given.folder.iterdir()):
        with tempfile.TemporaryDirectory() as scratch:
            chart = _unpacked(path, Path(scratch))
            if chart is None:
                continue
            facts = chart_facts(chart)
            (given.out / f"{facts['chart']}.json").write_text(_pretty(facts) + "\n")
            print(f"{facts['chart']} {facts['version']}")


def chart_facts(chart: Path) -> dict[str, object]:
    """Everything the local cloud wants to know of one unpacked chart."""
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    values = _tree(chart)
    _by_hand(values, BY_HAND.get(about["name"], {}))
    return {
        "chart": about["name"],
        "version": about["version"],
        "appVersion": str(about.get("appVersion", "")),
        "kubeVersion": about.get("kubeVersion", ""),
        "read": datetime.date.today().isoformat(),
        "source": about.get("sources", [about.get("home", "")])[0],
        "crds": _crds(chart),
        "values": values,
    }


def _unpacked(path: Path, scratch: Path) -> Path | None:
    if path.suffix == ".tgz":
        with tarfile.open(path) as archive:
            archive.extractall(scratch, filter="data")
        path = next(scratch.iterdir())
    return path if (path / "Chart.yaml").is_file() else None


def _defaults(chart: Path) -> dict[str, object]:
    return yaml.safe_load((chart / "values.yaml").read_text()) or {}


def _subcharts(chart: Path) -> list[tuple[str, str, Path]]:
    """(name in values, condition, folder) of each subchart that is there."""
    found: list[tuple[str, str, Path]] = []
    for dependency in yaml.safe_load((chart / "Chart.yaml").read_text()).get("dependencies", []):
        folder = chart / "charts" / dependency["name"]
        if folder.is_dir():
            found.append((dependency.get("alias", dependency["name"]), dependency.get("condition", ""), folder))
    return found


def _tree(chart: Path) -> dict[str, Tree]:
    tree = {str(key): _of_default(str(key), value, 1) for key, value in _defaults(chart).items()}
    for path, whole in _read_by_templates(chart):
        _add(tree, path, whole and chart.name not in CLOSED)
    for name, condition, folder in _subcharts(chart):
        tree[name] = _merged(_tree(folder), tree.get(name, {}))
        for path in filter(None, condition.split(",")):
            _add(tree, path.split("."), False)
    tree["global"] = "{}"
    return tree


def _of_default(key: str, value: object, depth: int) -> Tree:
    if isinstance(value, dict):
        if not value or depth >= DEPTH or OPEN.fullmatch(key):
            return "{}"
        return {str(k): _of_default(str(k), v, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return "[]"
    return "bool" if isinstance(value, bool) else "*" if value in (None, "") else "."


def _read_by_templates(chart: Path) -> list[tuple[list[str], bool]]:
    """(path, handed on whole?) of each value that a template names."""
    found: list[tuple[list[str], bool]] = []
    for file in sorted((chart / "templates").rglob("*.*")):
        text = file.read_text() if file.is_file() else ""
        for path in re.findall(r"toYaml \(?\$?\.Values\.([\w.]+)", text):
            found.append((path.split("."), True))
        for path in re.findall(
            r"with \$?\.Values\.([\w.]+) -?\}\}\s*(?:[\w-]+:\s*)?\{\{-? *(?:tpl \()?toYaml \. ?[|)}]", text
        ):
            found.append((path.split("."), True))
        for path in re.findall(r"\.Values\.([A-Za-z][\w.]*\w)", text):
            found.append((path.split("."), False))
        for key in re.findall(r'index \$?\.Values "([^"]+)"', text):
            found.append(([key], False))
    return found


def _add(tree: dict[str, Tree], path: list[str], whole: bool) -> None:
    """Record one path that a template reads; `whole` also opens what stands below it."""
    for depth, key in enumerate(path[:-1], 1):
        below = tree.setdefault(key, {})
        if not isinstance(below, dict):
            if below == "*":
                tree[key] = "{}"
            return
        if depth >= DEPTH:
            tree[key] = "{}"
            return
        tree = below
    last = tree.setdefault(path[-1], "*")
    if whole and isinstance(last, dict):
        tree[path[-1]] = "{}"


def _merged(below: Tree, above: Tree) -> Tree:
    """A subchart's values with what its parent chart adds to them."""
    if isinstance(below, dict) and isinstance(above, dict):
        return {k: _merged(below.get(k, above.get(k, {})), above.get(k, below.get(k, {}))) for k in below | above}
    return below if isinstance(below, dict) or above in ("*", ".") else above


def _by_hand(tree: dict[str, Tree], rules: dict[str, Tree], path: str = "") -> None:
    for key, below in tree.items():
        here = f"{path}.{key}"
        for pattern, replacement in rules.items():
            if here.endswith(pattern.removeprefix("**")) if pattern.startswith("**") else here == f".{pattern}":
                tree[key] = below = replacement
        if isinstance(below, dict):
            _by_hand(below, rules, here)


def _crds(chart: Path) -> list[dict[str, object]]:
    """The CRDs of a chart, those alike together: whether uninstalling leaves them, and the switch that brings them."""
    alike: dict[str, tuple[dict[str, object], dict[str, str]]] = {}
    for file in [*sorted((chart / "crds").rglob("*.yaml")), *sorted((chart / "templates").rglob("*.yaml"))]:
        for text in re.split(r"^---$", file.read_text(), flags=re.MULTILINE):
            names = re.search(r"^  names:\n((?:    .*\n)+)", text, re.MULTILINE)
            if not re.search(r"^kind: CustomResourceDefinition$", text, re.MULTILINE) or not names:
                continue
            switches = re.findall(r"\.Values\.([\w.]+)", text.split("kind: CustomResourceDefinition")[0])
            facts: dict[str, object] = {
                "group": _field(text, "  group"),
                "versions": re.findall(r"^ {2,6}(?:- )?name: (v\d\w*)$", text, re.MULTILINE),
                "kept": "crds" in file.parts[len(chart.parts) :] or "helm.sh/resource-policy: keep" in text,
                "when": {path: _default(chart, path) for path in switches},
            }
            kinds = alike.setdefault(json.dumps(facts), (facts, {}))[1]
            kinds[_field(names.group(1), "    kind")] = _field(text, "  scope")
    found: list[dict[str, object]] = [{**facts, "kinds": kinds} for facts, kinds in alike.values()]
    for _, condition, folder in _subcharts(chart):
        when = {path: _default(chart, path) for path in condition.split(",")[:1] if path}
        found += [{**crd, "when": when} for crd in _crds(folder)]
    return found


def _default(chart: Path, path: str) -> bool:
    value: object = _defaults(chart)
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return bool(value)


def _field(text: str, key: str) -> str:
    found = re.search(rf"^{key}: *['\"]?([\w.-]+)", text, re.MULTILINE)
    if not found:
        raise ValueError(f"a CRD without {key.strip()}")
    return found.group(1)


def _pretty(value: object, indent: str = "") -> str:
    """JSON in which everything that fits stands on one line."""
    line = json.dumps(value, sort_keys=True)
    if len(line) + len(indent) <= 118 or not isinstance(value, (dict, list)):
        return line
    deeper = indent + " "
    if isinstance(value, list):
        rows = [_pretty(item, deeper) for item in value]
        return f"[\n{deeper}" + f",\n{deeper}".join(rows) + f"\n{indent}]"
    rows = [f"{json.dumps(key)}: {_pretty(value[key], deeper)}" for key in sorted(value)]
    return f"{{\n{deeper}" + f",\n{deeper}".join(rows) + f"\n{indent}}}"


if __name__ == "__main__":
    main()
