from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_schemas import InvalidEntryError
from ragtide_schemas.experiments import (
    Begun,
    Completed,
    Config,
    Evidence,
    Execution,
    Halted,
    Limits,
    Looked,
    Order,
    Plan,
    Progress,
    decode_entry,
)


def plan(count: int = 3, *, size: int = 20, **more: object) -> Plan:
    fields = {
        "run": "e",
        "target": "rag:answer",
        "data": "there",
        "data_digest": "d",
        "order_digest": "o",
        "population_size": size,
        "configs": [Config(name=f"c{number}", knobs={"k": number}) for number in range(count)],
        "metric": "trace.adherence",
        "shards": min(8, size),
        **more,
    }
    return Plan.model_validate(fields)


EVIDENCE = Evidence(by="c0", n=5, item=5, difference=0.3, lower=0.1, upper=0.5, e_value=99, alpha=0.02, margin=0.02)


@given(size=st.integers(1, 1000), shards=st.integers(1, 50))
def test_shards_differ_by_at_most_one_item_and_hold_all(size: int, shards: int) -> None:
    ends = plan(size=size, shards=min(shards, size)).shard_ends()
    sizes = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    assert sum(sizes) == size
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"configs": [Config(name="a"), Config(name="a")]}, "configs has two named 'a'"),
        ({"metrics": [{"name": "own.x", "lower": 1, "upper": 0}]}, "the smaller first"),
        ({"shards": 21}, "at most one shard an item"),
        ({"race": {"margin": -0.1}}, "margin"),
        ({"limits": {"max_cost_usd": 0}}, "max_cost_usd"),
        ({"intervals": {"strategy": "best"}}, "strategy"),
        ({"configs": []}, "configs"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plan(**wrong)


@pytest.mark.parametrize(
    "entry",
    [
        Begun(plan=plan()),
        Order(op="stop", config="c1", by="race", reason="lost", evidence=EVIDENCE),
        Order(op="clone", config="c1", clone="c1b", knobs={"k": [1, None, "x"]}),
        Order(op="limits", limits=Limits(max_tokens=3)),
        Looked(item=5),
        Halted(reason="enough"),
        Completed(),
    ],
)
def test_an_entry_of_the_log_survives_the_wire(entry: Begun | Order | Looked | Halted | Completed) -> None:
    assert decode_entry(entry.encode()) == entry


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (b'{"kind": "dance"}', "kind"),
        (b'{"kind": "order", "op": "stop"}', "needs a config"),
        (b'{"kind": "order", "op": "limits", "config": "a", "limits": {}}', "names no config"),
        (b'{"kind": "order", "op": "clone", "config": "a"}', "name of a new config"),
        (b'{"kind": "order", "op": "stop", "config": "a", "clone": "b"}', "name of a new config"),
        (b'{"kind": "looked", "item": -1}', "item"),
        (b"{", "not valid JSON"),
        (b'{"kind": "looked", "item": 1, "schema_version": 99}', "schema_version"),
    ],
)
def test_what_anybody_writes_into_the_log_is_checked(payload: bytes, words: str) -> None:
    with pytest.raises(InvalidEntryError, match=words):
        decode_entry(payload)


def test_an_execution_is_an_answer_or_a_failure_never_both() -> None:
    for fields in ({}, {"interaction_id": "item-1", "failure": "no"}):
        with pytest.raises(ValueError, match="either an interaction_id or a failure"):
            Execution.model_validate({"config": "a", "item": 1, "item_id": "x", **fields})


def test_orders_count_from_the_last_look_before_them() -> None:
    progress = Progress(plan())
    for entry in (
        Looked(item=5),
        Order(op="stop", config="c1", by="ann"),
        Looked(item=10),
        Order(op="clone", config="c0", clone="c0b", knobs={"k": 9, "more": True}),
        Order(op="resume", config="c1"),
        Looked(item=15),
        Order(op="delete", config="c2"),
    ):
        assert progress.apply(entry) is None
    assert progress.looked == 15
    assert progress.configs["c1"].spans == [[0, 5], [10, None]]
    assert [item for item in range(20) if progress.configs["c1"].covers(item)] == [*range(5), *range(10, 20)]
    clone = progress.configs["c0b"]
    assert (clone.config.knobs, clone.config.parent, clone.spans, clone.place) == (
        {"k": 9, "more": True}, "c0", [[10, None]], 3,
    )  # fmt: skip
    assert progress.configs["c2"].status == "deleted"
    assert [one.config.name for one in progress.running] == ["c0", "c1", "c0b"]


def test_orders_that_make_no_sense_change_nothing_and_say_why() -> None:
    progress = Progress(plan())
    progress.apply(Order(op="stop", config="c1"))
    progress.apply(Order(op="delete", config="c2"))
    progress.apply(Order(op="resume", config="c0", keep=True))
    before = repr(progress.configs)
    for order, words in (
        (Order(op="stop", config="other"), "there is no config 'other': use one of c0, c1"),
        (Order(op="stop", config="c1"), "stopped already"),
        (Order(op="resume", config="c2"), "was deleted"),
        (Order(op="resume", config="c0", keep=True), "is running"),
        (Order(op="clone", config="c0", clone="c1"), "give the clone another name"),
        (Order(op="stop", config="c0", by="race", evidence=EVIDENCE), "a person has said so"),
    ):
        assert words in (progress.apply(order) or "")
    assert repr(progress.configs) == before
    # What the race may not, a person may.
    assert progress.apply(Order(op="stop", config="c0", by="ann")) is None


def test_looks_only_go_on() -> None:
    progress = Progress(plan())
    assert progress.apply(Looked(item=5)) is None
    for item in (5, 4, 21):
        assert progress.apply(Looked(item=item)) is not None
    assert progress.looked == 5
    assert progress.apply(Begun(plan=plan())) is not None


def test_a_halted_or_complete_experiment_goes_on_with_an_order() -> None:
    progress = Progress(plan())
    progress.apply(Halted(reason="too dear"))
    assert progress.halted == "too dear"
    progress.apply(Order(op="limits", limits=Limits(max_cost_usd=2)))
    assert progress.halted is None
    assert progress.limits.max_cost_usd == 2
    progress.apply(Order(op="stop", config="c1"))
    progress.apply(Completed())
    assert progress.completed
    progress.apply(Order(op="resume", config="c1"))
    assert not progress.completed


def test_a_log_begins_with_its_plan() -> None:
    with pytest.raises(ValueError, match="must begin with 'begun'"):
        Progress.begin(Looked(item=1))
    assert Progress.begin(Begun(plan=plan())).plan == plan()
