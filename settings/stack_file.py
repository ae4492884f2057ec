"""Reads `Pulumi.<stack>.yaml` as the Pulumi CLI reads it, without the CLI.

The CLI (Go, yaml.v3) knows YAML 1.2's plain values: `24:00:00`, `yes` and `on` are texts. PyYAML's loader follows YAML
1.1 and makes 86400 and True of them. So this loader has resolvers of its own, and what it gives was compared with
`pulumi config --json` of CLI 3.274.1 (tests/settings/test_load.py holds the table). Refused are a key given twice (by
the CLI too) and an unquoted date, of which the CLI would make "2026-01-02 00:00:00 +0000 UTC".
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from facts.names import PROJECT
from settings.problems import Problem, SettingsError


class _Loader(yaml.SafeLoader):
    """SafeLoader with the plain values of Go's yaml.v3."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 (replaces the class's own)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                problem = f"the key {key.value!r} stands there twice, and one of the two would be lost"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _integer(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = node.value.replace("_", "").lower()
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits[:2] in ("0b", "0o", "0x"):
        return sign * int(digits, 0)
    return sign * int(digits, 8 if digits.startswith("0") else 10)


def _number(_: yaml.SafeLoader, node: yaml.ScalarNode) -> int | float:
    """2.0 becomes 2, as it does on its way through the CLI's JSON."""
    value = float(node.value.replace("_", ""))
    return int(value) if value.is_integer() else value


def _date(_: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    problem = f"{node.value} is read as a date without quotes, and the CLI makes another text of it: put it in quotes"
    raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_INTEGER = r"[-+]?(0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)"
_FLOAT = r"[-+]?(\.[0-9_]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?"
for _tag, _pattern, _first_characters in (
    ("bool", r"true|True|TRUE|false|False|FALSE", [*"tTfF"]),
    ("null", r"~|null|Null|NULL|", [*"~nN", ""]),
    ("int", _INTEGER, [*"-+0123456789"]),
    ("float", _FLOAT, [*"-+.0123456789"]),
    ("timestamp", r"\d{4}-\d\d?-\d\d?([Tt ].*)?", [*"0123456789"]),
):
    _Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType] (PyYAML has no types)
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})\\Z"), _first_characters
    )
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _date)


def read_yaml(text: str) -> object:
    return yaml.load(text, Loader=_Loader)


def read_stack_file(path: Path) -> tuple[object, dict[str, object]]:
    """`aws:region` and the settings below `slurm-eks:`, by their keys. Other namespaces are other programs' business.

    Raises: SettingsError when there is no such file, or no YAML in it, or a key without a namespace.
    """
    here = path.name
    if not path.is_file():
        problem = Problem(
            path=here,
            given="no file",
            why="a stack's settings stand there",
            remedy="run make from the project's folder",
        )
        raise SettingsError([problem])
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise SettingsError([_of_yaml(here, error)]) from None
    config = cast("Mapping[str, object]", document).get("config") if isinstance(document, dict) else None
    if not isinstance(config, dict):
        why = f"settings stand below `config:`, with keys like {PROJECT}:nodesets"
        raise SettingsError([Problem(path=here, given="no config", why=why, remedy="add it")])
    entries = cast("dict[object, object]", config)
    bare = [str(key) for key in entries if ":" not in str(key)]
    if bare:
        why = "a key without a namespace is no Pulumi configuration"
        raise SettingsError(
            [Problem(path=f"config.{key}", given="a key", why=why, remedy=f"write {PROJECT}:{key}") for key in bare]
        )
    prefix = f"{PROJECT}:"
    own = {str(key).removeprefix(prefix): value for key, value in entries.items() if str(key).startswith(prefix)}
    return entries.get("aws:region"), own


def _of_yaml(here: str, error: yaml.YAMLError) -> Problem:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    problem = (error.problem if isinstance(error, yaml.MarkedYAMLError) else None) or "it cannot be parsed"
    where = f"{here}:{mark.line + 1}" if mark else here
    return Problem(path=where, given="no valid YAML", why=problem, remedy="correct that line")
