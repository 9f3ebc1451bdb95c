import json
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from redis.crc import key_slot
from tests.support.cases import for_each
from tests.support.models import INTERACTION, JSON
from tools.pages.json_schemas import PUBLISHED, json_schemas

from ragtide import AlertRule, DeadLetter, InvalidEntryError, MetricEvent, RagInteraction, RetrievedDocument
from ragtide_runtime.redis.keys import Streams, interaction_digest
from ragtide_runtime.redis.layout import partition_of
from ragtide_schemas import Reason, SentenceLabels
from ragtide_schemas.base import SCHEMA_VERSION

DOCS = Path(__file__).parents[2] / "docs" / "schemas"


@cache
def interaction_schema() -> Any:
    from jsonschema import Draft202012Validator  # its import takes seconds

    return Draft202012Validator(json.loads(json_schemas()["interaction.schema.json"]))


GOOD: dict[str, Any] = {"pipeline": "shop", "question": "q", "documents": [{"text": "d"}], "response": "r"}


def refused(payload: bytes, entry_id: str = "1700000000123-0") -> InvalidEntryError:
    with pytest.raises(InvalidEntryError) as caught:
        RagInteraction.from_entry(entry_id, payload)
    return caught.value


def with_(**changes: Any) -> bytes:
    return json.dumps({**GOOD, **changes}).encode()


def test_the_published_json_schemas_are_those_of_the_models() -> None:
    published = {file.name: file.read_text(encoding="utf-8") for file in DOCS.glob("*.schema.json")}
    assert published == json_schemas(), "the models changed: run make schemas, and look at the difference"


@for_each("name", PUBLISHED)
def test_a_published_json_schema_states_its_dialect_and_an_id_of_its_own(name: str) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8"))
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]
    assert schema["$id"] == f"urn:ragtide:schema:{name}:v{SCHEMA_VERSION}"
    Draft202012Validator.check_schema(schema)


@given(INTERACTION)
def test_the_schema_of_an_interaction_accepts_what_the_model_writes(interaction: RagInteraction) -> None:
    interaction_schema().validate(json.loads(interaction.encode()))


@for_each(
    "payload, field",
    [
        (with_(), None),
        (with_(documents=["d"], history=[{"question": "q"}], reference_answer=None), None),
        (with_(segments={"lang": "de"}, gold_scores={"trace.adherence": 1}), None),
        (b"{}", "pipeline"),
        (with_(pipeline=""), "pipeline"),
        (with_(documents=5), "documents"),
        (with_(sampling_probability=2), "sampling_probability"),
        (with_(respnse="x"), "respnse"),
    ],
)
def test_the_schema_of_an_interaction_refuses_what_the_model_refuses(payload: bytes, field: str | None) -> None:
    mistakes = "".join(
        error.json_path + error.message for error in interaction_schema().iter_errors(json.loads(payload))
    )
    assert (mistakes == "") if field is None else (field in mistakes)
    if field is None:
        assert RagInteraction.from_entry("5-0", payload)
    else:
        assert field in refused(payload).detail


@given(INTERACTION)
def test_an_interaction_survives_the_wire(interaction: RagInteraction) -> None:
    assert RagInteraction.decode(interaction.encode()) == interaction
    assert RagInteraction.from_entry("5-0", interaction.encode()) == interaction


@given(st.binary(max_size=300))
def test_any_bytes_are_an_interaction_or_a_clear_error(payload: bytes) -> None:
    error = refused(payload)
    assert error.reason in {Reason.NOT_JSON, Reason.INVALID}
    assert 0 < len(error.detail) < 400


@given(st.dictionaries(st.sampled_from([*RagInteraction.model_fields, "other"]), JSON, max_size=6))
def test_any_json_object_is_an_interaction_or_a_clear_error(fields: dict[str, Any]) -> None:
    error = None
    try:
        RagInteraction.from_entry("1700000000123-0", json.dumps(fields).encode())
    except InvalidEntryError as caught:
        error = caught
    assert error is None or 0 < len(error.detail) < 5000


