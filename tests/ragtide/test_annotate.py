"""Answers of people: those about the sample are published with their probability, and no others."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest
from tests.aggregator.test_feedback import caught_up, letters, running
from tests.consumers.specimens.test_keeping import worked
from tests.ragtide.test_items import STREAMS, keep
from tests.support.in_process import run_command

from ragtide.testing import interaction
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.state.state import StateOptions
from ragtide_producers import InteractionProducer
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_roles.kept.questions import ADHERENCE, RATINGS, questions
from ragtide_roles.kept.queue import ItemSource, QueueOptions, annotation_of, left, queue_of, store
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, interaction_digest, pipeline_digest
from ragtide_runtime.redis.layout import Layout
from ragtide_runtime.settings import load_settings
from ragtide_schemas import Feedback

TEXTS = ["The tower was built in 1889.", "It may be so.", "Cats eat fish at night."]


@pytest.fixture(autouse=True)
def _here(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def types(redis_url: str) -> Any:
    """Answer the items of a person's queue, as the page does: y and n about sentences, 1 to 5 as ratings."""

    async def answer(
        keys: Iterator[str], sources: tuple[str, ...], annotator: str, share: float, rated: tuple[str, ...]
    ) -> Counter[str]:
        settings, counts = load_settings(), Counter[str]()
        options = QueueOptions(
            tuple(map(ItemSource, sources or ItemSource)), share, (ADHERENCE, *rated), rated, settings.feedback_window_s
        )
        async with connect_async(redis_url) as redis:
            kept_items, stored_ones = KeptSpecimens(redis, settings.layout), StoredAnnotations(redis, "ragtide")
            annotations = await stored_ones.read()
            queue = await queue_of(kept_items, await kept_items.pipelines(), options, annotations)
            items = left(queue, annotations, annotator)
            with InteractionProducer(settings=settings) as producer:

                async def publish(feedback: Feedback) -> None:
                    await asyncio.to_thread(producer.publish_feedback, [feedback])

                for item in items:
                    names = [question.name for question in questions(item.specimen, rated)]
                    given = dict(zip(names, islice(keys, len(names)), strict=False))
                    if len(given) < len(names):
                        break
                    ratings = {name: int(key) for name, key in given.items() if name in RATINGS}
                    supported = {name: key == "y" for name, key in given.items() if name not in RATINGS}
                    annotation = annotation_of(item, annotator, supported=supported, ratings=ratings)
                    counts[await store(stored_ones, annotation, item, publish)] += 1
        counts["left"] = len(items) - counts.total()
        return counts

    def run(
        keys: str, *sources: str, annotator: str = "ann", share: float = 1.0, rated: tuple[str, ...] = ()
    ) -> Counter[str]:
        return asyncio.run(answer(iter(keys), sources, annotator, share, rated))

    return run


def kept(redis_url: str, count: int = 3, **settings: Any) -> None:
    given = [
        interaction(number, response=f"{TEXTS[number % 3]} {TEXTS[0]}", sampling_probability=0.5)
        for number in range(count)
    ]
    keep(redis_url, *given, **settings)


def published(redis: Any) -> list[Feedback]:
    return [Feedback.decode(fields[DATA_FIELD]) for _, fields in redis.xrange(STREAMS.feedback)]


def stored(redis_url: str) -> list[Annotation]:
    async def read() -> list[Annotation]:
        async with connect_async(redis_url) as redis:
            return await StoredAnnotations(redis, "ragtide").read()

    return asyncio.run(read())


def test_answers_about_the_sample_become_feedback_with_their_probability(
    redis_url: str, redis: Any, types: Any
) -> None:
    kept(redis_url)
    assert types("yynyyn", "sample") == Counter(published=3, left=0)
    found = published(redis)
    assert {one.interaction_id for one in found} == {"i-0", "i-1", "i-2"}
    assert [one.gold_scores["trace.adherence"] for one in found] == [1.0, 0.0, 0.0]
    assert [one.gold_scores["trace.supported_fraction"] for one in found] == [1.0, 0.5, 0.5]
    assert {one.inclusion_probability for one in found} == {1.0}, "given that the producer sent it"
    assert [one.metadata["supported"] for one in found][2] == {"a": True, "b": False}
    assert {one.annotator for one in found} == {"ann"}
    assert types("yyyyyy") == Counter(left=0)
    assert len(published(redis)) == 3


def test_a_share_of_the_sample_multiplies_the_probability(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, 12)
    types("yy" * 12, "sample", share=0.4)
    found = published(redis)
    assert 0 < len(found) < 12
    assert {one.inclusion_probability for one in found} == {0.4}


