"""Bus bandwidth over message size as a picture, against the fabric's line rate and the floors.

Does not decide what passes: it draws what the results say. matplotlib is loaded at the first picture only, because
nothing else in this room needs it.
"""

# matplotlib's own annotations leave **kwargs open.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

_COLORS: Final = {"all_reduce": "#2563eb", "all_gather": "#d97706"}
_OTHER_COLOR: Final = "#6b7280"
_STYLES: Final = {"out-of-place": "-", "in-place": "--"}
_FLOOR_COLOR: Final = "#dc2626"
_FLOOR_MARK: Final[Mapping[str, Any]] = {"marker": "_", "markersize": 24, "markeredgewidth": 2.5}
_MOST_TICKS: Final = 12


def bandwidth_png(measurements: Sequence[Mapping[str, Any]], *, line_rate: float) -> str:
    """PNG in base64, for an `img`. measurements: of one nodeset, not empty. line_rate: GB/s of a node, 0: not known."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, NullLocator

    figure = Figure(figsize=(10, 5), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for collective, placement in dict.fromkeys((half["collective"], half["placement"]) for half in measurements):
        points = sorted(
            (half["size_bytes"], half["busbw"])
            for half in measurements
            if (half["collective"], half["placement"]) == (collective, placement)
        )
        axes.plot(
            *zip(*points, strict=True),
            color=_COLORS.get(collective, _OTHER_COLOR),
            linestyle=_STYLES[placement],
            marker="o",
            markerfacecolor=None if placement == "out-of-place" else "white",
            markersize=5 if placement == "out-of-place" else 3.5,  # where both are one, both are seen
            linewidth=1.6,
            label=f"{collective}, {placement}",
        )
    if line_rate:
        axes.axhline(line_rate, color="#111827", linewidth=1.2, label=f"line rate of a node, {line_rate:g} GB/s")
    floors: dict[tuple[int, float], set[str]] = {}
    for half in measurements:
        if half["floor"] is not None:
            floors.setdefault((half["size_bytes"], half["floor"]), set()).add(half["collective"])
    for (size, floor), collectives in sorted(floors.items()):
        label = f"floor at {size_text(size)}, {floor:g} GB/s ({', '.join(sorted(collectives))})"
        axes.plot([size], [floor], color=_FLOOR_COLOR, linestyle="none", **_FLOOR_MARK, label=label)
    sizes = sorted({half["size_bytes"] for half in measurements})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes[:: -math.ceil(len(sizes) / _MOST_TICKS)])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    axes.set_ylim(bottom=0, top=1.08 * max([line_rate, *(half["busbw"] for half in measurements)]))
    axes.tick_params(labelsize=9)
    axes.set_xlabel("message size")
    axes.set_ylabel("bus bandwidth, GB/s")
    axes.grid(color="#e5e7eb", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return base64.b64encode(file.getvalue()).decode()


def _tick(size: float, _: int | None) -> str:
    return size_text(round(size))


def size_text(size_bytes: int) -> str:
    """Two digits are enough for a size that a collective rounded down."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor * 0.95:
            return f"{size_bytes / factor:.3g} {unit}"
    return f"{size_bytes} B"