@for_each(
    "payload, reason, words",
    [
        (b"", Reason.NOT_JSON, "JSON"),
        (b"[]", Reason.INVALID, "a JSON array"),
        (b"3", Reason.INVALID, "a JSON number"),
        (b"null", Reason.INVALID, "a JSON null"),
        (b"[" * 5000 + b"]" * 5000, Reason.NOT_JSON, "JSON"),
        (b"[NaN, " * 300 + b"1" + b"]" * 300, Reason.NOT_JSON, "more than 200 levels"),
        (b'{"a": "\xff"}', Reason.NOT_JSON, "JSON"),
        (b'{"a": "\\ud800"}', Reason.INVALID, "a is not a field"),
        (b'{"a": NaN}', Reason.INVALID, "a is not a field"),
        (with_(response=1).replace(b"1", b"NaN"), Reason.INVALID, "response is no finite number"),
        (with_(question=1).replace(b"1", b"-Infinity"), Reason.INVALID, "question is no finite number"),
        (with_(documents='["d"]'), Reason.INVALID, "documents is a text that begins a list"),
        (with_(documents=[1, 2]), Reason.INVALID, "documents.0"),
        (with_(question=["q"]), Reason.INVALID, "question must be a string"),
        (with_(documents=[{"text": "\n "}]), Reason.INVALID, "documents.0.text must not be empty"),
        (with_(response=None), Reason.INVALID, "response must be a string"),
        (with_(documents=None), Reason.INVALID, "documents must be a list"),
        (with_(pipeline=None), Reason.INVALID, "pipeline must be a string"),
        (with_(pipeline="a\x00b"), Reason.INVALID, "pipeline"),
        (with_(pipeline="p" * 201), Reason.TOO_LARGE, "pipeline"),
        (with_(respnse="x"), Reason.INVALID, "respnse is not a field of this schema"),
        (with_(schema_version=2), Reason.UNKNOWN_SCHEMA_VERSION, "schema_version 2 is unknown"),
        (with_(schema_version=0), Reason.UNKNOWN_SCHEMA_VERSION, "schema_version 0"),
        (with_(schema_version="1"), Reason.INVALID, "schema_version"),
        (with_(occurred_at="2026-01-01T00:00:00"), Reason.INVALID, "occurred_at has no time zone"),
        (with_(occurred_at="yesterday"), Reason.INVALID, "occurred_at"),
        (with_(population_size=3), Reason.INVALID, "population_size without run"),
        (with_(population_size=0, run="r"), Reason.INVALID, "population_size"),
        (with_(documents=["x" * 1_000_001]), Reason.TOO_LARGE, "documents.0.text"),
        (with_(documents=["x"] * 501), Reason.TOO_LARGE, "documents"),
        (with_(documents=["x" * 5_000_000]), Reason.TOO_LARGE, "limit is 4194304"),
    ],
)
def test_bad_input_is_refused_with_field_value_and_remedy(payload: bytes, reason: Reason, words: str) -> None:
    error = refused(payload)
    assert error.reason is reason
    assert words in error.detail
    assert len(error.detail) < 500


def test_however_much_is_wrong_the_message_stays_readable() -> None:
    many = refused(with_(**{f"unknown_{number}": number for number in range(5000)})).detail
    assert "unknown_0 is not a field" in many
    assert many.endswith("and 4990 more")
    assert len(refused(with_(**{"x" * 1_000_000: 1})).detail) < 500
    assert len(refused(with_(documents=["x" * 2_000_000] * 2)).detail) < 500


def test_every_missing_field_is_named() -> None:
    detail = refused(b"{}").detail
    for name in ("pipeline", "question", "documents", "response"):
        assert f"{name} is missing: add it" in detail


def test_what_a_plain_xadd_leaves_out_comes_from_the_entrys_id() -> None:
    first, again = (RagInteraction.from_entry("1700000000123-7", with_()) for _ in range(2))
    assert first == again
    assert first.interaction_id == "entry-1700000000123-7"
    assert first.occurred_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


def test_an_entry_id_that_is_no_time_needs_occurred_at() -> None:
    assert "occurred_at is missing" in refused(with_(), "99999999999999999-0").detail
    stated = RagInteraction.from_entry("99999999999999999-0", with_(occurred_at="2026-01-01T00:00:00Z"))
    assert stated.interaction_id == "entry-99999999999999999-0"


def test_times_are_kept_in_utc() -> None:
    local = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert RagInteraction(**GOOD, occurred_at=local).occurred_at == datetime(2026, 1, 1, 10, tzinfo=UTC)
    assert RagInteraction(**GOOD, occurred_at=local).occurred_at.utcoffset() == timedelta(0)


