"""`python -m tools.readme`: writes the README's tables of settings, outputs, costs and checks from the code that they
describe.

Owns: what stands between `<!-- name -->` and `<!-- /name -->`. Does not own any other word of the README. A test runs
`rendered` and compares, so a table cannot say what the program does not.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from jobs.checks import SUITES, Check, checks
from plan import make_plan
from plan.costs import plan_costs
from plan.outputs import outputs_table
from settings.load import from_stack_file
from settings.models import Settings

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"


def settings_table() -> str:
    rows = [f"| `{path}` | {default} | {text} |" for path, default, text in _fields(Settings, "")]
    return "\n".join(["| setting | default | meaning |", "|---|---|---|", *rows])


def costs_table() -> str:
    lines = ["| item | dev | prod |", "|---|---:|---:|"]
    costs = [plan_costs(make_plan(from_stack_file(ROOT / f"Pulumi.{stack}.yaml", stack))) for stack in ("dev", "prod")]
    for name in dict.fromkeys(item.name for cost in costs for item in cost.items):
        cells = [next((_dollars(i.count, i.usd_per_hour) for i in c.items if i.name == name), "") for c in costs]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, f"| **total** | {' | '.join(f'**{c.total_usd_per_hour:,.2f}**' for c in costs)} |"])


def checks_table() -> str:
    rows = [
        f"| `{check.name}` | {check.proves} | {_runs(check)} | "
        f"{', '.join(suite for suite, names in SUITES.items() if check.name in names)} | {check.seen} |"
        for check in checks(backend="nccl")
    ]
    return "\n".join(["| check | proves | runs | suites | has run on |", "|---|---|---|---|---|", *rows])


def _runs(check: Check) -> str:
    return ", ".join(f"`{script}.sbatch`" for script in check.scripts) or ", ".join(
        f"`{command.split()[0]}`" for command in (check.commands or {}).values()
    )


def _dollars(count: int, amount: float | None) -> str:
    return f"{count} x, no price" if amount is None else f"{count} x, {amount:,.2f}"


def _fields(model: type[BaseModel], path: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        inner, is_map = _section(field.annotation)
        here = f"{path}{name}"
        if path or inner is None:
            yield (here.replace("region", "aws:region") if not path else here), _default(field), field.description or ""
        if inner is not None:
            yield from _fields(inner, f"{here}.{'<name>.' if is_map else ''}")


def _section(annotation: Any) -> tuple[type[BaseModel] | None, bool]:
    """The section behind a field's type, through `| None` and `dict[..., Section]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, False
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return next((found for a in arguments if (found := _section(a))[0]), (None, False))
    if origin is dict and isinstance(arguments[1], type) and issubclass(arguments[1], BaseModel):
        return arguments[1], True
    return None, False


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    if field.is_required() or default is PydanticUndefined:
        return "required"
    if default is None or isinstance(default, BaseModel):
        return ""
    if isinstance(default, bool):
        return "`on`" if default else "`off`"
    return f"`{default}`" if default not in ((), {}, "") else "none"


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "outputs": outputs_table,
    "costs": costs_table,
    "checks": checks_table,
}


def rendered(text: str) -> str:
    for name, table in TABLES.items():
        block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        if not block.search(text):
            raise ValueError(f"README.md: no place for the table of {name}; write <!-- {name} --> and <!-- /{name} -->")
        text = block.sub(lambda found, table=table: f"{found[1]}{table()}\n{found[2]}", text)
    return text


if __name__ == "__main__":
    README.write_text(rendered(README.read_text()))
