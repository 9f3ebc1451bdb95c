"""The bounds of the schema: times, latencies, costs, counts, weights."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from tests.support.cases import for_each
from tests.support.metric_events import event

from ragtide import Feedback, InvalidEntryError, MetricEvent, RagInteraction
from ragtide_consumers.labelers.event import metric_event
from ragtide_consumers.labelers.judge.completions import read_reply
from ragtide_consumers.labelers.judge.costs import CallPrice
from ragtide_consumers.labelers.protocol import LabelerId, Labeling
from ragtide_runtime.settings.labelers import Price
from ragtide_schemas import AnswerUsage, from_milliseconds, utc_now
from ragtide_schemas.limits import (
    COST_MAX_USD,
    COUNTER_MAX,
    COVARIATES_MAX,
    LATENCY_MAX_S,
    REPLY_TOKENS_MAX,
    TOKENS_MAX,
    VALUE_MAX,
)

INTERACTION: dict[str, Any] = {"pipeline": "shop", "question": "q", "documents": ["d"], "response": "r"}
EVENT = event(1, {"trace.adherence": 0.5}).model_dump()

UNSET = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00.0000000",
    "0001-01-01T00:00:00+00:00",
    "0001-01-01T00:00:00+01:00",
    "0001-01-01T00:53:28+00:53",
    "0000-12-31T19:03:58-04:56",
    datetime.min,  # noqa: DTZ901 - as .NET would write it
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=2))),
]

WRONG = [
    "0001-01-02T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00+00:01",
    "2200-01-01T00:00:00.000001Z",
    "9999-12-31T23:59:59.999999-12:00",
    "9999-12-31T23:59:59.999999Z",
]


@for_each("time", UNSET)
def test_a_time_that_was_never_set_counts_as_not_given(time: Any) -> None:
    before = utc_now()
    assert before <= RagInteraction(**INTERACTION, occurred_at=time).occurred_at <= utc_now()
    given = Feedback(pipeline="p", interaction_id="i", gold_scores={"trace.adherence": 1}, given_at=time)
    assert before <= given.given_at <= utc_now()
    payload = RagInteraction(**INTERACTION).model_dump_json(exclude={"occurred_at"})
    payload = payload.replace("{", f'{{"occurred_at":"{time if isinstance(time, str) else time.isoformat()}",', 1)
    found = RagInteraction.from_entry("1700000000123-7", payload.encode())
    assert found.occurred_at == from_milliseconds(1700000000123)


@for_each("time", WRONG)
def test_a_time_outside_1970_to_2200_is_refused_in_words(time: str) -> None:
    with pytest.raises(InvalidEntryError, match="occurred_at must be a time from 1970 to 2200"):
        RagInteraction.from_fields({**INTERACTION, "occurred_at": time})
    for field in ("occurred_at", "labeled_at"):
        with pytest.raises(InvalidEntryError, match=f"{field} must be a time from 1970 to 2200"):
            MetricEvent.from_fields({**EVENT, field: time})


@for_each("time", ["1970-01-01T00:00:00Z", "2200-01-01T02:00:00+02:00", "2026-11-21T00:00:00-12:00"])
def test_the_first_and_the_last_time_are_taken(time: str) -> None:
    assert RagInteraction(**INTERACTION, occurred_at=datetime.fromisoformat(time)).occurred_at.tzinfo is UTC


def test_an_entry_id_that_is_no_time_asks_for_one() -> None:
    payload = RagInteraction(**INTERACTION).model_dump_json(exclude={"occurred_at"}).encode()
    for entry_id in ("9999999999999-1", "18446744073709551615-1", "mine"):
        with pytest.raises(InvalidEntryError, match="occurred_at is missing: add it"):
            RagInteraction.from_entry(entry_id, payload)


@for_each(
    "change",
    [
        {"latency_s": LATENCY_MAX_S * 1.01},
        {"latency_s": 1e308},
        {"cost_usd": COST_MAX_USD * 1.01},
        {"prompt_tokens": TOKENS_MAX + 1},
        {"completion_tokens": 10**300},
        {"population_size": 10**30},
        {"counters": {"x": 10**300}},
        {"inclusion_probability": 5e-324},
        {"scores": {"mine.x": 1e308}},
        {"gold_scores": {"mine.x": -1e308}},
    ],
)
def test_a_number_beyond_its_bound_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidEntryError, match=next(iter(change))):
        MetricEvent.from_fields({**EVENT, **change})


@for_each(
    "change",
    [
        {"session_id": 7},
        {"user_id": "a\nb"},
        {"user_id": "u" * 201},
        {"cluster": "c\x00"},
        {"cluster": ["a"]},
        {"turn": -1},
        {"turn": 0.5},
        {"turn": COUNTER_MAX + 1},
        {"turn": "first"},
    ],
)
def test_a_session_a_turn_a_user_and_a_cluster_have_bounds(
    change: dict[str, Any],
) -> None:
    with pytest.raises(InvalidEntryError, match=next(iter(change))):
        MetricEvent.from_fields({**EVENT, **change})


def test_a_session_a_turn_a_user_and_a_cluster_are_absent_unless_given() -> None:
    names = {"session_id", "turn", "user_id", "cluster"}
    assert {getattr(RagInteraction(**INTERACTION), name) for name in names} == {None}
    assert not names & RagInteraction(**INTERACTION).model_dump(exclude_none=True).keys()
    full = {"session_id": "s" * 200, "turn": COUNTER_MAX, "user_id": "u" * 200, "cluster": "c" * 200}
    assert RagInteraction.from_fields({**INTERACTION, **full}).model_dump(include=names) == full
    assert RagInteraction(**INTERACTION, turn=0).turn == 0


@for_each("base", [RagInteraction, MetricEvent])
def test_a_covariate_that_is_no_number_in_bounds_counts_as_not_given(
    base: type[RagInteraction] | type[MetricEvent],
) -> None:
    fields = INTERACTION if base is RagInteraction else EVENT
    bad = {"a": float("nan"), "b": float("inf"), "c": "half", "d": None, "e": 10**400, "f": 2 * VALUE_MAX, "g": [1]}
    assert base.from_fields({**fields, "covariates": {**bad, "good": 3}}).covariates == {"good": 3.0}
    for none in (None, {}, bad):
        assert base.from_fields({**fields, "covariates": none}).covariates is None
        assert b"covariates" not in base.from_fields({**fields, "covariates": none}).encode()
    text = json.dumps(
        {
            **json.loads(base.from_fields(fields).encode()),
            "covariates": {**bad, "a": True, "b": False, "e": 1e16, "good": 3},
        }
    )
    assert base.decode(text.encode()).covariates == {"a": 1.0, "b": 0.0, "good": 3.0}


@for_each("base", [RagInteraction, MetricEvent])
@for_each("wrong", [[], "x", {"": 1.0}, {str(number): 1.0 for number in range(COVARIATES_MAX + 1)}])
def test_covariates_of_another_form_are_left_out_by_name(
    base: type[RagInteraction] | type[MetricEvent], wrong: Any
) -> None:
    fields = INTERACTION if base is RagInteraction else EVENT
    found = base.from_fields({**fields, "covariates": wrong})
    assert len(found.covariates or {}) in (0, COVARIATES_MAX)
    assert [name.partition(".")[0] for name in found.left_out.elements()] == ["covariates"]


def test_a_labeler_that_says_more_than_an_event_can_hold_still_gives_its_scores() -> None:
    labeling = Labeling(
        scores={"trace.adherence": 0.5}, prompt_tokens=10**30, completion_tokens=10**30, cost_usd=1e300,
        counters={"x": 10**30},
    )  # fmt: skip
    found = metric_event(
        RagInteraction(**INTERACTION), LabelerId("mine", "1", "p"), labeling, labeled_at=utc_now(), latency_s=1e9
    )
    assert found.scores["trace.adherence"] == 0.5
    assert (found.latency_s, found.cost_usd, found.prompt_tokens) == (LATENCY_MAX_S, COST_MAX_USD, TOKENS_MAX)


@for_each("tokens", [REPLY_TOKENS_MAX + 1, 10**20, 1e308, "9", True])
def test_absurd_token_counts_of_a_judge_are_neither_cost_nor_spend(tokens: Any) -> None:
    reply = {"usage": {"prompt_tokens": tokens, "completion_tokens": 5}, "choices": [{"message": {"content": "{}"}}]}
    answer = read_reply(reply, CallPrice("settings", Price(input=1.0, output=1.0)))
    assert (answer.prompt_tokens, answer.completion_tokens) == (int(tokens is True), 5)
    assert answer.cost_usd < 1e-5


@for_each("field", AnswerUsage.model_fields)
@for_each("value", [True, False, -1, "many", float("nan"), [], 1e19])
def test_a_usage_that_is_no_number_in_its_range_is_left_out_by_name(field: str, value: Any) -> None:
    found = RagInteraction.from_fields({**INTERACTION, "usage": {field: value}})
    assert found.usage == AnswerUsage()
    assert found.left_out == {f"usage.{field}": 1}