def test_a_string_is_a_document_with_that_text() -> None:
    assert RagInteraction(**{**GOOD, "documents": ["d"]}).documents == (RetrievedDocument(text="d"),)


def test_models_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        RagInteraction(**GOOD).response = "other"  # type: ignore[misc]


@given(st.binary(max_size=200))
def test_a_dead_letter_keeps_any_payload_whole(payload: bytes) -> None:
    text, encoding = DeadLetter.encode_payload(payload)
    letter = DeadLetter(
        stream="s",
        entry_id="1-0",
        reason=Reason.NOT_JSON,
        detail="d",
        payload=text,
        payload_encoding=encoding,
        failed_at=datetime.now(UTC),
        component="c",
    )
    assert DeadLetter.decode(letter.encode()).payload_bytes() == payload


def test_a_dead_letter_may_be_larger_than_what_it_refuses() -> None:
    text, encoding = DeadLetter.encode_payload(b"x" * 5_000_000)
    letter = DeadLetter(
        stream="s",
        entry_id="1-0",
        reason=Reason.TOO_LARGE,
        detail="d",
        payload=text,
        payload_encoding=encoding,
        failed_at=datetime.now(UTC),
        component="c",
    )
    assert DeadLetter.decode(letter.encode()) == letter


@pytest.mark.parametrize("change", [{"inclusion_probability": 0}, {"inclusion_probability": 1.1}, {"cost_usd": -1}])
def test_a_metric_event_refuses_impossible_numbers(change: dict[str, float]) -> None:
    now = datetime.now(UTC)
    base: dict[str, Any] = {
        "interaction_id": "i",
        "pipeline": "p",
        "occurred_at": now,
        "labeled_at": now,
        "labeler": "l",
        "labeler_version": "1",
        "profile": "ragbench",
        "scores": {"trace.adherence": 1.0},
    }
    assert MetricEvent(**base).inclusion_probability == 1
    with pytest.raises(ValidationError):
        MetricEvent(**{**base, **change})


@for_each(
    "fields, words",
    [
        ({"kind": "threshold"}, "needs target"),
        ({"kind": "threshold", "target": 0.5, "baseline": 0.5}, "use target"),
        ({"kind": "drift", "target": 0.5}, "use baseline"),
        ({"kind": "drift", "baseline": 0.01}, "could never fire"),
        ({"kind": "threshold", "target": 1.5}, "could never fire"),
        ({"kind": "drift", "metric": "trace.rmse_aggregation"}, "state direction"),
        ({"kind": "drift", "metric": "adherence"}, "metric"),
        ({"kind": "drift", "run_length": 1}, "run_length"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        AlertRule(**{"name": "r", "metric": "trace.adherence", **fields})


def test_labels_whose_sizes_disagree_are_refused() -> None:
    with pytest.raises(ValidationError, match="document_keys has 1 keys and n_document_sentences is 2"):
        SentenceLabels(relevant=[], utilized=[], n_document_sentences=2, document_keys=["0a"])


def test_keys_are_named_as_the_contract_says_and_share_a_slot() -> None:
    streams = Streams("ragtide", 3)
    names = {
        "interactions": streams.interactions,
        "metrics": streams.metrics,
        "estimates": streams.estimates,
        "alerts": streams.alerts,
        "dead-letters": streams.dead_letters,
        "checkpoint": streams.checkpoint,
        "lease": streams.lease,
    }
    assert names == {name: f"ragtide:{{3}}:{name}" for name in names}
    keys = [*names.values(), streams.fencing_tokens, streams.owner(interaction_digest("shop", "i-1"))]
    assert len({key_slot(key.encode()) for key in keys}) == 1


def test_the_same_id_in_two_pipelines_has_two_owners() -> None:
    streams = Streams("ragtide", 0)
    assert streams.owner(interaction_digest("a", "b")) != streams.owner(interaction_digest("b", "a"))
    assert streams.owner(interaction_digest("a", "bc")) != streams.owner(interaction_digest("ab", "c"))


def test_partitions_are_stable_across_releases() -> None:
    assert {name: partition_of(name, 1024) for name in ("shop", "desk", "поиск")} == {
        "shop": 774,
        "desk": 508,
        "поиск": 858,
    }
    assert {partition_of(f"pipeline-{number}", 8) for number in range(200)} == set(range(8))
