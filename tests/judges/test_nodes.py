"""Node states from sinfo, scontrol and slurmd's log."""

from __future__ import annotations

import pytest

from judges.nodes import judge_nodes, judge_sinfo, judge_slurmd_log

GRES = "gpu:nvidia_l4:4"
NAMES = ("slinky-0", "slinky-1")
HEADER = "NODELIST STATE CPUS(A/I/O/T) GRES\n"


def _sinfo(*rows: str) -> tuple[str, str]:
    verdict = judge_sinfo(HEADER + "\n".join(rows) + "\n", gres=GRES, names=NAMES)
    return verdict.status, verdict.cause


def _row(name: str, state: str = "idle", gres: str = GRES) -> str:
    return f"{name} {state} 0/48/0/48 {gres}"


@pytest.mark.parametrize("state", ["idle", "mix", "alloc", "comp", "plnd", "idle-", "mix-"])
def test_a_node_in_use_or_free_is_usable(state: str) -> None:
    assert _sinfo(_row("slinky-0", state), _row("slinky-1")) == ("passed", "ok")


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ("idle*", "not-responding"),
        ("alloc*", "not-responding"),
        ("idle~", "not-available"),
        ("mix$", "not-available"),
        ("down", "node-down"),
        ("down*", "not-responding"),
        ("drain", "node-drain"),
        ("drng", "node-drng"),
        ("inval", "invalid-reg"),
        ("unk", "node-unk"),
        ("maint", "node-maint"),
        ("futr", "node-futr"),
    ],
)
def test_one_bad_node_is_not_hidden_by_a_good_one(state: str, cause: str) -> None:
    assert _sinfo(_row("slinky-0"), _row("slinky-1", state)) == ("failed", cause)


@pytest.mark.parametrize(
    ("gres", "cause"),
    [
        ("(null)", "gres-null"),
        ("gpu:nvidia_l4:2", "gres-differs"),
        ("gpu:l4:4", "gres-differs"),
        ("gpu:4", "gres-differs"),
    ],
)
def test_a_node_without_its_full_gres_fails(gres: str, cause: str) -> None:
    assert _sinfo(_row("slinky-0"), _row("slinky-1", gres=gres)) == ("failed", cause)


@pytest.mark.parametrize("gres", [f"{GRES}(S:0)", f"{GRES}(S:0-1)", f"efa:1,{GRES}(S:0,1)"])
def test_socket_suffixes_and_other_gres_beside_it_do_not_matter(gres: str) -> None:
    assert _sinfo(_row("slinky-0", gres=gres), _row("slinky-1")) == ("passed", "ok")


def test_a_node_that_never_registered_is_missing() -> None:
    assert _sinfo(_row("slinky-0")) == ("failed", "node-missing")


def test_a_row_per_partition_counts_once_and_a_foreign_node_not_at_all() -> None:
    assert _sinfo(_row("slinky-0"), _row("slinky-0"), _row("slinky-1"), _row("old-7", "down")) == ("passed", "ok")


def test_an_empty_answer_or_an_error_is_no_pass() -> None:
    assert judge_sinfo("", gres=GRES).status == "error"
    assert judge_sinfo(HEADER, gres=GRES).status == "error"
    assert (
        judge_sinfo("slurm_load_partitions: error: Unable to contact slurm controller\n", gres=GRES).status == "error"
    )


def _scontrol(state: str, reason: str = "", gres: str = GRES) -> tuple[str, str]:
    why = f" Reason={reason} [slurm@2026-08-14T09:41:10]" if reason else ""
    text = f"NodeName=slinky-0 Arch=x86_64 Gres={gres} NodeAddr=10.0.64.21 State={state} ThreadsPerCore=2{why}\n"
    verdict = judge_nodes(text, gres=GRES)
    assert verdict.status == "passed" or verdict.remedy
    return verdict.status, verdict.cause


