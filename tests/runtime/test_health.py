from ragtide_runtime.telemetry.health import SILENT_S, ConditionCheck, Health, Heartbeat


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_loop_that_is_silent_while_redis_answers_is_stuck() -> None:
    clock = Clock()
    health, heartbeat = Health(clock=clock), Heartbeat("loop", clock=clock)
    health.redis_answered()
    with health.reporting("worker", heartbeat):
        heartbeat.beat("turning")
        clock.now += SILENT_S - 1
        assert health.alive().ok
        clock.now += 2
        assert not health.alive().ok
        assert health.alive().as_dict()["missing"] == ["loop: no heartbeat for 61 s, last: turning"]
        heartbeat.beat("turning")
        assert health.alive().ok


def test_an_outage_of_redis_makes_nothing_look_stuck_even_just_after_it() -> None:
    clock = Clock()
    health, heartbeat = Health(clock=clock), Heartbeat("loop", clock=clock)
    health.redis_answered()
    with health.reporting("worker", heartbeat):
        heartbeat.beat("turning")
        health.redis_failed("gone")
        clock.now += 10 * SILENT_S
        assert health.alive().ok
        assert health.ready().as_dict()["missing"] == ["redis: does not answer: gone"]
        health.redis_answered()
        assert health.alive().ok
        clock.now += SILENT_S
        assert not health.alive().ok


def test_a_loop_that_waits_for_work_may_wait_as_long_as_it_takes() -> None:
    clock = Clock()
    health, heartbeat = Health(clock=clock), Heartbeat("loop", clock=clock)
    health.redis_answered()
    with health.reporting("worker", heartbeat):
        with heartbeat.idle("waiting for work"):
            clock.now += 10 * SILENT_S
            assert health.alive().ok
            assert health.ready().ok
        assert health.alive().ok


def test_a_loop_that_fails_and_tries_again_is_alive_and_not_ready() -> None:
    health, heartbeat = Health(), Heartbeat("loop")
    health.redis_answered()
    with health.reporting("worker", heartbeat):
        heartbeat.failed("the group is gone")
        assert health.alive().ok
        assert health.ready().as_dict()["missing"] == ["loop: the group is gone"]


def test_a_role_that_has_not_started_or_has_stopped_is_not_ready() -> None:
    health, heartbeat = Health("worker", "aggregator"), Heartbeat("loop")
    health.redis_answered()
    heartbeat.beat("turning")
    with health.reporting("worker", heartbeat):
        assert health.ready().as_dict()["missing"] == ["aggregator: not running yet, or stopping"]
        with health.reporting("aggregator", ConditionCheck("reading", lambda: True, "stopped")):
            assert health.ready().ok
        with health.reporting("aggregator", ConditionCheck("reading", lambda: False, "stopped")):
            assert health.ready().as_dict()["missing"] == ["reading: stopped"]
    assert not health.ready().ok
    assert health.alive().ok


def test_a_loop_that_has_not_turned_yet_is_not_ready() -> None:
    assert Heartbeat("loop").ready().detail == "starting"
    assert not Heartbeat("loop").ready().ok
