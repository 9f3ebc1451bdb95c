"""The number of processes of a worker by default, and the limits of an endpoint that they share."""

from typing import Any

import pytest

from ragtide_roles.worker_processes import PROCESS_BYTES, process_count
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

JUDGE: dict[str, Any] = {"labeler": "judge", "judge": {"model": "m"}}


@pytest.mark.parametrize(
    ("given", "processors", "memory", "expected"),
    [
        ({}, 8, None, 8),
        ({}, 1, None, 1),
        ({}, 0, None, 0),
        ({}, 8, 3 * PROCESS_BYTES, 3),
        ({}, 8, 1, 1),
        ({}, 0, 1, 0),
        ({"labeler": "cascade", "judge": {"model": "m"}}, 8, None, 8),
        ({"labeler": "cascade", "judge": {"model": "m", "max_in_flight": 3}}, 8, None, 3),
        (JUDGE, 8, None, 1),
        ({**JUDGE, "judge": {"model": "m", "max_in_flight": 200}}, 8, None, 4),
        ({**JUDGE, "judge": {"model": "m", "max_in_flight": 200}}, 2, None, 2),
        ({"labeler": "my_package:labeler"}, 8, None, 1),
        ({"labeler": "my_package:labeler"}, 0, None, 0),
        ({"worker_processes": 5}, 1, 1, 5),
        ({"worker_processes": 0}, 8, None, 0),
    ],
)
def test_processors_memory_and_labeler_decide_unless_a_number_is_given(
    given: dict[str, Any], processors: int, memory: int | None, expected: int
) -> None:
    assert process_count(Settings(**given), processors, memory) == expected


def test_more_processes_than_calls_are_a_mistake() -> None:
    settings = Settings(**JUDGE, worker_processes=65)
    with pytest.raises(ConfigurationError, match=r"judge.max_in_flight is 64"):
        process_count(settings, 8, None)
    assert process_count(Settings(worker_processes=65), 8, None) == 65


@pytest.mark.parametrize("processes", [1, 2, 3, 5, 7])
def test_the_limits_of_all_processes_together_are_those_of_the_settings(processes: int) -> None:
    judge = {"model": "m", "max_in_flight": 7, "requests_per_minute": 100, "tokens_per_minute": 1000}
    service = {"url": "http://nli", "max_in_flight": 9, "requests_per_minute": 50}
    settings = Settings(**{**JUDGE, "judge": judge}, services={"nli": service})
    shares = [settings.of_process(number, processes) for number in range(processes)]
    assert sum(share.judge.max_in_flight for share in shares) == 7
    assert sum(share.judge.requests_per_minute or 0.0 for share in shares) == pytest.approx(100)
    assert sum(share.judge.tokens_per_minute or 0.0 for share in shares) == pytest.approx(1000)
    assert sum(share.services["nli"].max_in_flight for share in shares) == 9
    assert sum(share.services["nli"].requests_per_minute or 0.0 for share in shares) == pytest.approx(50)
    assert all(share.judge.max_in_flight >= 1 for share in shares)
    unlimited = Settings(**JUDGE).of_process(0, processes).judge
    assert unlimited.requests_per_minute is None
    assert unlimited.tokens_per_minute is None
