"""Rules between the rooms, read off the source itself."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pulumi
import pytest

from tools.recording import ROOT

PURE = ("facts", "settings", "plan", "jobs", "judges")
PRODUCT = (*PURE, "components")
MAY_KNOW: dict[str, set[str]] = {
    "facts": set(),
    "settings": {"facts"},
    "plan": {"facts", "settings", "jobs"},
    "components": {"facts", "plan"},
    "jobs": {"judges", "plan", "settings"},
    "judges": set(),
    "localcloud": set(),
    "policies": set(),
}
ROOMS = (*MAY_KNOW, "tools", "tests")
MAIN = ROOT / "__main__.py"
PROVIDERS = {"aws", "eks", "kubernetes", "docker", "random", "tls", "pulumi"}
HELPERS = {"control_plane", "endpoints", "release"}  # of components/_*.py: they make resources too
MAIN_LINES = 100
COMPONENT_LINES = 150

COMPONENT_TOKENS = {
    "AccountingDatabase": "slurm-eks:index:AccountingDatabase",
    "Cluster": "slurm-eks:index:Cluster",
    "EfaNodeGroup": "slurm-eks:index:EfaNodeGroup",
    "Foundation": "slurm-eks:index:Foundation",
    "JobValidation": "slurm-eks:index:JobValidation",
    "LoginEndpoint": "slurm-eks:index:LoginEndpoint",
    "Network": "slurm-eks:index:Network",
    "Observability": "slurm-eks:index:Observability",
    "SharedStorage": "slurm-eks:index:SharedStorage",
    "SlurmCluster": "slurm-eks:index:SlurmCluster",
    "SlurmOperator": "slurm-eks:index:SlurmOperator",
    "SlurmdImage": "slurm-eks:index:SlurmdImage",
    "ValidationMetrics": "slurm-eks:index:ValidationMetrics",
}


def sources(*rooms: str) -> list[Path]:
    return sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(), filename=str(path))))


@cache
def imports(path: Path) -> frozenset[str]:
    """Full names of what a module imports, those inside functions included."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def rooms_of(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imports(path)}


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def names_of(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def component_classes() -> Iterator[type[pulumi.ComponentResource]]:
    for path in sources("components"):
        module = importlib.import_module(f"components.{path.stem}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, pulumi.ComponentResource) and kind.__module__ == module.__name__:
                yield kind


def test_decisions_are_made_without_pulumi() -> None:
    guilty = [path for path in sources(*PURE) if any(room.startswith("pulumi") for room in rooms_of(path))]
    assert names_of(guilty) == []


@pytest.mark.parametrize("room", MAY_KNOW)
def test_a_room_knows_only_the_rooms_below_it(room: str) -> None:
    for path in sources(room):
        assert rooms_of(path) & {*ROOMS} <= {room, *MAY_KNOW[room]}, path


def test_the_program_knows_no_stand_in_and_no_tool() -> None:
    assert rooms_of(MAIN) & {*ROOMS} <= {"components", "plan", "settings"}


def test_every_package_beside_the_program_is_a_room_with_rules() -> None:
    packages = {path.name for path in ROOT.iterdir() if any(path.glob("*.py"))}
    assert packages <= {*ROOMS}


def test_no_component_knows_another() -> None:
    for path in sources("components"):
        others = {name.split(".")[1] for name in imports(path) if name.startswith("components.")}
        assert {name for name in others if not name.startswith("_")} == set(), path


@pytest.mark.parametrize(
    "call", ["pulumi.export", "pulumi.Config", "pulumi.runtime.get_config_env", "pulumi.get_stack"]
)
def test_only_the_program_reads_configuration_and_exports(call: str) -> None:
    users = [
        path
        for path in sources(*PRODUCT)
        if call in imports(path) or any(isinstance(n, ast.Attribute) and dotted(n) == call for n in nodes(path))
    ]
    assert names_of(users) == []
    assert call in MAIN.read_text()


def test_a_component_is_short_enough_to_be_read_in_one_look() -> None:
    lengths = {path.name: len(path.read_text().splitlines()) for path in sources("components")}
    assert {name: length for name, length in lengths.items() if length > COMPONENT_LINES} == {}


def test_the_program_fits_on_two_pages_and_decides_nothing() -> None:
    source = MAIN.read_text()
    assert len(source.splitlines()) <= MAIN_LINES
    assert "get_stack() ==" not in source


def test_no_resource_is_made_inside_an_apply_because_a_preview_could_not_show_it() -> None:
    for path in [*sources("components"), MAIN]:
        functions = {n.name: n for n in nodes(path) if isinstance(n, ast.FunctionDef)}
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "apply":
                for argument in node.args:
                    body = functions.get(argument.id) if isinstance(argument, ast.Name) else argument
                    for inner in ast.walk(body) if body else ():
                        made = dotted(inner.func) if isinstance(inner, ast.Call) else ""
                        assert made.split(".")[0] not in PROVIDERS and made not in HELPERS, f"{path}: {made}"


def test_every_component_is_listed_with_its_token_which_is_its_public_name() -> None:
    assert {kind.__name__: _token(kind) for kind in component_classes()} == COMPONENT_TOKENS


def _token(kind: type[pulumi.ComponentResource]) -> str:
    """The first argument of `super().__init__`, with the prefix put in."""
    for node in ast.walk(ast.parse(inspect.getsource(kind))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super().__init__":
            return f"slurm-eks:index{ast.literal_eval(ast.unparse(node.args[0].values[-1]))}"  # type: ignore[attr-defined]
    return ""


def test_arguments_of_components_are_frozen_and_named() -> None:
    for kind in component_classes():
        args = getattr(importlib.import_module(kind.__module__), f"{kind.__name__}Args")
        assert dataclasses.is_dataclass(args), args
        assert vars(args)["__dataclass_params__"].frozen and "__slots__" in vars(args), args
        assert all(field.kw_only for field in dataclasses.fields(args)), args
        assert list(inspect.signature(kind.__init__).parameters) == ["self", "name", "args", "opts"]


def test_a_components_own_options_reach_itself_and_none_of_its_children() -> None:
    for kind in component_classes():
        (init,) = (
            node
            for node in ast.walk(ast.parse(inspect.getsource(kind)))
            if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        )
        used = [n for n in ast.walk(init) if isinstance(n, ast.Name) and n.id == "opts"]
        assert len(used) == 1, f"{kind.__name__}: passed on, they would move its children to the caller's parent"


@pytest.mark.parametrize("room", [*ROOMS, MAIN.name])
def test_no_text_stands_alone_where_half_a_message_would_be_lost(room: str) -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    alone: list[str] = []
    for path in [MAIN] if room == MAIN.name else sources(room):
        docstrings = {id(n.body[0]) for n in nodes(path) if isinstance(n, documented) and n.body}
        of_fields = {id(item) for n in nodes(path) if isinstance(n, ast.ClassDef) for item in n.body}
        alone += [
            f"{path}:{n.lineno}"
            for n in nodes(path)
            if isinstance(n, ast.Expr)
            and isinstance(n.value, ast.Constant | ast.JoinedStr)
            and not (isinstance(n.value, ast.Constant) and n.value.value is ...)
            and id(n) not in docstrings | of_fields
        ]
    assert alone == []
