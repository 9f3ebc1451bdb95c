"""Many keys are decoded at once, with the keys and the errors of each by itself."""

import pytest

from ragtide_aggregator.errors import DamagedFieldError
from ragtide_aggregator.events.keys import EstimateKey
from ragtide_aggregator.state.rows import keys_of
from ragtide_runtime.redis.keys import CheckpointField
from ragtide_schemas import Direction, Kind, Measure

OWN = Measure("1", 0.0, 5.0, Direction.LOWER, Kind.ALGEBRAIC)
KEYS = [
    EstimateKey("shop", None, None, "trace.adherence", "ragbench", "local", "1"),
    EstimateKey(
        'a"],["b',
        "run",
        "lang=é\n",
        "own",
        "p",
        "judge",
        "2",
        Measure("1", 0.0, 5.0, Direction.LOWER, Kind("algebraic")),
    ),
    EstimateKey("x,y", None, "[]", "trace.adherence", "ragbench", "local", "1"),
]


def test_many_keys_are_those_of_each_text() -> None:
    assert keys_of(CheckpointField.ESTIMATE, [key.encode() for key in KEYS]) == KEYS
    assert keys_of(CheckpointField.ESTIMATE, []) == []


@pytest.mark.parametrize(
    "text", ["", "[", "null", '["a"]', '["a"],["b"]', f"{KEYS[0].encode()},{KEYS[2].encode()}", "[[]"]
)
def test_of_many_keys_the_damaged_one_is_named(text: str) -> None:
    texts = [KEYS[0].encode(), text, KEYS[1].encode()]
    with pytest.raises(DamagedFieldError) as raised:
        keys_of(CheckpointField.LEVEL, texts)
    assert raised.value.field == f"level:{text}"
