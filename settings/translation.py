"""Pydantic's errors in our words: path, what was given, why not, what to do.

Owns the wording of what the models refuse, the search for the key that was meant, and the repair: the same settings
with `UNKNOWN` where something could not be read, so that the rules can look at the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from settings.models import Settings
from settings.partial import UNKNOWN
from settings.problems import Problem, is_secret, listed, nearest, shown

Data: TypeAlias = dict[str, Any]  # what a YAML or JSON document holds
Loc: TypeAlias = tuple[str | int, ...]

# In place of a required value that could not be read, until `UNKNOWN` takes that place: by the last part of its path.
_STAND_INS: Final[Mapping[str, object]] = {
    "region": "us-west-2",
    "name": "slurm",
    "login": {"allowed_cidrs": ("192.0.2.1/32",)},
    "allowed_cidrs": ("192.0.2.1/32",),
    "nodesets": {"unknown": {"instance_type": "g6.12xlarge", "nodes": 1}},
    "instance_type": "g6.12xlarge",
    "nodes": 1,
}
_KEY: Final = "[key]"  # pydantic's mark for "the key itself is wrong"


@dataclass(frozen=True, slots=True)
class _Found:
    """Where an error is: the walkable part of its location, the value there, whether that part is the whole of it."""

    loc: Loc
    value: object
    whole: bool


_ABSENT: Final = object()


def _child(node: object, part: str | int) -> object:
    """The entry of an object or a list."""
    if isinstance(node, dict):
        return cast("dict[str | int, object]", node).get(part, _ABSENT)
    if isinstance(node, tuple) and isinstance(part, int):
        return cast("tuple[object, ...]", node)[part]
    return _ABSENT


def _find(data: Data, loc: Loc) -> _Found:
    """The end of a location may be no part of the data: a missing key, `[key]`, the name of a union's branch."""
    node: object = data
    for depth, part in enumerate(loc):
        child = _child(node, part)
        if child is _ABSENT:
            return _Found(loc[:depth], node, False)
        node = child
    return _Found(loc, node, True)


def path_of(loc: Loc) -> str:
    """`login.allowed_cidrs[0]`, as a message names it."""
    if loc == ("region",):
        return "aws:region"
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _is_map(annotation: object) -> bool:
    return get_origin(annotation) is dict or any(get_origin(argument) is dict for argument in get_args(annotation))


def _field(loc: Loc) -> tuple[type[BaseModel] | None, FieldInfo | None]:
    """The model that a location leads into, if any, and the innermost field on the way."""
    model: type[BaseModel] | None = Settings
    field: FieldInfo | None = None
    parts = iter(loc)
    for part in parts:
        found = model.model_fields.get(str(part)) if model else None
        if found is None:
            return model, field
        field = found
        model = next(_models_in(field.annotation), None)
        if _is_map(field.annotation) and next(parts, None) is None:
            return None, field
    return model, field


