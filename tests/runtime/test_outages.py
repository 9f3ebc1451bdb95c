"""One line at the begin of an outage and one at its end; one line a minute for what may come with every interaction."""

from typing import Any

import structlog
from redis import AuthenticationError

from ragtide_runtime.telemetry.log_limit import LogLimit
from ragtide_runtime.telemetry.outages import AFTERSHOCK_S, FORGOTTEN_S, Outage, redis_outage


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_outage_is_two_lines_whatever_fails_and_however_often() -> None:
    clock = Clock()
    outage = Outage("Redis", clock=clock)
    reading, writing = outage.attempt("reading"), outage.attempt("writing")
    with structlog.testing.capture_logs() as logs:
        reading.succeeded()
        for _ in range(50):
            clock.now += 0.5
            reading.failed(ConnectionError("refused"), partition=3)
            writing.failed(ConnectionError("refused"))
        assert len(logs) == 1
        reading.succeeded()
        assert len(logs) == 1
        clock.now += 1.5
        writing.succeeded()
    begun, ended = logs
    assert begun["event"].startswith("Redis failed: retrying")
    assert (begun["doing"], begun["error"], begun["partition"]) == ("reading", "refused", 3)
    assert ended["event"] == "Redis answers again"
    assert (ended["lasted_s"], ended["failed_attempts"]) == (26.0, 100)


def test_a_wrong_setting_is_named_once_in_an_outage_that_began_otherwise() -> None:
    outage = Outage("Redis", clock=Clock())
    with structlog.testing.capture_logs() as logs:
        outage.failed("reading", ConnectionError("closed"))
        for _ in range(9):
            outage.failed("writing", AuthenticationError("WRONGPASS invalid username-password pair"))
            outage.failed("reading", AuthenticationError("WRONGPASS invalid username-password pair"))
        outage.succeeded("reading")
        outage.succeeded("writing")
    assert [line["event"].partition(":")[0] for line in logs] == ["Redis failed"] * 2 + ["Redis answers again"]
    assert "correct RAGTIDE_REDIS_PASSWORD" in logs[1]["error"]


def test_a_loop_that_never_succeeds_keeps_others_from_flapping() -> None:
    clock = Clock()
    outage = Outage("Redis", clock=clock)
    reading, writing = outage.attempt("reading"), outage.attempt("writing")
    with structlog.testing.capture_logs() as logs:
        for _ in range(100):
            clock.now += 1
            writing.failed(RuntimeError("OOM command not allowed"))
            reading.succeeded()
    assert len(logs) == 1


def test_a_loop_that_ended_while_it_failed_does_not_hold_the_outage_open() -> None:
    clock = Clock()
    outage = Outage("Redis", clock=clock)
    with structlog.testing.capture_logs() as logs:
        outage.attempt("gone").failed(RuntimeError("x"))
        outage.attempt("reading").failed(RuntimeError("x"))
        outage.attempt("reading").succeeded()
        assert len(logs) == 1
        clock.now += FORGOTTEN_S
        outage.attempt("reading").succeeded()
        assert len(logs) == 2
        clock.now += AFTERSHOCK_S
        outage.attempt("reading").failed(RuntimeError("the next one"))
    assert [line["event"].partition(":")[0] for line in logs] == ["Redis failed", "Redis answers again", "Redis failed"]


def test_all_that_use_one_client_share_its_outage() -> None:
    class Client:
        pass

    one, other = Client(), Client()
    assert redis_outage(one) is redis_outage(one)
    assert redis_outage(one) is not redis_outage(other)


def test_of_each_kind_one_line_a_minute_is_logged_with_how_many_were_not() -> None:
    clock, said = Clock(), list[dict[str, Any]]()

    class Log:
        def warning(self, event: str, **fields: Any) -> None:
            said.append({"event": event, **fields})

    log_limit = LogLimit(every_s=60, clock=clock)
    for number in range(180):
        log_limit.warning(Log(), "invalid", "refused", number=number)
        clock.now += 1
    log_limit.warning(Log(), "too_large", "refused", number=0)
    assert said == [
        {"event": "refused", "number": 0},
        {"event": "refused", "number": 60, "not_logged_before": 59},
        {"event": "refused", "number": 120, "not_logged_before": 59},
        {"event": "refused", "number": 0},
    ]


def test_a_dead_connection_right_after_an_outage_is_no_new_outage_unless_it_lasts() -> None:
    clock = Clock()
    outage = Outage("Redis", clock=clock)
    reading, writing = outage.attempt("reading"), outage.attempt("writing")
    with structlog.testing.capture_logs() as logs:
        reading.failed(RuntimeError("x"))
        reading.succeeded()
        clock.now += 0.5
        writing.failed(RuntimeError("closed"))
        writing.succeeded()
        assert len(logs) == 2
        for _ in range(10):
            clock.now += 1
            writing.failed(RuntimeError("refused"))
        assert len(logs) == 3
        writing.succeeded()
    assert [log["event"].split(":")[0] for log in logs] == ["Redis failed", "Redis answers again"] * 2
    assert logs[3]["failed_attempts"] == 10
