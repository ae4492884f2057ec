"""The fine-tune."""

from __future__ import annotations

import re

import pytest

from judges.finetune import judge_finetune
from tests.judges.logs import ADAPTER, L4, finetune, transport

WALKTHROUGH = f"""\
world_size 8
{{'loss': 1.98,       'mean_token_accuracy': 0.5764, 'epoch': 0.64}}
{{'train_loss': 1.798, 'mean_token_accuracy': 0.6144, 'epoch': 1}}
Done. LoRA adapters saved to /shared/lora-out
{ADAPTER}
"""


def _verdict(log: str, world: int = 8) -> tuple[str, str]:
    verdict = judge_finetune(log, world_size=world, nodeset=L4)
    return verdict.status, verdict.cause


def test_a_whole_run_passes_and_so_do_the_walkthroughs_own_lines() -> None:
    assert _verdict(finetune()) == ("passed", "ok")
    assert _verdict(WALKTHROUGH) == ("passed", "ok")


def test_numbers_printed_as_texts_are_numbers() -> None:
    assert _verdict(re.sub(r": (\d\.\d+)", r": '\1'", finetune())) == ("passed", "ok")


@pytest.mark.parametrize(
    ("place", "replacement", "cause"),
    [
        (r"'loss': 1\.46,", "'loss': nan,", "loss-not-finite"),
        (r"'loss': 1\.46,", "'loss': 9.9,", "loss-not-falling"),
        (r"'train_loss': 1\.798", "'train_loss': 2.4", "loss-not-falling"),
        (r"'train_loss': 1\.798", "'train_loss': inf", "loss-not-finite"),
        (r"'mean_token_accuracy': 0\.614", "'mean_token_accuracy': 0.2", "accuracy-not-rising"),
        (r"(?m)^steps 16 of 16$", "steps 9 of 16", "too-few-steps"),
        (r"(?m)^world_size 8$", "world_size 4", "wrong-world-size"),
        (r"(?m)^world_size 8\n", "", "world-size-not-shown"),
        (r"(?m)^Done\..*\n", "", "not-finished"),
        (r"(?m)^\{.*train_loss.*\n", "", "not-finished"),
        (r"(?m)^adapter .*\n", "", "adapter-not-shown"),
        (r"47218432 bytes", "1024 bytes", "adapter-size"),
        (r"288 of them LoRA", "0 of them LoRA", "adapter-content"),
        (r"431 s after", "-86400 s after", "adapter-stale"),
        (
            r"(?m)^Done",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\nDone",
            "cuda-out-of-memory",
        ),
        (r"(?m)^Done", "slurmstepd: error: Detected 1 oom_kill event in StepId=44.batch.\nDone", "oom-kill"),
        (r"(?m)^Done", "Traceback (most recent call last):\nDone", "crashed"),
    ],
)
def test_one_spoilt_place_fails_the_run_by_its_name(place: str, replacement: str, cause: str) -> None:
    spoilt, count = re.subn(place, replacement, finetune())
    assert count, "nothing was spoilt"
    assert _verdict(spoilt) == ("failed", cause)


def test_without_a_count_of_steps_a_whole_epoch_is_needed_and_without_losses_nothing_was_learned() -> None:
    assert _verdict(re.sub(r"(?m)^steps.*\n", "", finetune())) == ("passed", "ok")
    assert (
        _verdict(re.sub(r"(?m)^steps.*\n", "", finetune()).replace("'epoch': 1.0}", "'epoch': 0.4}"))[1]
        == "too-few-steps"
    )
    assert _verdict(re.sub(r"(?m)^\{'loss'.*\n", "", finetune())) == ("failed", "no-losses")
    assert judge_finetune("", world_size=8).status == "error"


def test_training_over_sockets_fails_where_the_log_shows_it() -> None:
    assert _verdict(transport() + finetune()) == ("passed", "ok")
    assert (
        _verdict(transport().replace("network AWS Libfabric", "network Socket") + finetune())[1] == "socket-transport"
    )


def test_a_dictionary_in_the_log_is_read_and_never_run() -> None:
    assert _verdict(finetune() + "{'loss': __import__('os').system('false')}\n") == ("passed", "ok")


def test_a_download_that_failed_is_named() -> None:
    log = "OSError: We couldn't connect to 'https://huggingface.co' to load the files\n"
    assert _verdict(log + "srun: error: slinky-0: task 0: Exited with exit code 1\n") == ("failed", "download-failed")