def _everywhere(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every key of the settings with its path (`nodesets.<name>.zone_id`)."""
    for key, field in model.model_fields.items():
        yield key, f"{prefix}{key}"
        for nested in _models_in(field.annotation):
            yield from _everywhere(nested, f"{prefix}{key}.<name>." if _is_map(field.annotation) else f"{prefix}{key}.")


def _unknown_key(loc: Loc, value: object) -> Problem:
    path, key = path_of(loc), str(loc[-1])
    model, _ = _field(loc[:-1])
    known = tuple(model.model_fields) if model else ()
    near = nearest(key, known)
    elsewhere = [where for name, where in _everywhere(Settings) if name == key]
    meant = f"did you mean {near}? " if near else f"did you mean {listed(elsewhere, 'or')}? " if elsewhere else ""
    return Problem(
        path=path,
        given=shown(value, path),
        why=f"{path_of(loc[:-1]) or 'the settings'} {'has' if loc[:-1] else 'have'} no key {key!r}",
        remedy=f"{meant}the keys are {listed(k for k in known if k != 'region')}",
    )


def _bounds(field: FieldInfo | None) -> tuple[str, str]:
    """What the field says about itself, and its range in words."""
    if field is None:
        return "it is out of range", "give another value"
    low = next((m.ge for m in field.metadata if isinstance(m, Ge)), None)
    high = next((m.le for m in field.metadata if isinstance(m, Le)), None)
    fewest = next((m.min_length for m in field.metadata if isinstance(m, MinLen)), None)
    most = next((m.max_length for m in field.metadata if isinstance(m, MaxLen)), None)
    unit = "" if fewest is None else " entry" if fewest == 1 and most is None else " entries"
    least, greatest = (low, high) if fewest is None else (fewest, most)
    text = f"give {least} or more{unit}" if greatest is None else f"give {least} to {greatest}{unit}"
    return field.description or "it is out of range", text


def _wrong_type(kind: str, found: _Found, path: str) -> tuple[str, str] | None:
    """Why and remedy for a value of another type than the field's."""
    value = found.value
    if kind == "string_type":
        why = "it must be a text"
        if isinstance(value, float):
            return f"{why}, and YAML reads a version such as 1.30 as the number 1.3", 'put it in quotes, like "1.36"'
        return why, f'put it in quotes: "{shown(value, "")}"' if isinstance(value, int) else "give one text"
    if kind.startswith("int_"):
        digits = isinstance(value, str) and value.strip().isdigit()
        return "it must be a whole number", "leave out the quotes" if digits else "give a whole number such as 2"
    if kind == "bool_type":
        return "it must be true or false", "write true or false, without quotes"
    if kind == "tuple_type":
        one = isinstance(value, str) and not is_secret(value, path)
        return "it must be a list", f"write it like [{value}]" if one else "write it like [a, b]"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        model, _ = _field(found.loc)
        keys = f" ({listed(model.model_fields)})" if model else ""
        return "it must be an object", f"write its keys below it, indented{keys}"
    return None


def _problem(data: Data, error: ErrorDetails) -> Problem:
    kind, loc, context = error["type"], error["loc"], error.get("ctx", {})
    found = _find(data, loc)
    if kind == "extra_forbidden":
        return _unknown_key(loc, found.value)
    if kind == "missing":
        _, field = _field(loc)
        why = (field.description if field else None) or "it is needed"
        return Problem(path=path_of(loc), given="nothing", why=why, remedy="give it, it has no default")
    path = path_of(found.loc)
    _, field = _field(found.loc)
    given = shown(found.value, path)
    if _KEY in loc:
        given = f"the name {found.loc[-1]!r}"
    if kind == "shape":
        why, remedy = context["why"], context["remedy"]
    elif kind == "literal_error":
        choices = context["expected"]
        near = nearest(str(found.value), [choice.strip("'") for choice in choices.replace(" or ", ", ").split(", ")])
        why, remedy = (field.description if field else None) or "it is a choice", f"use {choices}"
        remedy = f"did you mean {near}? {remedy}" if near else remedy
    elif not found.whole and _KEY not in loc:
        # A branch of a union, of which slurm.extra_conf has the only one: its branches would contradict each other.
        why = "it must be a text, a whole number or a list of texts"
        remedy = 'put it in quotes, as Slurm spells it (such as "YES")'
    elif kind in ("too_short", "too_long", "greater_than_equal", "less_than_equal"):
        why, remedy = _bounds(field)
    else:
        why, remedy = _wrong_type(kind, found, path) or (error["msg"], "correct it")
    return Problem(path=path, given=given, why=why, remedy=remedy)


def _is_secondary(data: Data, error: ErrorDetails) -> bool:
    """A list whose entries are wrong is also said to be too short, because pydantic counts the good ones."""
    if error["type"] not in ("too_short", "too_long"):
        return False
    found, context = _find(data, error["loc"]), error.get("ctx", {})
    length = len(found.value) if isinstance(found.value, Sized) else 0
    return length != context.get("actual_length")


def translated(data: Data, error: ValidationError) -> list[Problem]:
    """One problem per place, in pydantic's order, which is that of the models."""
    problems: dict[str, Problem] = {}
    for detail in error.errors(include_url=False):
        if not _is_secondary(data, detail):
            problem = _problem(data, detail)
            problems.setdefault(problem.path, problem)
    return list(problems.values())


def _cut(data: Data, place: Loc) -> Loc:
    """Take the value at a place out of the data, or put a stand-in there when it is required; return the place."""
    *above, key = place
    node: object = data
    for part in above:
        node = _child(node, part)
    if not isinstance(node, dict):
        return place  # what is around it went before
    entries = cast("dict[str | int, object]", node)
    model, _ = _field(tuple(above))
    field = model.model_fields.get(str(key)) if model else None
    if field is None or not field.is_required():
        entries.pop(key, None)
    elif str(key) in _STAND_INS:
        entries[key] = _STAND_INS[str(key)]
    else:
        return _cut(data, tuple(above))
    return place


def _place(data: Data, error: ErrorDetails) -> Loc:
    """The innermost object's entry that an error is about: a list is replaced as a whole."""
    node: object = data
    for depth, part in enumerate(error["loc"]):
        child = _child(node, part)
        if not isinstance(node, dict) or (child is _ABSENT and error["type"] != "missing"):
            return error["loc"][:depth]
        node = child
    return error["loc"]


def with_unknowns(data: Data) -> Settings:
    """The settings with `UNKNOWN` wherever a value cannot be read."""
    repaired = cast("Data", _copied(data))
    holes: set[Loc] = set()
    while True:
        try:
            settings = Settings.model_validate(repaired)
        except ValidationError as error:
            places = [_place(repaired, detail) for detail in error.errors(include_url=False)]
            holes |= {_cut(repaired, place) for place in places}
        else:
            break
    for hole in sorted(holes, key=len):
        _put_unknown(settings, hole)
    return settings


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in cast("dict[str, object]", value).items()}
    return value


def _put_unknown(settings: Settings, hole: Loc) -> None:
    """Into the frozen models, past their guard: they are thrown away once the rules have looked at them."""
    *above, key = hole
    node: object = settings
    for part in above:
        node = getattr(node, str(part)) if isinstance(node, BaseModel) else _child(node, part)
        if node is UNKNOWN:
            return  # what is around it is unknown already
    if isinstance(node, dict) and isinstance(key, str):
        cast("dict[str, object]", node)[key] = UNKNOWN
    elif isinstance(node, BaseModel) and str(key) in type(node).model_fields:
        vars(node)[str(key)] = UNKNOWN
