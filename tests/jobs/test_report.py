"""The HTML page: complete, self-contained, safe, and honest about what is missing."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from matplotlib.figure import Figure

from jobs import report
from jobs.picture import bandwidth_png, size_text
from jobs.report import NotResults, page, read_results
from judges.sanity import judge_sanity
from tests.jobs.documents import benchmark, document, mixed, nodeset_of, result
from tests.judges.logs import H100, L4, Nodes, sanity


def _text(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def _pictures(html: str) -> list[bytes]:
    return [base64.b64decode(found) for found in re.findall(r'src="data:image/png;base64,([^"]+)"', html)]


def _drawn(monkeypatch: pytest.MonkeyPatch, nodeset: Nodes, network_gbps: float, *, peak: float) -> Figure:
    """The figure behind the page's picture."""
    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))[1])
    facts = nodeset_of(nodeset, network_gbps=network_gbps)
    page(document(benchmark("all_reduce", nodeset, peak=peak, nodeset=facts), nodeset=facts))
    (figure,) = drawn
    return figure


def test_every_check_is_there_with_its_reason_evidence_remedy_and_job() -> None:
    text = _text(page(mixed()))
    for word in (
        *("sanity", "nccl-allreduce", "nccl-allgather", "isolation", "finetune"),
        "2 passed, 2 failed, 1 skipped",
        "NCCL uses sockets, not EFA, on 8 of 8 ranks",
        "line 17: NCCL INFO Using network Socket",
        "Remedy: see that NCCL_NET and NCCL_NET_PLUGIN are not forced",
        "job 7 (nccl-allreduce, COMPLETED) on slinky-[0-1]",
        "5e5e5e5e5e5e",
        "torch 2.9.0",
    ):
        assert word in text, word


def test_the_page_needs_no_other_file_and_no_network() -> None:
    html = page(mixed())
    assert _pictures(html)
    assert re.findall(r'(?:src|href)="(?!data:)[^"]*"|url\(|@import|<script', html) == []


def test_what_a_log_says_cannot_become_markup() -> None:
    html = page(mixed())
    assert "no &lt;GPU&gt; &amp; none" in html
    assert "<GPU>" not in html


def test_the_curve_is_drawn_over_sizes_on_a_log_axis_against_line_rate_and_floor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (axes,) = _drawn(monkeypatch, L4, 40.0, peak=4.11).axes
    lines = {str(line.get_label()): line for line in axes.lines}
    assert set(lines) == {
        "all_reduce, out-of-place",
        "all_reduce, in-place",
        "line rate of a node, 5 GB/s",
        "floor at 1 GiB, 3.5 GB/s (all_reduce)",
    }
    curve = numpy.asarray(lines["all_reduce, in-place"].get_xydata()).tolist()
    assert (len(curve), curve[-1]) == (11, [1 << 30, 4.11])
    assert numpy.asarray(lines["line rate of a node, 5 GB/s"].get_ydata()).tolist() == [5, 5]
    assert axes.get_xscale() == "log"


def test_a_curve_above_the_line_rate_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = _drawn(monkeypatch, H100, 3200.0, peak=437).axes
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 437


def test_one_node_has_no_line_rate_and_unknown_hardware_no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = _drawn(monkeypatch, Nodes(nodes=1), 40.0, peak=10).axes
    assert {str(line.get_label()) for line in axes.lines} == {"all_reduce, out-of-place", "all_reduce, in-place"}
    facts = nodeset_of(Nodes(nodes=1))
    html = page(document(benchmark("all_reduce", Nodes(nodes=1), nodeset=facts), nodeset=facts))
    assert "There is no reference for this hardware" in _text(html)


def test_results_without_a_benchmark_say_so_and_load_no_drawing_library(tmp_path: Path) -> None:
    file = tmp_path / "quick.json"
    file.write_text(json.dumps(document(result("sanity", judge_sanity(sanity(), nodeset=L4)), suite="quick")))
    program = "import sys; from jobs import report; print(report.main(), 'matplotlib' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True, cwd=Path.cwd()
    )
    assert done.stdout.split() == [str(file.with_suffix(".html")), "0", "False"]
    html = file.with_suffix(".html").read_text()
    assert "No benchmark of slinky in these results" in _text(html)
    assert _pictures(html) == []


def test_a_run_that_was_cut_short_still_makes_a_page() -> None:
    empty = {**document(), "finished": "", "nodesets": []}
    text = _text(page(empty))
    assert "nothing was checked" in text
    assert "(not finished)" in text
    assert "name no nodeset" in text


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99, "checks": []}'])
def test_a_file_that_is_no_results_is_refused_with_its_name(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(NotResults, match=r"x\.json.*give a file of /shared/validation"):
        read_results(tmp_path / "x.json")


def test_the_command_writes_where_it_is_told_and_ends_with_2_for_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "full.json").write_text(json.dumps(mixed()))
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path / "full.json"), "--out", str(tmp_path / "o.html")])
    assert report.main() == 0
    assert (tmp_path / "o.html").read_text().startswith("<!doctype html>")
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path / "none.json")])
    assert report.main() == report.EXIT_UNUSABLE


def test_the_picture_is_a_png_and_many_sizes_do_not_crowd_its_axis(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))[1])
    half = {"collective": "alltoall", "placement": "in-place", "floor": None}
    many = [{**half, "size_bytes": 8 << power, "busbw": 1.0 + power} for power in range(32)]
    assert base64.b64decode(bandwidth_png(many, line_rate=50)).startswith(b"\x89PNG")
    (axes,) = drawn[0].axes
    assert len(axes.get_xticks()) <= 12
    assert max(axes.get_xticks()) == 8 << 31


def test_sizes_are_written_as_people_say_them() -> None:
    assert [size_text(size) for size in (8, 1 << 20, (1 << 30) - 64, 16 << 30)] == ["8 B", "1 MiB", "1 GiB", "16 GiB"]
