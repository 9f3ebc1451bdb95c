"""Strategies of property-based tests: any valid model that may be on a stream."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st
from tests.support.names import NAME_CHARACTERS

from ragtide_runtime.recordings import EntryKind
from ragtide_schemas import (
    Alert,
    AnswerUsage,
    EarlierTurn,
    EvaluatorScores,
    Feedback,
    JudgedScores,
    MetricEvent,
    RagInteraction,
    RetrievalStep,
    RetrievedDocument,
)
from ragtide_schemas.limits import (
    COST_MAX_USD,
    COUNTER_MAX,
    LATENCY_MAX_S,
    PROBABILITY_MIN,
    TIME_MAX,
    TIME_MIN,
    TOKENS_MAX,
    VALUE_MAX,
)

NAME = st.text(NAME_CHARACTERS, min_size=1, max_size=20).filter(str.strip)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
TIME = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
TIME |= st.sampled_from([TIME_MIN, TIME_MAX])
FLOAT = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOAT | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
METADATA = st.dictionaries(TEXT, JSON, max_size=3)
METRIC = st.sampled_from(["trace.adherence", "trace.context_relevance", "own.metric", "own.other", "ragchecker.f1"])
VALUE = st.floats(-VALUE_MAX, VALUE_MAX)
SCORES = st.lists(st.tuples(METRIC, VALUE), max_size=5).map(dict)
GOLD = st.lists(st.tuples(METRIC, st.floats(0, 1)), max_size=4).map(dict)
ABSENT = st.dictionaries(METRIC, TEXT, max_size=2)
SEGMENTS = st.dictionaries(NAME, NAME, max_size=3)
COUNT = st.integers(0, 10) | st.integers(0, TOKENS_MAX) | st.just(TOKENS_MAX)
SIZE = st.none() | st.integers(1, COUNTER_MAX) | st.just(COUNTER_MAX)
PROBABILITY = st.floats(PROBABILITY_MIN, 1) | st.sampled_from([PROBABILITY_MIN, 1.0])
SENTENCES = st.none() | st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=3)

USAGE = st.builds(
    AnswerUsage,
    latency_s=st.none() | st.floats(0, LATENCY_MAX_S),
    prompt_tokens=st.none() | COUNT,
    completion_tokens=st.none() | COUNT,
    cost_usd=st.none() | st.floats(0, COST_MAX_USD),
    retrieval_latency_s=st.none() | st.floats(0, LATENCY_MAX_S),
)

STEP_NAME = st.from_regex(r"[a-z][a-z0-9_]{0,63}", fullmatch=True)
STEP = st.builds(
    RetrievalStep,
    name=STEP_NAME,
    kind=st.sampled_from(["retriever", "reranker"]),
    documents=st.just(()),
    returned=st.integers(5, COUNTER_MAX),
    shared=st.none() | st.integers(0, 5),
)
CALL = st.builds(
    lambda asked, outcome, **fields: RetrievalStep(kind="tool", **fields, **asked, **outcome),
    asked=st.just({}) | st.fixed_dictionaries({"query": TEXT}) | st.fixed_dictionaries({"arguments": METADATA}),
    outcome=st.sampled_from([{}, {"returned": 0}, {"documents": (0, 1, 2), "returned": 5}])
    | st.fixed_dictionaries({"error": STEP_NAME}),
    name=st.sampled_from(["a_search", "an_order", "the_web"]),
    round=st.none() | st.integers(1, 3),
    latency_s=st.none() | st.floats(0, LATENCY_MAX_S),
)


def _with_calls(interaction: RagInteraction, calls: list[RetrievalStep], left_out: int) -> RagInteraction:
    if not calls:
        return interaction
    n = len(interaction.documents)
    placed = [
        call.model_copy(update={"documents": tuple(place for place in call.documents if place < n)})
        for call in sorted(calls, key=lambda call: call.round or 0)
    ]
    steps = (*(interaction.steps or ()), *placed)
    return RagInteraction(**interaction.model_dump() | {"steps": steps, "steps_left_out": left_out})


INTERACTION = st.builds(
    _with_calls,
    st.builds(
        RagInteraction,
        interaction_id=NAME,
        pipeline=NAME,
        occurred_at=TIME,
        question=TEXT,
        documents=st.lists(
            st.builds(
                RetrievedDocument,
                id=st.none() | NAME,
                text=TEXT,
                score=st.none() | FLOAT,
                sentences=SENTENCES,
                metadata=METADATA,
            ),
            max_size=3,
        ),
        response=TEXT | st.sampled_from(["", " \n"]),
        response_sentences=SENTENCES,
        reference_answer=st.none() | TEXT,
        gold_scores=GOLD,
        segments=SEGMENTS,
        session_id=st.none() | NAME,
        turn=st.none() | st.integers(0, COUNTER_MAX) | st.just(COUNTER_MAX),
        history=st.none() | st.lists(st.builds(EarlierTurn, question=TEXT, response=TEXT | st.just("")), max_size=3),
        user_id=st.none() | NAME,
        cluster=st.none() | NAME,
        covariates=st.none() | st.dictionaries(NAME, FLOAT, min_size=1, max_size=3),
        steps=st.none() | st.lists(STEP, max_size=3, unique_by=lambda step: step.name),
        usage=st.none() | USAGE,
        run=NAME,
        population_size=SIZE,
        sampling_probability=PROBABILITY,
        source=st.none() | NAME,
        metadata=METADATA,
    ),
    st.lists(CALL, max_size=5),
    st.integers(0, 3),
)
JUDGED = st.builds(
    JudgedScores,
    labeler=NAME,
    labeler_version=NAME,
    profile=NAME,
    prompts=st.lists(NAME, max_size=2),
    scores=SCORES,
    absent=ABSENT,
    inclusion_probability=PROBABILITY,
    uniform=st.booleans(),
)
BESIDE = st.builds(
    EvaluatorScores,
    labeler=NAME,
    labeler_version=NAME,
    profile=NAME,
    splitter=st.none() | NAME,
    prompts=st.lists(NAME, max_size=2),
    scores=SCORES,
    absent=ABSENT,
    cost_usd=st.floats(0, COST_MAX_USD),
    judged=st.none() | JUDGED,
    inclusion_probability=PROBABILITY,
)
EVENT = st.builds(
    MetricEvent,
    interaction_id=NAME,
    entry_id=st.none() | NAME,
    pipeline=NAME,
    occurred_at=TIME,
    labeled_at=TIME,
    segments=SEGMENTS,
    session_id=st.none() | NAME,
    turn=st.none() | st.integers(0, COUNTER_MAX) | st.just(COUNTER_MAX),
    user_id=st.none() | NAME,
    cluster=st.none() | NAME,
    covariates=st.none() | st.dictionaries(NAME, FLOAT, min_size=1, max_size=3),
    run=st.none() | NAME,
    population_size=SIZE,
    sampling_probability=PROBABILITY,
    source=st.none() | NAME,
    labeler=NAME,
    labeler_version=NAME,
    profile=NAME,
    splitter=st.none() | NAME,
    scores=SCORES,
    absent=ABSENT,
    gold_scores=SCORES,
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    cost_usd=st.floats(0, COST_MAX_USD) | st.just(COST_MAX_USD),
    latency_s=st.floats(0, LATENCY_MAX_S) | st.just(LATENCY_MAX_S),
    prompts=st.lists(NAME, max_size=2),
    judged=st.none() | JUDGED,
    counters=st.dictionaries(NAME, COUNT, max_size=2),
    inclusion_probability=PROBABILITY,
    beside=st.none() | st.lists(BESIDE, max_size=2),
)
FEEDBACK = st.builds(
    Feedback,
    pipeline=NAME,
    interaction_id=NAME,
    gold_scores=GOLD.filter(bool),
    given_at=TIME,
    annotator=st.none() | NAME,
    inclusion_probability=st.none() | PROBABILITY,
    metadata=METADATA,
)


def _alert(fields: dict[str, Any]) -> Alert:
    return Alert(**fields)


ALERT = st.fixed_dictionaries(
    {
        "alert_id": NAME,
        "status": st.sampled_from(["firing", "resolved"]),
        "rule": NAME,
        "kind": st.sampled_from(["drift", "threshold", "rmse"]),
        "pipeline": NAME,
        "segment": st.none() | NAME,
        "run": st.none() | NAME,
        "metric": METRIC,
        "profile": NAME,
        "labeler": NAME,
        "labeler_version": NAME,
        "direction": st.sampled_from(["fall", "rise"]),
        "fired_at": TIME,
        "resolved_at": st.none() | TIME,
        "began_at": st.none() | TIME,
        "baseline": FLOAT,
        "baseline_source": st.sampled_from(["given", "learned"]),
        "quantity": st.sampled_from(["mean", "spread"]),
        "observed": FLOAT,
        "observed_n": st.integers(1, COUNTER_MAX),
        "observed_lower": FLOAT,
        "observed_upper": FLOAT,
        "log_evidence": FLOAT,
        "run_length": FLOAT,
        "false_discovery_rate": st.none() | st.floats(0.001, 0.999),
        "n": st.integers(1, COUNTER_MAX),
        "worst_interaction_ids": st.lists(NAME, max_size=3),
        "diagnosis": st.lists(TEXT, max_size=2),
        "message": TEXT,
    }
).map(_alert)

MODELS = {
    EntryKind.INTERACTIONS: INTERACTION,
    EntryKind.METRICS: EVENT,
    EntryKind.FEEDBACK: FEEDBACK,
    EntryKind.ALERTS: ALERT,
}
