"""An unknown name is answered with the name that was probably meant; foreign names take little time."""

import random
import time
from pathlib import Path

import pytest
from tests.support.cases import for_each

from ragtide_schemas.suggestions import closest, suggestion, unknown

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "runtime", "producers", "consumers", "aggregator", "roles", "offline", "web", "ragtide")


@for_each(
    "name, meant",
    [
        ("shp", "shop"),
        ("shopp", "shop"),
        ("sohp", "shop"),
        ("SHOP", "shop"),
        ("Shop-DE", "shop-de"),
        ("zzz", None),
        ("", None),
        ("s" * 300, None),
    ],
)
def test_a_typing_mistake_is_found(name: str, meant: str | None) -> None:
    assert closest(name, ["shop", "search", "shop-de", "x" * 300]) == meant


def test_a_name_is_found_among_very_many() -> None:
    names = [f"pipeline-{number:05}" for number in range(20_000)]
    assert closest("pipelin-14077", names) == "pipeline-14077"


def test_a_sequence_keeps_its_order_and_a_set_is_sorted() -> None:
    assert suggestion("x", ("time", "random")) == ". There are: time, random"
    assert suggestion("x", {"time", "random"}) == ". There are: random, time"
    assert unknown("pipeline", "x", ()) == "there is no pipeline 'x'. There are none yet"
    assert unknown("pipeline", "x", map(str, range(100))).endswith("and 88 more")


def test_a_sentence_about_a_huge_name_is_short() -> None:
    assert len(unknown("pipeline", "x" * 10_000_000, ["shop"])) < 200


def test_the_time_grows_as_the_number_of_names() -> None:
    """Names of two letters in all orders are the worst for the comparison, which takes a bounded number of them."""
    drawn = random.Random(0)
    names = ["".join(drawn.choices("ab", k=150)) for _ in range(20_000)]
    began = time.process_time()
    closest("ab" * 75, names)
    assert time.process_time() - began < 20  # it is far below a second; all letters of all names take minutes


def test_all_suggestions_come_from_one_place() -> None:
    own = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if "get_close_matches" in path.read_text(encoding="utf-8")
    }
    assert own == {"schemas/ragtide_schemas/suggestions.py"}
