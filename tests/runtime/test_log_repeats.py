"""Lines that repeat are limited, whoever writes them, and counted."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from ragtide_runtime.telemetry import log_limit
from ragtide_runtime.telemetry.logs import REPEATS, configure_logging

pytestmark = pytest.mark.pure


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def lines(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_ten_lines_of_a_kind_pass_in_a_minute_and_the_others_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(log_limit.LogLimit.__init__, "__kwdefaults__", {"most": 1, "clock": lambda: now[0]})
    configure_logging("info")
    log = structlog.get_logger("test")
    for number in range(1000):
        log.warning("no file is left", number=number)
    log.warning("another line")
    assert [line["event"] for line in lines(capsys.readouterr().err)] == ["no file is left"] * REPEATS + [
        "another line"
    ]
    now[0] = 61.0
    log.info("a later line")
    counted, later = lines(capsys.readouterr().err)
    assert (counted["line"], counted["times"]) == ("no file is left", 1000 - REPEATS)
    assert later["event"] == "a later line"
    log.warning("no file is left")
    assert [line["event"] for line in lines(capsys.readouterr().err)] == ["no file is left"]


def test_lines_of_libraries_are_limited_whatever_numbers_they_hold(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("info")
    for number in range(1000):
        logging.getLogger("asyncio").error(
            "socket.accept() out of system resource\nsocket: fd=%d at 0x%x", number, number
        )
    assert len(lines(capsys.readouterr().err)) == REPEATS


def test_other_partitions_are_other_kinds_and_debug_lines_are_not_limited(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("debug")
    log = structlog.get_logger("test")
    for partition in range(64):
        log.info("aggregating a partition", partition=partition)
    for number in range(64):
        log.debug("labeled", number=number)
    assert len(lines(capsys.readouterr().err)) == 128
