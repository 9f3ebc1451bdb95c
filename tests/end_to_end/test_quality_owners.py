"""At no time do two aggregators have the series of one partition, also when an owner is paused and goes on."""

import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.end_to_end.test_observability import Role
from tests.support.conditions import wait_until
from tests.support.metric_events import adherence
from tests.support.roles import STREAMS, kill, start, wait_for_aggregation

from ragtide_runtime.redis.keys import DATA_FIELD

SERVED = {"RAGTIDE_HTTP_PORT": "0", "RAGTIDE_PROMETHEUS_INTERVAL_S": "0.1"}


def n(role: Role) -> float | None:
    """Return the number of values of adherence over all time in the series; None without the series."""
    found = [
        value
        for (name, *labels), value in role.scrape().items()
        if name == "ragtide_estimate_n" and {"trace.adherence", "all"} <= set(labels)
    ]
    return found[0] if found else None


def shows(role: Role, total: int) -> bool:
    return n(role) == total


@pytest.mark.heavy
def test_an_owner_that_was_paused_has_no_series_from_its_first_scrape_on(
    redis: Any, redis_url: str, tmp_path: Path
) -> None:
    for one in adherence([0.5] * 20):
        redis.xadd(STREAMS.metrics, {DATA_FIELD: one.encode()})
    processes, roles = [], []
    try:
        for name in ("a", "b"):
            processes.append(start("aggregator", redis_url, tmp_path / name, SERVED))
            roles.append(Role(tmp_path / name))
            wait_until(lambda: n(roles[0]) == 20)
        wait_for_aggregation(redis)
        owner, total = 0, 20
        with ThreadPoolExecutor(1) as scraper:
            for _ in range(3):
                other = 1 - owner
                assert (n(roles[owner]), n(roles[other])) == (total, None)
                processes[owner].send_signal(signal.SIGSTOP)
                redis.xadd(STREAMS.metrics, {DATA_FIELD: adherence([0.5], first=total)[0].encode()})
                total += 1
                wait_until(partial(shows, roles[other], total))
                # The kernel accepts the request; the process answers it as soon as it goes on.
                late = scraper.submit(n, roles[owner])
                processes[owner].send_signal(signal.SIGCONT)
                assert late.result(60) is None, "it showed the numbers of a partition that another process owns"
                owner = other
    finally:
        for process in processes:
            process.send_signal(signal.SIGCONT)
            kill(process)