def test_the_worst_and_disputed_items_are_never_published(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, sample=0.0)
    assert types("yy" * 10, "worst", "disputed")["selected"]
    found = stored(redis_url)
    assert found
    assert {one.inclusion_probability for one in found} == {None}
    assert published(redis) == []


def test_an_item_of_the_sample_is_not_asked_because_it_is_bad(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url)
    assert types("yy" * 10, "worst", "disputed") == Counter(left=0)
    assert stored(redis_url) == []
    assert types("")["left"] == 3


def test_a_second_person_is_asked_and_only_the_first_answers_count(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, 1)
    types("yy")
    assert types("nn", annotator="bob")["second"] == 1
    assert [(one.annotator, one.gold_scores["trace.adherence"]) for one in published(redis)] == [("ann", 1.0)]
    assert [one.annotator for one in stored(redis_url)] == ["ann", "bob"]


def test_a_gold_score_of_the_interaction_itself_is_the_first(redis_url: str, redis: Any, types: Any) -> None:
    graded = {"trace.adherence": 1.0, "trace.supported_fraction": 1.0}
    keep(redis_url, interaction(0, gold_scores=graded), interaction(1, gold_scores={"trace.adherence": 1.0}))
    assert types("nnnn", "sample").total() == 1, "an item is not asked about if its answer cannot count"
    assert [one.gold_scores for one in published(redis)] == [{"trace.supported_fraction": 0.0}]


