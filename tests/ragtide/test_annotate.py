"""`ragtide annotate`: answers about the sample are published with their probability, and no others."""

import asyncio
import io
import json
import os
import pty
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from tests.aggregator.test_feedback import caught_up, letters, running
from tests.consumers.specimens.test_keeping import worked
from tests.ragtide.test_foreign_text import FOREIGN, raw
from tests.ragtide.test_items import STREAMS, keep
from tests.support.conditions import HANGS_S
from tests.support.in_process import Done, run_command

from ragtide.testing import interaction
from ragtide_aggregator.checkpoint.loading import load_checkpoint
from ragtide_aggregator.estimates.estimates import estimates
from ragtide_aggregator.reading.specimens import KeptSpecimens
from ragtide_aggregator.state.state import StateOptions
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, interaction_digest, pipeline_digest
from ragtide_runtime.redis.layout import Layout
from ragtide_schemas import Feedback

TEXTS = ["The tower was built in 1889.", "It may be so.", "Cats eat fish at night."]


@pytest.fixture(autouse=True)
def _here(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def types(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(keys: str, *options: str) -> Done:
        monkeypatch.setattr(sys, "stdin", io.StringIO(keys))
        return run_command(capsys, "annotate", "--annotator", "ann", *options)

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
    done = types("yy\nn y\nyn", "--from", "sample", "--share", "1")
    assert done.code == 0, done.stderr
    found = published(redis)
    assert {one.interaction_id for one in found} == {"i-0", "i-1", "i-2"}
    assert [one.gold_scores["trace.adherence"] for one in found] == [1.0, 0.0, 0.0]
    assert [one.gold_scores["trace.supported_fraction"] for one in found] == [1.0, 0.5, 0.5]
    assert {one.inclusion_probability for one in found} == {1.0}, "given that the producer sent it"
    assert [one.metadata["supported"] for one in found][2] == {"a": True, "b": False}
    assert {one.annotator for one in found} == {"ann"}
    assert "3 annotated; 3 of the sample, published as feedback; 0 left" in done.stderr
    again = types("yyyyyy")
    assert ("no item for you" in again.stderr, len(published(redis))) == (True, 3)


def test_a_share_of_the_sample_multiplies_the_probability(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, 12)
    types("yy" * 12, "--from", "sample", "--share", "0.4")
    found = published(redis)
    assert 0 < len(found) < 12
    assert {one.inclusion_probability for one in found} == {0.4}


def test_the_worst_and_disputed_items_are_never_published(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, sample=0.0)
    done = types("yy" * 10, "--from", "worst", "--from", "disputed")
    assert "selected, in no estimate" in done.stderr
    found = stored(redis_url)
    assert found
    assert {one.inclusion_probability for one in found} == {None}
    assert published(redis) == []


def test_an_item_of_the_sample_is_not_asked_because_it_is_bad(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url)
    done = types("yy" * 10, "--from", "worst", "--from", "disputed")
    assert ("no item for you" in done.stderr, stored(redis_url)) == (True, [])
    assert "of 3" in types("q").stdout


def test_back_changes_an_answer_and_skip_and_quit_are_kept(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url)
    done = types("yx?bny" + "b" + "nn" + "s" + "yq", "--from", "sample")
    assert done.code == 0, done.stderr
    assert "Keys: y, n; s skip" in done.stdout
    (first,) = published(redis)
    assert first.metadata["supported"] == {"a": False, "b": False}
    assert [one.skipped for one in stored(redis_url)] == [False, True]
    assert "1 annotated; 1 of the sample, published as feedback; 1 skipped; 1 left for you" in done.stderr
    assert "item 1 of 1" in types("", "--from", "sample").stdout, "the end of the input quits"


def test_a_second_person_is_asked_and_only_the_first_answers_count(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, 1)
    types("yy")
    done = types("nn", "--annotator", "bob")
    assert "1 of the sample that another person annotated first" in done.stderr
    assert [(one.annotator, one.gold_scores["trace.adherence"]) for one in published(redis)] == [("ann", 1.0)]
    assert [one.annotator for one in stored(redis_url)] == ["ann", "bob"]


def test_a_gold_score_of_the_interaction_itself_is_the_first(redis_url: str, redis: Any, types: Any) -> None:
    graded = {"trace.adherence": 1.0, "trace.supported_fraction": 1.0}
    keep(redis_url, interaction(0, gold_scores=graded), interaction(1, gold_scores={"trace.adherence": 1.0}))
    done = types("nnnn", "--from", "sample")
    assert "1 annotated" in done.stderr, "an item is not asked about if its answer cannot count"
    assert "left for you" in done.stderr
    assert [one.gold_scores for one in published(redis)] == [{"trace.supported_fraction": 0.0}]


def test_an_item_that_was_scored_too_long_ago_to_count_is_not_asked(
    redis_url: str, types: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(redis_url, 1)
    with monkeypatch.context() as late:
        late.setenv("RAGTIDE_FEEDBACK_WINDOW_S", "0.001")
        assert "no item for you" in types("yy", "--from", "sample").stderr
    assert "1 annotated" in types("yy", "--from", "sample").stderr


def test_ratings_are_asked_for_chosen_metrics(redis_url: str, redis: Any, types: Any) -> None:
    kept(redis_url, 1)
    types("yy6" + "4", "--rate", "context_relevance")
    (found,) = published(redis)
    assert found.gold_scores["trace.context_relevance"] == 0.75
    assert found.metadata["ratings"] == {"trace.context_relevance": 4}
    wrong = types("", "--rate", "relevanc")
    assert (wrong.code, "context_relevance" in wrong.told) == (2, True)


def test_the_screen_is_blind_and_at_most_80_columns_wide(redis_url: str, types: Any) -> None:
    kept(redis_url, sample=1.0)
    shown_text = types("q").stdout
    assert "0a The tower was built in 1889." in shown_text
    assert not [word for word in ("adherence", "judge", "local", "worst", "sample", "0.5") if word in shown_text]
    assert max(map(len, shown_text.splitlines())) <= 80


def test_a_foreign_text_does_not_control_the_terminal(redis_url: str, types: Any) -> None:
    documents = [{"text": f"One {FOREIGN}. Two {FOREIGN}.", "id": "d"}]
    keep(redis_url, interaction(0, question=FOREIGN, documents=documents, response=f"Yes {FOREIGN}."))
    done = types("yyyyyy")
    assert done.code == 0, done.stderr
    assert raw(done.stdout) == []


def test_an_annotator_without_a_proper_name_is_refused(types: Any) -> None:
    done = types("", "--annotator", "a\x1b[2J")
    assert (done.code, "annotator" in done.told) == (2, True)


def test_keys_of_a_terminal_need_no_enter(
    redis_url: str, redis: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(redis_url, 2)
    user, program = pty.openpty()

    def type_them() -> None:
        deadline = time.monotonic() + HANGS_S
        while termios.tcgetattr(program)[3] & termios.ICANON and time.monotonic() < deadline:
            time.sleep(0.005)
        os.write(user, b"yyn\x1b[Ay\x04")  # the end comes too if a key was lost

    with os.fdopen(program, "r") as stream, ThreadPoolExecutor(1) as person:
        monkeypatch.setattr(sys, "stdin", stream)
        typed = person.submit(type_them)
        done = run_command(capsys, "annotate", "--annotator", "ann")
        typed.result()
        assert termios.tcgetattr(program)[3] & termios.ICANON, "the terminal is as before"
    os.close(user)
    assert done.code == 0, done.stderr
    assert [one.gold_scores["trace.adherence"] for one in published(redis)] == [1.0, 0.0]


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
    types("yynyyn", "--from", "sample")
    gold, scores = tmp_path / "gold.jsonl", tmp_path / "scores.jsonl"
    assert run_command(capsys, "dataset", "from-annotations", "--output", str(gold)).code == 0
    rows = [json.loads(line) for line in gold.read_text().splitlines()]
    assert sorted(row["gold_scores"]["trace.adherence"] for row in rows) == [0.0, 0.0, 1.0]
    assert {row["metadata"]["ragtide"]["chosen"][0]["selected"] for row in rows} == {False}
    assert run_command(capsys, "score", str(gold), "--output", str(scores)).code == 0
    agreement = run_command(capsys, "agreement", str(scores), "--gold", str(gold), "--json")
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
        done = await asyncio.to_thread(types, "yny", "--from", "sample")
        assert "3 of the sample" in done.stderr
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
        done = await asyncio.to_thread(types, "yy", "--from", "sample")
        assert "2 of the sample, published as feedback" in done.stderr
        assert "0 left for you" in done.stderr
        # A second person is asked about the annotated items, and not about the item with thumbs.
        second = await asyncio.to_thread(types, "nn", "--from", "sample", "--annotator", "bob")
        assert "2 of the sample that another person annotated first" in second.stderr
        await caught_up(async_redis)
    assert await letters(async_redis) == []


THUMBS: Final = ({"trace.adherence": 1.0, "trace.supported_fraction": 1.0}, {"trace.adherence": 0.0})


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
