"""An alert without statistics fires once and resolves once, whatever is checked and whoever goes on."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.alerts import alert

from ragtide_runtime.alert_book import STORED, AlertBook
from ragtide_schemas import Alert

pytestmark = pytest.mark.pure

NAMES = ("stall-labeling", "stall-absent:a", "stall-absent:b")


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from([True, False, None]), st.booleans())))
def test_changes_alternate_and_what_is_stored_is_what_fires(steps: Sequence[tuple[str, bool | None, bool]]) -> None:
    book, stored, raised = AlertBook(), dict[str, bytes](), dict[str, list[Alert]]()
    for number, (name, condition, restarts) in enumerate(steps):
        if restarts:
            book = AlertBook()
            for field, data in stored.items():
                book.load(field.removeprefix(STORED), data)
        fires = condition is True or (condition is None and name in book)
        book.set(name, condition, number, lambda: alert(f"{name}-{number}", rule=name), "It is over.")  # noqa: B023
        assert (name in book) == fires
        written, gone, alerts = book.take_changes()
        stored |= written
        for field in gone:
            del stored[field]
        for one in alerts:
            raised.setdefault(one.rule, []).append(one)
        assert {field.removeprefix(STORED) for field in stored} == {one.rule for one in book.firing}
    for alerts in raised.values():
        statuses = [one.status for one in alerts]
        assert statuses == ["firing", "resolved"] * (len(alerts) // 2) + ["firing"] * (len(alerts) % 2)
        for fired, resolved in zip(alerts[::2], alerts[1::2], strict=False):
            assert (fired.alert_id, resolved.message) == (resolved.alert_id, "It is over.")


def test_the_others_of_a_rule_end_and_no_other_rule() -> None:
    book = AlertBook()
    for name in NAMES:
        book.fire(name, lambda name=name: alert(name, rule=name))  # type: ignore[misc]
    book.end_others("stall-absent", {"stall-absent:b"}, 5, lambda fired: f"{fired.rule} is gone.")
    assert [one.rule for one in book.firing] == ["stall-labeling", "stall-absent:b"]
    assert [one.message for one in book.take_changes()[2] if one.status == "resolved"] == ["stall-absent:a is gone."]


def test_an_alert_that_cannot_be_read_is_removed() -> None:
    book = AlertBook()
    book.load("stall-labeling", b"junk")
    assert (book.firing, book.take_changes()) == ((), ({}, [STORED + "stall-labeling"], []))