def test_an_item_that_was_scored_too_long_ago_to_count_is_not_asked(
    redis_url: str, types: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(redis_url, 1)
    with monkeypatch.context() as late:
        late.setenv("RAGTIDE_FEEDBACK_WINDOW_S", "0.001")
        assert types("yy", "sample") == Counter(left=0)
    assert types("yy", "sample")["published"] == 1


def test_ratings_are_asked_for_chosen_metrics(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, 1)
    types("yy4", rated=("trace.context_relevance",))
    (found,) = published(redis)
    assert found.gold_scores["trace.context_relevance"] == 0.75
    assert found.metadata["ratings"] == {"trace.context_relevance": 4}


def test_a_forgotten_item_has_no_annotation(
    redis_url: str, redis: Any, types: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(redis_url, 2)
    types("yyyy")
    assert run_command(capsys, "items", "--forget", "i-0").code == 0
    assert [one.interaction_id for one in stored(redis_url)] == ["i-1"]
    digest = interaction_digest("shop", "i-0").encode()
    assert not [key for key in redis.keys(STREAMS.annotation("*")) if digest in key]
    assert redis.zcard(STREAMS.annotations) == 1


def test_annotated_items_become_gold_rows_that_agreement_reads(
    redis_url: str, types: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    kept(redis_url)
    types("yynyyn", "sample")
    gold, scores = tmp_path / "gold.jsonl", tmp_path / "scores.jsonl"
    assert run_command(capsys, "dataset", "from-annotations", "--output", str(gold)).code == 0
    rows = [json.loads(line) for line in gold.read_text().splitlines()]
    assert sorted(row["gold_scores"]["trace.adherence"] for row in rows) == [0.0, 0.0, 1.0]
    assert {row["metadata"]["ragtide"]["chosen"][0]["selected"] for row in rows} == {False}
    assert run_command(capsys, "score", str(gold), "--output", str(scores)).code == 0
    agreement = run_command(capsys, "trust", "agreement", str(scores), "--gold", str(gold), "--json")
    assert (agreement.code, "trace.adherence" in agreement.stdout) == (0, True), agreement.stderr
    assert run_command(capsys, "dataset", "from-annotations", "--selected").code == 1, "never both"


def test_selected_answers_are_written_only_when_they_are_asked_for(
    redis_url: str, types: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(redis_url, sample=0.0)
    types("yy" * 10)
    assert run_command(capsys, "dataset", "from-annotations").code == 1
    done = run_command(capsys, "dataset", "from-annotations", "--selected")
    assert (done.code, "are about these items alone" in done.stderr) == (0, True)
    chosen = json.loads(done.stdout.splitlines()[0])["metadata"]["ragtide"]["chosen"][0]
    assert (chosen["selected"], chosen["inclusion_probability"]) == (True, None)


async def test_answers_reach_the_estimates_of_the_people(async_redis: Any, redis_url: str, types: Any) -> None:
    await worked(async_redis, [interaction(number) for number in range(3)], sample=0.999999)
    async with running(async_redis):
        assert (await asyncio.to_thread(types, "yny", "sample"))["published"] == 3
        await caught_up(async_redis)
    state = (await load_checkpoint(async_redis, STREAMS, StateOptions())).state
    found = {
        estimate.metric: estimate
        for estimate in estimates(state)
        if estimate.labeler == "gold" and estimate.estimator == "weighted"
    }
    assert found["trace.adherence"].n == 3
    assert found["trace.adherence"].estimate == pytest.approx(2 / 3)
    assert await letters(async_redis) == []


async def test_an_item_with_a_thumb_is_not_asked_because_the_first_gold_score_counts(
    async_redis: Any, redis_url: str, types: Any
) -> None:
    await worked(async_redis, [interaction(number) for number in range(3)], sample=0.999999)
    thumbs = [
        Feedback(pipeline="shop", interaction_id=f"i-{number}", gold_scores=gold) for number, gold in enumerate(THUMBS)
    ]
    async with running(async_redis):
        for thumb in thumbs:
            await async_redis.xadd(STREAMS.feedback, {DATA_FIELD: thumb.encode()})
        await caught_up(async_redis)
        # i-0 has both metrics already; of i-1 the supported fraction is open; i-2 has none.
        assert await asyncio.to_thread(types, "yy", "sample") == Counter(published=2, left=0)
        # A second person is asked about the annotated items, and not about the item with thumbs.
        assert (await asyncio.to_thread(types, "nn", "sample", annotator="bob"))["second"] == 2
        await caught_up(async_redis)
    assert await letters(async_redis) == []


THUMBS: Final = ({"trace.adherence": 1.0, "trace.supported_fraction": 1.0}, {"trace.adherence": 0.0})


def test_the_command_counts_the_queue_and_names_the_page(
    redis_url: str, types: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(redis_url)
    options = ("annotate", "--annotator", "ann", "--from", "sample", "--rate", "completeness", "--json")
    found = json.loads(run_command(capsys, *options).stdout)
    page = "http://127.0.0.1:8080/label?from=sample&rate=trace.completeness"
    assert found == {"items": 3, "sample": 3, "selected": 0, "page": page}
    types("yy", "sample")
    assert json.loads(run_command(capsys, *options).stdout)["items"] == 2
    wrong = run_command(capsys, "annotate", "--rate", "relevanc")
    assert (wrong.code, "context_relevance" in wrong.told) == (2, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--gold", "trace.adherence=1", "--probability", "0"), "inclusion_probability"),
        (("--gold", "trace.adherence=1", "--probability", "1.5"), "inclusion_probability"),
        (("--gold", "trace.adherence=1", "--probability", "nan"), "inclusion_probability"),
    ],
)
def test_a_probability_out_of_its_range_is_refused(
    options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_command(capsys, "feedback", "--pipeline", "shop", "--interaction", "i-0", *options)
    assert (done.code, words in done.told) == (2, True)


def test_feedback_of_the_command_line_has_its_probability(redis: Any, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--pipeline", "shop", "--interaction", "i-0", "--gold", "trace.adherence=1", "--probability", "0.05")
    assert run_command(capsys, "feedback", *options).code == 0
    assert [one.inclusion_probability for one in published(redis)] == [0.05]


async def test_a_pinned_specimen_leaves_the_sample_when_its_neighbours_are_gone(async_redis: Any) -> None:
    await worked(async_redis, [interaction(number) for number in range(4)], sample=1.0)
    specimens = KeptSpecimens(async_redis, Layout("ragtide"))
    ids = [one.interaction.interaction_id for one in await specimens.sample("shop")]
    order = STREAMS.specimen_order(pipeline_digest("shop"))
    oldest, second = ids[3], ids[2]

    async def sample() -> list[str]:
        return [one.interaction.interaction_id for one in await specimens.sample("shop")]

    key = STREAMS.specimens_of("shop", "sample")
    for age, one in enumerate(ids):
        digest = interaction_digest("shop", one)
        await async_redis.zincrby(key, -1000 * age, digest)
        await async_redis.zincrby(order, -1000 * age, digest)
    await async_redis.zrem(order, interaction_digest("shop", second))  # an alert names it
    assert set(await sample()) == set(ids), "an older one is still there"
    await async_redis.delete(STREAMS.specimen(interaction_digest("shop", oldest)))
    await async_redis.zrem(order, interaction_digest("shop", oldest))
    assert set(await sample()) == set(ids[:2])
    await async_redis.zadd(order, {interaction_digest("shop", second): 2e13})  # released, and kept for longer
    assert set(await sample()) == set(ids[:2])
