"""The confusion table: counts what samples say against what the judges say, and hides no disagreement."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.confusion import confusion, said
from tests.judges.logs import L4, nccl
from tests.judges.test_samples import SAMPLES

_HEADER = "#@ source: ours | verdict: {} | why: made up\n"
_JOBS = "JobID|JobName|State|ExitCode|NodeList\n1|x|COMPLETED|0:0|slinky-0\n1.0|x|COMPLETED|0:0|slinky-0\n"


@pytest.mark.parametrize(
    ("verdict", "statuses"),
    [
        ("PASS (transport=efa on 8/8 ranks)", ["passed"]),
        ("FAIL (node down; remedy: state=resume)", ["failed"]),
        ("FAIL x3 (each line)", ["failed"] * 3),
        ("PER JOB: 41 PASS; 42,43 FAIL(TIMEOUT); 47 PASS-PENDING (epilog)", ["passed", "failed", "failed", "passed"]),
        ("PER JOB: 46 NOT-FINISHED", ["error"]),
        ("unclear", []),
    ],
)
def test_a_samples_first_line_is_read_as_its_author_meant_it(verdict: str, statuses: list[str]) -> None:
    assert said(_HEADER.format(verdict).strip()) == statuses


def test_agreement_and_disagreement_are_counted_and_the_latter_named(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text(_HEADER.format("PASS") + nccl())
    (tmp_path / "slow.txt").write_text(_HEADER.format("PASS") + nccl(peak=2.0))
    (tmp_path / "jobs.txt").write_text(_HEADER.format("PER JOB: 1 PASS; 2 FAIL") + _JOBS)
    (tmp_path / "readme.txt").write_text("no sample\n")
    found = confusion(tmp_path, L4)
    assert dict(found.counts) == {("passed", "passed"): 2, ("passed", "failed"): 1}
    assert "2 of 3 as their samples say" in found.text()
    assert [line.partition(":")[0] for line in found.wrong] == ["jobs.txt", "slow.txt"]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES}")
def test_the_judges_agree_with_every_sample() -> None:
    found = confusion(SAMPLES, L4)
    assert found.wrong == [], found.text()
    assert found.counts.total() >= 40