@pytest.mark.parametrize(
    ("state", "reason", "cause"),
    [
        ("DOWN+DYNAMIC_NORM", "slurm-operator: Pod is terminating", "down-after-restart"),
        ("DOWN+DYNAMIC_NORM", "kernel panic", "node-down"),
        ("DOWN*+DYNAMIC_NORM", "Not responding", "not-responding"),
        ("IDLE+NOT_RESPONDING", "", "not-responding"),
        ("DOWN+DRAIN+DYNAMIC_NORM+NOT_RESPONDING", "slurm-operator: Pod is terminating", "wedged-drain"),
        ("IDLE+DRAIN+DYNAMIC_NORM", "health:fabric: 1.28 < 3.5", "drained"),
        ("MIXED+DRAIN", "slurm-operator: cordoned", "drained"),
        ("IDLE+DRAIN+INVALID_REG", "gres/gpu count reported lower than configured (2 < 4)", "invalid-reg"),
        ("IDLE+POWERED_DOWN", "", "not-available"),
        ("IDLE+MAINTENANCE", "", "not-available"),
    ],
)
def test_a_state_names_its_cause(state: str, reason: str, cause: str) -> None:
    assert _scontrol(state, reason) == ("failed", cause)


@pytest.mark.parametrize(
    "state", ["IDLE", "MIXED+DYNAMIC_NORM", "ALLOCATED+CLOUD", "IDLE+COMPLETING+DYNAMIC_NORM", "MIXED+PLANNED"]
)
def test_a_usable_state_passes(state: str) -> None:
    assert _scontrol(state) == ("passed", "ok")


def test_the_configured_gres_beside_a_bad_registration_does_not_help_and_a_missing_one_fails() -> None:
    assert _scontrol("IDLE+INVALID_REG", "gres/gpu count reported lower than configured (0 < 4)")[1] == "invalid-reg"
    assert _scontrol("IDLE", gres="(null)") == ("failed", "gres-null")


def test_a_state_that_no_rule_knows_is_no_pass() -> None:
    assert _scontrol("FUTURE")[0] == "failed"
    assert judge_nodes("").status == "error"
    assert judge_nodes("NodeName=slinky-0 Arch=x86_64\n").status == "error"


def test_the_reason_of_a_drained_node_says_whether_it_was_us() -> None:
    ours = judge_nodes("NodeName=slinky-0 State=IDLE+DRAIN Reason=health:efa: -61 [root@2026-08-14T09:41:10]\n")
    assert "by a health check of ours" in ours.reason
    theirs = judge_nodes("NodeName=slinky-0 State=IDLE+DRAIN Reason=fan broken [root@2026-08-14T09:41:10]\n")
    assert "ours" not in theirs.reason


IGNORED = """\
[2026-01-12T16:24:01] warning: The following autodetected GPUs are being ignored:
[2026-01-12T16:24:01]     GRES[gpu] Type:nvidia_l4 Count:1 Cores(48):0-23  Links:(null) Flags:HAS_FILE File:/dev/nvidia0
"""
DISCARDED = """\
[2026-01-12T16:24:01] error: Discarding the following config-only GPU due to lack of File specification:
[2026-01-12T16:24:01] error:     GRES[gpu] Type:h100 Count:1 Cores(48):(null)  Links:(null) Flags:HAS_TYPE File:(null)
"""


def test_slurmds_log_tells_a_foreign_gres_type_from_a_missing_one() -> None:
    assert judge_slurmd_log(IGNORED).cause == "gpus-ignored"
    verdict = judge_slurmd_log(DISCARDED + IGNORED)
    assert verdict.cause == "gres-type-mismatch"
    assert "'h100' is configured, 'nvidia_l4' is there" in verdict.reason


def test_a_node_that_scontrol_does_not_show_is_missing() -> None:
    text = "NodeName=slinky-0 Gres=gpu:nvidia_l4:4 State=IDLE\n"
    assert judge_nodes(text, gres=GRES, names=NAMES).cause == "node-missing"
    assert judge_nodes(text, gres=GRES).status == "passed"


def test_slurmds_log_passes_only_with_a_sign_of_life() -> None:
    assert judge_slurmd_log("[2026-12-01T21:34:33.426] slurmd version 26.05.2 started\n").status == "passed"
    assert judge_slurmd_log("").status == "error"
    assert judge_slurmd_log("hello\n").status == "error"
    started = "[2026-12-01T21:34:33.426] slurmd version 26.05.2 started\n"
    short = "error: Setting node slinky-0 state to INVAL: gres/gpu count reported lower than configured (2 < 4)\n"
    assert judge_slurmd_log(started + short).cause == "invalid-reg"
