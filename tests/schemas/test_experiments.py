from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import for_each
from tests.support.experiment_plans import EVIDENCE, plan

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.experiments import (
    Begun,
    Command,
    Completed,
    Config,
    Execution,
    Limits,
    Look,
    Paused,
    decode_entry,
)


@given(size=st.integers(1, 1000), shards=st.integers(1, 50))
def test_shards_differ_by_at_most_one_item_and_hold_all(size: int, shards: int) -> None:
    ends = plan(size=size, shards=min(shards, size)).shard_ends()
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


@for_each(
    "wrong, words",
    [
        ({"configs": [Config(name="a"), Config(name="a")]}, "configs has two named 'a'"),
        ({"metrics": [{"name": "own.x", "lower": 1, "upper": 0}]}, "the smaller first"),
        ({"shards": 21}, "at most one shard per item"),
        ({"race": {"margin": -0.1}}, "margin"),
        ({"limits": {"max_cost_usd": 0}}, "max_cost_usd"),
        ({"intervals": {"strategy": "best"}}, "strategy"),
        ({"configs": []}, "configs"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan(**wrong)


@for_each(
    "entry",
    [
        Begun(plan=plan()),
        Command(op="stop", config="c1", by="race", reason="lost", evidence=EVIDENCE),
        Command(op="clone", config="c1", clone="c1b", parameters={"k": [1, None, "x"]}),
        Command(op="limits", limits=Limits(max_tokens=3)),
        Look(item=5),
        Paused(reason="enough"),
        Completed(),
    ],
)
def test_an_entry_of_the_log_survives_the_wire(entry: Begun | Command | Look | Paused | Completed) -> None:
    assert decode_entry(entry.encode()) == entry


@for_each(
    "payload, words",
    [
        (b'{"kind": "dance"}', "kind"),
        (b'{"kind": "command", "op": "stop"}', "needs a config"),
        (b'{"kind": "command", "op": "limits", "config": "a", "limits": {}}', "names no config"),
        (b'{"kind": "command", "op": "clone", "config": "a"}', "name of a new config"),
        (b'{"kind": "command", "op": "stop", "config": "a", "clone": "b"}', "name of a new config"),
        (b'{"kind": "look", "item": -1}', "item"),
        (b"{", "not valid JSON"),
        (b'{"kind": "look", "item": 1, "schema_version": 99}', "schema_version"),
    ],
)
def test_what_anybody_writes_into_the_log_is_checked(payload: bytes, words: str) -> None:
    with pytest.raises(InvalidEntryError, match=words):
        decode_entry(payload)


@for_each(
    "payload",
    [
        b'{"kind": ["command"]}',
        b'{"kind": "begun", "plan": {"configs": 3}}',
        b'{"kind": "begun", "plan": {"configs": [1]}}',
    ],
)
def test_a_malformed_entry_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidEntryError):
        decode_entry(payload)


def test_an_execution_is_an_answer_or_a_failure_never_both() -> None:
    for fields in ({}, {"interaction_id": "item-1", "failure": "no"}):
        with pytest.raises(ValueError, match="either an interaction_id or a failure"):
            Execution.model_validate({"config": "a", "item": 1, "item_id": "x", **fields})
