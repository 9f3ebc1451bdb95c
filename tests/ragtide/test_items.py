"""`ragtide items` and `ragtide items` show what workers kept, and delete it on request."""

import asyncio
import json
from typing import Any

import pytest
from tests.consumers.specimens.test_keeping import worked
from tests.ragtide.test_foreign_text import FOREIGN, raw
from tests.support.alerts import alert
from tests.support.in_process import Done, run_command

from ragtide import Labeling, LocalLabeler, RagInteraction
from ragtide.testing import interaction
from ragtide_consumers.labelers.protocol import LabelerId, ReferenceLabeling
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import Streams, interaction_digest, pipeline_digest
from ragtide_schemas import DeadLetter, Reason, SentenceLabels, Specimen

STREAMS = Streams("ragtide", 0)


class Judged:
    """The local labeler with a judge's labels beside its own."""

    name, version, profile = "local", LocalLabeler.version, "ragbench"

    async def label(self, one: RagInteraction) -> Labeling:
        labeling = LocalLabeler().label_now(one)
        labels = SentenceLabels(relevant=("0a",), utilized=("0a",), support={"a": ("0a",)}, n_document_sentences=2)
        scores = {"trace.context_relevance": 0.5, "trace.adherence": 1.0}
        judge = Labeling(scores, labels=(labels,))
        judged = ReferenceLabeling(judge, LabelerId("judge", "m", "ragbench"), 1.0, uniform_probability=1.0)
        return Labeling(labeling.scores, labeling.absent, labels=labeling.labels, judged=judged)


@pytest.fixture(autouse=True)
def _here(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "80")


def keep(redis_url: str, *given: RagInteraction, **settings: Any) -> None:
    """Label interactions and keep them."""

    async def work() -> None:
        async with connect_async(redis_url) as redis:
            await worked(redis, list(given), Judged(), **{"sample": 1.0, **settings})

    asyncio.run(work())


def lines(done: Done) -> list[Any]:
    assert done.code == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_an_item_is_shown_with_marked_sentences_and_filled_formulas(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, interaction(7, session_id="s-1", segments={"lang": "en"}))
    done = run_command(capsys, "item", "i-7")
    assert done.code == 0, done.stderr
    assert "0a R   U    a        The tower was built in 1889." in done.stdout
    assert "0b -   -             It stands in Paris." in done.stdout
    assert "a S   0a The tower was built in 1889." in done.stdout
    assert "Marks: labels of judge; R relevant" in done.stdout
    assert "|R| / T = 1 / 2" in done.stdout
    assert "1 if all, else 0: 1 of 1 response sentences are supported" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines())) <= 80
    probabilities = run_command(capsys, "item", "i-7", "--labeler", "local").stdout
    assert "Marks: probabilities of local" in probabilities


def test_an_item_as_json_can_be_published_again_and_has_its_marks(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, interaction(7))
    (found,) = lines(run_command(capsys, "item", "i-7", "--json"))
    assert RagInteraction.model_validate(found["interaction"]).response_sentences == ("The tower was built in 1889.",)
    assert [labeling["labeler"] for labeling in found["labelings"]] == ["local", "judge"]
    assert found["marks"]["labeler"] == "judge"
    assert found["marks"]["documents"][0][0] == {
        "key": "0a",
        "text": "The tower was built in 1889.",
        "relevant": True,
        "utilized": True,
        "supports": ["a"],
    }
    assert found["formulas"]["judge"]["trace.context_relevance"] == "|R| / T = 1 / 2"
    names = ("marks", "formulas")
    Specimen.model_validate({name: value for name, value in found.items() if name not in names})


