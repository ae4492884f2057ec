"""From `Pulumi.<stack>.yaml`, or from Pulumi's own configuration, to `Settings`: or to all problems at once.

Owns the ways in. `from_stack_file` needs no engine (plan, review, tests), `from_config` is the program's; both give the
same settings for the same file. Does not own reading the YAML (`settings/stack_file.py`), wording
(`settings/translation.py`) nor rules (`settings/rules.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from pydantic import ValidationError

from facts.names import PROJECT
from settings.models import Settings
from settings.problems import Problem, SettingsError
from settings.rules import findings, findings_of_partial
from settings.stack_file import read_stack_file
from settings.translation import Data, path_of, translated, with_unknowns

SECTIONS: Final = tuple(key for key in Settings.model_fields if key != "region")


def parse(mapping: Mapping[str, object], *, root: Path = Path()) -> Settings:
    """Settings from plain data: `region`, `name` and the sections. root: what `charts.folder` is relative to.

    Raises: SettingsError with every problem of types, shapes and rules.
    """
    data = cast("Data", _frozen({"nodesets": {}, "login": {}, **mapping}))
    problems: list[Problem] = []
    try:
        settings = Settings.model_validate(data)
    except ValidationError as error:
        problems = translated(data, error)
        settings = with_unknowns(data)
    found = findings_of_partial(settings, root) if problems else findings(settings, root)
    problems += [problem for problem in found if problem.fatal]
    if problems:
        raise SettingsError(sorted(problems, key=_section))
    return settings


def from_stack_file(path: Path, stack: str) -> Settings:
    """Settings of `Pulumi.<stack>.yaml`. Raises: SettingsError."""
    region, own = read_stack_file(path)
    return _parse(own, region, stack, _secure(own), path.parent)


def from_config(
    get: Callable[[str], object],
    region: str | None,
    stack: str,
    *,
    keys: Iterable[str] = (),
    secret_keys: Iterable[str] = (),
    root: Path = Path(),
) -> Settings:
    """Settings from `pulumi.Config(...).get` (JSON texts) or `.get_object`.

    keys, secret_keys: all keys of the stack's configuration and the secret ones among them, with their namespaces, as
    the engine hands them over; without them unknown and secret sections pass unseen. Raises: SettingsError.
    """
    prefix = f"{PROJECT}:"
    given = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    own = {key: _of_json(key, get(key)) for key in (*SECTIONS, *given)}
    secret = [key.removeprefix(prefix) for key in secret_keys if key.startswith(prefix)]
    return _parse(own, region, stack, [_of_secret(key) for key in secret], root)


def _parse(
    own: Mapping[str, object], region: object, stack: str, problems: Collection[Problem], root: Path
) -> Settings:
    """An empty section is none, and so is an empty name: the CLI makes "" of `slurm-eks:network:` without a value, and
    the project file has to declare a default for the name."""
    present = {key: value for key, value in own.items() if key not in SECTIONS or value not in (None, "")}
    mapping = {"name": f"slurm-{stack}", **present} | ({} if region is None else {"region": region})
    try:
        settings = parse(mapping, root=root)
    except SettingsError as error:
        covered = {problem.path for problem in problems}
        others = [problem for problem in error.problems if problem.path not in covered]
        if "name" not in present:
            others = [_of_derived_name(problem) if problem.path == "name" else problem for problem in others]
        raise SettingsError([*problems, *others]) from None
    if problems:
        raise SettingsError(list(problems))
    return settings


def _of_derived_name(problem: Problem) -> Problem:
    return replace(problem, remedy=f"set {PROJECT}:name, whose default is made of the stack's name ({problem.remedy})")


def _section(problem: Problem) -> int:
    """Problems in the order of the settings' sections, whoever found them."""
    section = problem.path.partition(".")[0].partition("[")[0]
    order = ("aws:region", *SECTIONS)
    return order.index(section) if section in order else len(order)


def _frozen(value: object) -> object:
    """Lists become tuples: strict models take nothing else, and nothing can change them."""
    if isinstance(value, dict):
        return {key: _frozen(item) for key, item in cast("dict[object, object]", value).items()}
    if isinstance(value, list):
        return tuple(_frozen(item) for item in cast("list[object]", value))
    return value


def _of_json(key: str, value: object) -> object:
    """Pulumi hands over objects as JSON texts; only the name is a text in its own right."""
    if not isinstance(value, str) or value == "" or key == "name":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value  # a text where an object belongs: the models say so


def _secure(value: object, loc: tuple[str | int, ...] = ()) -> list[Problem]:
    """The values that are encrypted (`secure: ...`), wherever they are."""
    if isinstance(value, list):
        items = enumerate(cast("list[object]", value))
        return [problem for index, item in items for problem in _secure(item, (*loc, index))]
    if not isinstance(value, dict):
        return []
    entries = cast("dict[str, object]", value)
    if set(entries) == {"secure"} and loc:
        return [_of_secret(path_of(loc))]
    return [problem for key, item in entries.items() for problem in _secure(item, (*loc, str(key)))]


def _of_secret(path: str) -> Problem:
    return Problem(
        path=path,
        given="an encrypted value",
        why="no setting is a secret, and a plan of encrypted settings could be reviewed by nobody",
        remedy="write it in plain text; keys and passwords of the cluster are made by the program itself",
    )
