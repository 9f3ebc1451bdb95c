from typing import Any

import pytest

from ragtide_aggregator.online_strategy import OnlineStrategy, online_strategy


def test_what_is_left_out_is_as_in_rapidfire() -> None:
    assert online_strategy(None) == online_strategy({}) == OnlineStrategy("normal", 0.95, use_fpc=True)


def test_all_three_settings_arrive() -> None:
    found = online_strategy({"strategy_name": "hoeffding", "confidence_level": 0.8, "use_fpc": False})
    assert found == OnlineStrategy("hoeffding", 0.8, use_fpc=False)


@pytest.mark.parametrize("key", ["strategy", "online_strategy", "confidence", "fpc", "Strategy_name"])
def test_a_wrong_key_is_refused_and_never_ignored(key: str) -> None:
    with pytest.raises(ValueError, match=f"has '{key}'.*use strategy_name, confidence_level, use_fpc"):
        online_strategy({key: "wilson"})


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"strategy_name": "basic"}, "strategy_name is 'basic'"),
        ({"strategy_name": None}, "strategy_name is None"),
        ({"confidence_level": 95}, "confidence_level is 95"),
        ({"confidence_level": True}, "confidence_level is True"),
        ({"confidence_level": "0.95"}, "confidence_level is '0.95'"),
        ({"use_fpc": "no"}, "use_fpc is 'no'"),
    ],
)
def test_a_wrong_value_is_refused_by_name(kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        online_strategy(kwargs)


@pytest.mark.parametrize("strategy", ["normal", "wilson", "hoeffding"])
def test_the_settings_change_the_intervals(strategy: str) -> None:
    def width(**kwargs: object) -> float:
        seen = online_strategy({"strategy_name": strategy, **kwargs}).intervals(keys=1, population=100)
        seen.update([0] * 50, [1.0, 0.0] * 25)
        ends = seen.intervals()
        return float(ends.upper[0] - ends.lower[0])

    assert width(confidence_level=0.99) > 1.05 * width()
    assert width(use_fpc=False) > 1.2 * width()


def test_a_total_needs_the_number_of_all_items() -> None:
    totals = online_strategy({}).intervals(keys=1, population=200, kind="distributive")
    totals.update([0] * 4, [1.0, 0.0, 1.0, 0.0])
    assert totals.intervals().estimate.tolist() == [100.0]
    with pytest.raises(ValueError, match="use_fpc is False"):
        online_strategy({"use_fpc": False}).intervals(keys=1, population=200, kind="distributive")