def test_the_worst_of_a_metric_come_worst_first(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    unlike = ["The tower was built in 1889.", "It may be so.", "Cats eat fish at night."]
    keep(redis_url, *(interaction(number, response=text) for number, text in enumerate(unlike)), sample=0.0)
    found = lines(run_command(capsys, "items", "--worst", "--metric", "adherence", "--labeler", "local", "--json"))
    scores = [one["score"] for one in found]
    assert scores == sorted(scores)
    assert len(scores) == 3
    assert {(one["metric"], one["labeler"], one["list"]) for one in found} == {
        ("trace.adherence", "local", "worst:trace.adherence:local")
    }
    assert found[0]["specimen"]["interaction"]["interaction_id"] == found[0]["interaction_id"]
    table = run_command(capsys, "items", "--worst").stdout
    assert "worst:trace.adherence:local" in table
    assert max(map(len, table.splitlines())) <= 80


def test_the_sample_and_the_counts(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    keep(redis_url, interaction(0), interaction(1), interaction(0, pipeline="help"))
    sample = lines(run_command(capsys, "items", "--sample", "--pipeline", "shop", "--json"))
    assert [one["interaction_id"] for one in sample] == ["i-1", "i-0"]
    counts = lines(run_command(capsys, "items", "--json"))
    assert {"pipeline": "shop", "list": "sample", "items": 2} in counts
    assert "sample" in run_command(capsys, "items").stdout
    both = run_command(capsys, "item", "i-0")
    assert (both.code, "--pipeline (help, shop)" in both.stderr) == (1, True)
    assert run_command(capsys, "item", "i-0", "--pipeline", "help").code == 0


def test_the_newest_are_kept_whatever_their_score(redis_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    keep(redis_url, *(interaction(number) for number in range(4)), sample=0.0, newest_n=3)
    found = lines(run_command(capsys, "items", "--newest", "--metric", "adherence", "--labeler", "local", "--json"))
    assert len({one["interaction_id"] for one in found}) == 3
    assert {(one["list"], one["metric"]) for one in found} == {("newest", "trace.adherence")}
    scores = [one["specimen"]["labelings"][0]["scores"]["trace.adherence"] for one in found]
    assert [one["score"] for one in found] == scores
    table = run_command(capsys, "items", "--newest").stdout
    assert "newest" in table
    assert max(map(len, table.splitlines())) <= 80


def test_the_items_of_an_alert_come_in_its_order(
    redis_url: str, redis: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, interaction(0), interaction(1))
    ids = ("i-1", "i-9", "i-0")
    redis.xadd(STREAMS.alerts, {"data": alert("a-1", pipeline="shop", worst_interaction_ids=ids).encode()})
    done = run_command(capsys, "items", "--alert", "a-1", "--json")
    assert [line["interaction_id"] for line in lines(done)] == ["i-1", "i-0"]
    assert "Not kept: i-9" in done.stderr
    unknown = run_command(capsys, "items", "--alert", "a-2")
    assert (unknown.code, "There is no alert a-2" in unknown.stderr) == (1, True)


def test_an_item_is_forgotten_with_everything_that_names_it(
    redis_url: str, redis: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, interaction(0), interaction(1))
    for payload in (
        b'{"interaction_id": "i-0", "pipeline": "shop"}',
        b'{"interaction_id": "i-0", "pipeline": ',
        b'{"interaction_id": "i-1", "question": "i-0"}',
    ):
        letter = DeadLetter.of(
            payload, stream=STREAMS.interactions, entry_id="1-0", reason=Reason.INVALID, detail="why", component="test"
        )
        redis.xadd(STREAMS.dead_letters, {"data": letter.encode()})
    done = run_command(capsys, "items", "--forget", "i-0")
    assert (done.code, "1 items and 2 dead letters deleted" in done.stderr) == (0, True)
    ((_, left),) = redis.xrange(STREAMS.dead_letters)
    assert DeadLetter.decode(left[b"data"]).is_about("i-1")
    digest = interaction_digest("shop", "i-0").encode()
    stored = [key for key in redis.keys("*specimen*") if digest in key]
    stored += [key for key in redis.keys("*specimen-list:*") if redis.zscore(key, digest) is not None]
    stored += [key for key in redis.keys("*specimen-order:*") if redis.zscore(key, digest) is not None]
    sizes = redis.hgetall(STREAMS.specimen_sizes(pipeline_digest("shop")))
    assert (stored, digest in sizes) == ([], False)
    assert redis.hget(STREAMS.specimen_usage, "shop") == sizes[b""]
    assert run_command(capsys, "items", "--forget", "i-0").code == 1
    assert run_command(capsys, "item", "i-0").code == 1
    assert run_command(capsys, "item", "i-1").code == 0


def test_items_that_are_gone_leave_the_lists_when_they_are_read(
    redis_url: str, redis: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(redis_url, *(interaction(number) for number in range(3)))
    redis.delete(*(STREAMS.specimen(interaction_digest("shop", f"i-{number}")) for number in (1, 2)))
    arguments = ("items", "--sample", "--limit", "3", "--json")
    assert [line["interaction_id"] for line in lines(run_command(capsys, *arguments))] == ["i-0"]
    sample = STREAMS.specimens_of("shop", "sample")
    assert redis.zrange(sample, 0, -1) == [interaction_digest("shop", "i-0").encode()]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("items", "--worst", "--sample"), "--worst and --sample exclude each other"),
        (("items", "--metric", "trace.adherence"), "add one of these"),
    ],
)
def test_options_that_contradict_are_refused(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_command(capsys, *arguments)
    assert (done.code, words in done.told) == (2, True)


def test_nothing_kept_and_a_damaged_specimen_are_told(
    redis_url: str, redis: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "No items" in run_command(capsys, "items").stdout
    keep(redis_url, interaction(0))
    redis.set(STREAMS.specimen(interaction_digest("shop", "i-0")), b"damaged")
    done = run_command(capsys, "items", "--sample")
    assert (done.code, "1 specimen cannot be read" in done.stderr) == (0, True)


@pytest.mark.parametrize("arguments", [("item", "i-0"), ("item", "i-0", "--json"), ("items", "--sample")])
def test_a_foreign_text_does_not_control_the_terminal(
    arguments: tuple[str, ...], redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = [{"text": f"One {FOREIGN}. Two {FOREIGN}.", "id": "d"}]
    keep(redis_url, interaction(0, question=FOREIGN, documents=documents, response=f"Yes {FOREIGN}."))
    done = run_command(capsys, *arguments)
    assert done.code == 0
    assert raw(done.stdout) == []
