"""Results as metrics: read back by Prometheus' own parser, and served as the exporter's pod serves them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobs.exporter import metrics
from jobs.metrics import exposition
from judges.verdict import failed
from plan.validation_metrics import plan_validation_metrics
from settings.load import from_stack_file
from tests.jobs.documents import document, mixed, result
from tools.engine import ROOT

Labels = frozenset[tuple[str, str]]


def samples(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for family in text_string_to_metric_families(text):
        assert (family.type, bool(family.documentation)) == ("gauge", True), family.name
        for sample in family.samples:
            series, labels = found.setdefault(sample.name, {}), frozenset(sample.labels.items())
            assert labels not in series, f"{sample.name} twice with {labels}"
            series[labels] = sample.value
    return found


def of(text: str, name: str, **labels: str) -> list[float]:
    series = samples(text).get(f"slurm_validation_{name}", {})
    return [value for found, value in series.items() if labels.items() <= dict(found).items()]


def test_each_check_has_its_status_and_cause_and_no_other_status() -> None:
    text = exposition([mixed()])
    assert of(text, "check_status", nodeset="slinky", check="sanity", status="passed") == [1]
    assert of(text, "check_status", check="nccl-allgather", status="failed", cause="socket-transport") == [1]
    assert len(of(text, "check_status", check="nccl-allgather")) == 1
    assert of(text, "check_duration_seconds", check="sanity") == [125]
    assert of(text, "run_status", suite="full", status="failed") == [1]
    assert of(text, "last_run_timestamp_seconds", suite="full") == [1796120400]  # 2026-12-01T10:20:00Z


def test_bandwidths_are_in_bytes_per_second_by_size_with_the_floor_where_there_is_one() -> None:
    text = exposition([mixed()])
    largest = {"collective": "all_reduce", "bytes": str(1 << 30), "placement": "in-place"}
    assert of(text, "busbw_bytes_per_second", **largest) == [4.11e9]
    assert of(text, "busbw_floor_bytes_per_second", **largest) == [3.5e9]
    assert len(of(text, "busbw_bytes_per_second", collective="all_reduce")) == 22
    assert len(of(text, "busbw_floor_bytes_per_second", collective="all_reduce")) == 2


def test_suites_that_have_the_same_check_do_not_hide_each_other() -> None:
    good, bad = mixed(), document(result("sanity", failed("wrong-sum", "7")), suite="health")
    text = exposition([good, bad])
    assert of(text, "check_status", check="sanity", status="passed", suite="full") == [1]
    assert of(text, "check_status", check="sanity", status="failed", suite="health") == [1]


def test_a_label_with_quotes_and_line_ends_stays_one_label() -> None:
    odd = document(result('say "x"\\\n', failed("c", "r")))
    assert of(exposition([odd]), "check_status", check='say "x"\\\n') == [1]


def test_no_results_are_no_metrics_and_no_error() -> None:
    assert exposition([]) == ""


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool on PATH")
def test_prometheus_own_linter_has_nothing_to_say() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=exposition([mixed()]), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_spoilt_file_is_counted_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "latest-full.json").write_text(json.dumps(mixed()))
    for name, text in {"torn": '{"format": 1', "foreign": "{}", "list": "[]"}.items():
        (tmp_path / f"latest-{name}.json").write_text(text)
    (tmp_path / "latest-gone.json").symlink_to("nowhere.json")
    (tmp_path / "20261201-full.json").write_text(json.dumps(document(suite="old")))
    text = metrics(tmp_path)
    assert of(text, "unreadable_results") == [4]
    assert of(text, "run_status", suite="full") == [1]
    assert of(text, "run_status", suite="old") == []


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(address, folder of results) of the pod's own command on the pod's own files."""
    plan = plan_validation_metrics(from_stack_file(ROOT / "Pulumi.dev.yaml", "dev"))
    assert plan is not None
    pod: Any = json.loads(json.dumps(plan.pod))
    (container,), (files, _) = pod["containers"], pod["volumes"]
    for item in files["configMap"]["items"]:
        target = tmp_path / "mounted" / item["path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(plan.files[item["key"]])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = {"python3": sys.executable, f"--port={plan.port}": f"--port={port}", "/shared/validation": str(tmp_path)}
    command = [here.get(str(part), str(part)) for part in container["command"]]
    assert set(here.values()) <= set(command)
    process = subprocess.Popen(command, cwd=tmp_path / "mounted", env={"PATH": os.environ["PATH"]})
    yield f"http://127.0.0.1:{port}", tmp_path
    process.kill()
    process.wait()


def _get(address: str) -> str:
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"{address}/metrics", timeout=5) as answer:
                assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                return answer.read().decode()
        except urllib.error.URLError as not_yet:
            if not isinstance(not_yet.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise AssertionError("the exporter does not answer")


def test_the_exporters_pod_serves_what_the_folder_holds_at_each_scrape(served: tuple[str, Path]) -> None:
    address, folder = served
    assert of(_get(address), "unreadable_results") == [0]
    assert of(_get(address), "run_status") == []
    (folder / "latest-full.json").write_text(json.dumps(mixed()))
    assert of(_get(address), "run_status", suite="full", status="failed") == [1]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"{address}/etc/passwd", timeout=5)
