"""The item's screen: marks, scores, lists, and foreign text in every field."""

import json
from html import unescape
from typing import Any
from urllib.parse import parse_qsl

import pytest
from tests.support.alerts import alert
from tests.support.cases import for_each
from tests.support.http_service import http_service
from tests.support.metric_events import adherence
from tests.web.page.test_page import HOSTILE, SCRIPT, TOKENS, owner_of, page

from ragtide_runtime.redis.keys import Streams, interaction_digest, pipeline_digest, worst_list
from ragtide_runtime.settings.serve import WebSettings
from ragtide_schemas import (
    RagInteraction,
    SentenceLabels,
    SentenceProbabilities,
    Specimen,
    SpecimenLabeling,
    utc_now,
)
from ragtide_web.page.item_address import item_address, names_in
from ragtide_web.reading.items import SHOWN_CHARS, item_view, score_rows

STREAMS = Streams("ragtide", 0)
METRIC = "trace.adherence"
JUDGE = SentenceLabels(
    relevant=("0a", "0b"),
    utilized=("0a",),
    support={"a": ("0a",), "b": ("0b",), "c": ()},
    fully_supported={"a": True, "b": False, "c": False},
    n_document_sentences=3,
)
LOCAL = SentenceProbabilities(relevant=(0.9, 0.4, 0.1), utilized=(0.8, 0.2, 0.1), supported=(0.9, 0.6, 0.2))


def specimen(interaction_id: str = "i-1", pipeline: str = "shop", **fields: Any) -> Specimen:
    """Return a specimen that a judge and a local labeler labeled."""
    one = RagInteraction.model_validate(
        {
            "interaction_id": interaction_id,
            "pipeline": pipeline,
            "question": "May I cancel?",
            "documents": [
                {"id": "booking.md", "text": "Cancel online. It is free.", "score": 0.82,
                 "sentences": ["Cancel online.", "It is free."]},
                {"text": "Aprons.", "sentences": ["Aprons."]},
            ],
            "response": "Yes. Free. Refunded.",
            "response_sentences": ["Yes.", "Free.", "Refunded."],
            **fields,
        }
    )  # fmt: skip
    labelings = [
        SpecimenLabeling(
            labeler=name, labeler_version="1", profile="ragbench", labels=(labels,) if one.response_sentences else (),
            scores={METRIC: score, "trace.context_utilization": 1 / 3},
        )
        for name, labels, score in (("local", LOCAL, 0.5), ("judge", JUDGE, 0.0))
    ]  # fmt: skip
    return Specimen(
        interaction=one,
        labelings=tuple(labelings),
        labeled_at=utc_now(),
        cost_usd=0.0005,
        prompt_tokens=1438,
        trace_id="7f" * 16,
    )


async def keep(redis: Any, *specimens: Specimen, name: str = worst_list(METRIC, "local")) -> None:
    """Store specimens on a list, the first as the worst."""
    for rank, one in enumerate(reversed(specimens)):
        pipeline, digest = (
            one.interaction.pipeline,
            interaction_digest(one.interaction.pipeline, one.interaction.interaction_id),
        )
        await redis.set(STREAMS.specimen(digest), one.to_stored())
        await redis.zadd(STREAMS.specimen_pipelines, {pipeline: 1e15})
        await redis.sadd(STREAMS.specimen_lists(pipeline_digest(pipeline)), name)
        await redis.zadd(STREAMS.specimens_of(pipeline, name), {digest: rank})


@pytest.mark.pure
def test_marks_of_the_judge_and_disagreement_first() -> None:
    view = item_view(specimen(), None, sees_texts=True)
    assert view.labeler == "judge"
    assert view.response is not None
    assert [one.support for one in view.response] == ["supported", "partly", "not supported"]
    assert view.response[0].by == ("0a",)
    sentences = view.documents[0].sentences
    assert sentences is not None
    assert [(sentence.relevant, sentence.utilized) for sentence in sentences] == [(True, True), (True, False)]
    rows = score_rows(view.scores)
    assert [row.metric for row in rows] == [METRIC, "trace.context_utilization"]
    assert rows[0].difference == 0.5
    assert rows[1].scores[1].note == "|U| / T = 1 / 3"
    local = item_view(specimen(), "local", sees_texts=True)
    assert local.uncertain
    assert local.response is not None
    assert [one.support for one in local.response] == ["supported", "supported", "not supported"]


CALLS = [
    {"name": "search", "kind": "tool", "round": 1, "query": "cancel", "documents": [0], "returned": 7,
     "latency_s": 0.4},
    {"name": "pages", "kind": "tool", "round": 1, "arguments": {"page": 7}, "documents": [1], "returned": 1},
    {"name": "search", "kind": "tool", "round": 2, "query": "refund", "documents": [], "error": "timeout"},
    {"name": "search", "kind": "tool", "round": 3, "query": "refunds", "returned": 0},
    {"name": "search", "kind": "tool", "round": 3, "query": "money", "returned": 3},
    {"name": "book", "kind": "tool", "round": 3},
]  # fmt: skip


@pytest.mark.pure
def test_the_calls_of_a_run_stand_by_round_with_what_the_answer_had_of_each() -> None:
    run = specimen(steps=CALLS, steps_left_out=5)
    view = item_view(run, None, sees_texts=True)
    assert [(kept.number, [call.number for call in kept.calls]) for kept in view.rounds] == [
        (1, [1, 2]), (2, [3]), (3, [4, 5, 6]),
    ]  # fmt: skip
    calls = [call for kept in view.rounds for call in kept.calls]
    assert [call.outcome for call in calls] == ["used", "unused", "failed", "nothing", "not reached", "other"]
    assert [call.wasted for call in calls] == [0.0, 1.0, 1.0, 1.0, 1.0, 0.0]
    assert [call.asked and call.asked.untrusted_text for call in calls] == [
        "cancel", '{"page":7}', "refund", "refunds", "money", None,
    ]  # fmt: skip
    assert (calls[0].used, calls[0].relevant, calls[0].documents) == (("0a",), ("0a", "0b"), (0,))
    assert view.steps_left_out == 5
    local = [call for kept in item_view(run, "local", sees_texts=True).rounds for call in kept.calls]
    assert [call.wasted for call in local[:2]] == pytest.approx([0.1, 0.9])
    assert item_view(specimen(), None, sees_texts=True).rounds == ()


@pytest.mark.pure
def test_what_a_call_was_asked_is_a_text_that_is_hidden_and_cut_as_others_are() -> None:
    calls = [{"name": "search", "kind": "tool", "query": "q" * 400 + "\x1b[2J"}, *CALLS[1:2]]
    run = specimen(steps=calls)
    hidden = item_view(run, None, sees_texts=False)
    assert [call.asked for kept in hidden.rounds for call in kept.calls] == [None, None]
    assert [call.outcome for kept in hidden.rounds for call in kept.calls] == ["other", "unused"]
    (first, *_), whole = item_view(run, None, sees_texts=True).rounds, item_view(run, None, sees_texts=True, whole=True)
    assert first.number is None
    assert first.calls[0].asked is not None
    assert (first.calls[0].asked.cut, len(first.calls[0].asked.untrusted_text)) == (True, 300)
    asked = whole.rounds[0].calls[0].asked
    assert asked is not None
    assert not asked.cut
    assert "\x1b" not in asked.untrusted_text


@pytest.mark.pure
def test_calls_whose_documents_have_no_labels_are_of_an_unknown_use() -> None:
    run = specimen(steps=CALLS)
    unlabeled = run.labelings[1].model_copy(update={"labels": ()})
    view = item_view(run.model_copy(update={"labelings": (unlabeled,)}), None, sees_texts=True)
    calls = [call for kept in view.rounds for call in kept.calls]
    assert [call.outcome for call in calls] == ["unknown", "unknown", "failed", "nothing", "not reached", "other"]
    assert [call.wasted for call in calls] == [None, None, 1.0, 1.0, 1.0, 0.0]


async def test_the_page_of_a_run_is_escaped_and_hides_its_texts(async_redis: Any, redis_url: str) -> None:
    calls = [{**CALLS[0], "query": f"asked {SCRIPT}"}, {**CALLS[1], "arguments": {SCRIPT: SCRIPT}}, *CALLS[2:]]
    await keep(async_redis, specimen(steps=calls), specimen("i-2"))
    async with http_service(redis_url, serve={"tokens": TOKENS}, web=WebSettings(texts="operator")) as service:
        for token, sees in (("ann-0123456789", True), ("viewer-0123456789", False)):
            headers = {"Authorization": f"Bearer {token}"}
            status, shown = await page(service, item_address("shop", "i-1"), **headers)
            assert status == 200
            assert SCRIPT not in shown
            assert ("asked &lt;" in shown, "refunds" in shown) == (sees, sees)
            assert shown.count('<details id="call-') == len(calls)
            assert '<a class="key" href="#d-0a">' in shown
            assert "failed: timeout" in shown
            async with service.session.get(f"{service.url}/v1/item?interaction_id=i-1", headers=headers) as reply:
                item = await reply.text()
            assert ("asked <" in item, "refunds" in item) == (sees, sees)
            assert json.loads(item)["rounds"][0]["calls"][0]["outcome"] == "used"
        _, without = await page(service, item_address("shop", "i-2"), Authorization="Bearer ann-0123456789")
        assert 'id="run"' not in without


def with_reasons(**reasons: str) -> Specimen:
    """Return a specimen whose judge gave reasons, by metric or sentence; two underscores stand for a dot or colon."""
    found = specimen()
    keys = {key.replace("sentence__", "sentence:").replace("__", "."): text for key, text in reasons.items()}
    judge = found.labelings[1].model_copy(update={"reasons": keys})
    return found.model_copy(update={"labelings": (found.labelings[0], judge)})


@pytest.mark.pure
def test_the_judges_reasons_are_shown_to_those_who_see_texts() -> None:
    kept = with_reasons(sentence__c="No document has a refund.", trace__adherence="One sentence is made up.")
    shown = item_view(kept, None, sees_texts=True)
    assert [sentence.reason and sentence.reason.untrusted_text for sentence in shown.response or ()] == [
        None,
        None,
        "No document has a refund.",
    ]
    assert [score.reason and score.reason.untrusted_text for score in shown.scores[:2]] == [
        None,
        "One sentence is made up.",
    ]
    hidden = item_view(kept, None, sees_texts=False)
    assert {sentence.reason for sentence in hidden.response or ()} == {None}
    assert {score.reason for score in hidden.scores} == {None}


async def test_reasons_stand_escaped_on_the_page_for_operators_only(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, with_reasons(sentence__c=f"Because {SCRIPT}", trace__adherence=f"Since {SCRIPT}"))
    async with http_service(redis_url, serve={"tokens": TOKENS}, web=WebSettings(texts="operator")) as service:
        for token, sees in (("ann-0123456789", True), ("viewer-0123456789", False)):
            status, shown = await page(service, item_address("shop", "i-1"), Authorization=f"Bearer {token}")
            assert status == 200
            assert SCRIPT not in shown
            assert ("Because" in shown, "Since" in shown) == (sees, sees)


def with_spans(*spans: tuple[str, int, int]) -> Specimen:
    """Return a specimen whose judge marked parts of sentences."""
    one = specimen()
    marks = [{"sentence": key, "start": start, "end": end, "probability": 0.9} for key, start, end in spans]
    labels = SentenceLabels.model_validate({**JUDGE.model_dump(), "unsupported_spans": marks})
    judge = one.labelings[1].model_copy(update={"labels": (labels,)})
    return one.model_copy(update={"labelings": (one.labelings[0], judge)})


@pytest.mark.pure
def test_unsupported_parts_are_marked_and_the_text_stays_whole() -> None:
    view = item_view(
        with_spans(("c", 4, 7), ("c", 0, 2), ("c", 1, 3), ("c", 9, 50), ("z", 0, 1)), None, sees_texts=True
    )
    assert view.response is not None
    assert [one.unsupported for one in view.response[:2]] == [(), ()]
    # "Refunded."
    assert view.response[2].unsupported == ((0, 3), (4, 7))
    hidden = item_view(with_spans(("c", 0, 2)), None, sees_texts=False)
    assert hidden.response is not None
    assert hidden.response[2].unsupported == ()


async def test_unsupported_parts_are_underlined(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, with_spans(("c", 0, 3)))
    async with http_service(redis_url) as service:
        _, text = await page(service, "/i/shop/i-1")
    assert "<mark>Ref</mark>unded." in text


@pytest.mark.pure
def test_long_texts_are_cut_unless_all_is_asked_for() -> None:
    one = specimen(question="x" * 1_000, response="y" * 200_000, response_sentences=None)
    view = item_view(one, None, sees_texts=True)
    assert view.cut
    assert view.response_text is not None
    assert len(view.response_text.untrusted_text) == SHOWN_CHARS - 1_000
    whole = item_view(one, None, sees_texts=True, whole=True)
    assert not whole.cut
    assert whole.response_text is not None
    assert len(whole.response_text.untrusted_text) == 200_000


@pytest.mark.pure
@for_each("name", ["a/b", "a%2Fb", "?#&", "точка", "..", ".", " ", "<b>", "\u202e"])
def test_an_address_gives_its_names_back(name: str) -> None:
    address = item_address("p 1", name)
    path, _, query = address.partition("?")
    if query:
        assert dict(parse_qsl(query)) == {"pipeline": "p 1", "id": name}
    else:
        assert names_in(path) == ("p 1", name)
    # A proxy decodes a slash, so no segment of a path holds one.
    assert "%2F" not in path
    assert "/." not in path


async def test_an_item_with_its_place_in_the_list(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, *(specimen(f"i-{number}") for number in range(3)))
    web = WebSettings(trace_url="https://traces.example/t/{trace_id}?x={y}")
    async with http_service(redis_url, web=web) as service:
        status, text = await page(service, "/i/shop/i-1?list=worst")
        assert status == 200
        assert "item 2 of 3" in text
        assert 'rel="prev" href="/i/shop/i-0?list=worst"' in text
        assert 'rel="next" href="/i/shop/i-2?list=worst"' in text
        assert 'data-by="0a"' in text
        assert "not supported" in text
        assert "booking.md" in text
        assert "|U| / T = 1 / 3" in unescape(text)
        assert f'href="https://traces.example/t/{"7f" * 16}?x={{y}}"' in text
        _, listed = await page(service, "/t?pipeline=shop&list=worst&metric=trace.adherence")
        assert listed.count('<th scope="row"') == 3
        assert listed.index("/i/shop/i-0?") < listed.index("/i/shop/i-2?")
        old = "/i?pipeline=shop&list=worst&metric=trace.adherence"  # messages have such links
        assert await _redirect(service, old) == (303, old.replace("/i?", "/t?"))
        status, place = await _redirect(service, "/i/i-1")
        assert (status, place) == (303, "/i/shop/i-1")
        for path in ("/i/shop/i-1?download=1", "/t?pipeline=shop&list=worst&download=1"):
            _, rows = await page(service, path)
            row = json.loads(rows.splitlines()[0])
            assert row["question"] == "May I cancel?"
            assert row["metadata"]["ragtide"]["pipeline"] == "shop"


async def _redirect(service: Any, path: str) -> tuple[int, str]:
    async with service.session.get(service.url + path, allow_redirects=False) as reply:
        return reply.status, reply.headers["location"]


@pytest.mark.heavy
async def test_the_items_of_an_alert_are_a_list(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, *(specimen(f"i-{number}") for number in range(3)))
    fired = alert("A-1", pipeline="shop", metric=METRIC, worst_interaction_ids=("i-2", "none", "i-0"))
    await (await owner_of(async_redis)).commit(*adherence([0.5], pipeline="shop"), alerts=(fired,))
    async with http_service(redis_url) as service:
        _, listed = await page(service, "/t?alert=A-1")
        assert listed.index("/i/shop/i-2?alert=A-1") < listed.index("/i/shop/i-0?alert=A-1")
        assert "1 of the list are no longer kept." in listed
        _, text = await page(service, "/i/shop/i-2?alert=A-1")
        assert "item 1 of 2" in text
        assert 'rel="next" href="/i/shop/i-0?alert=A-1"' in text
        _, shown = await page(service, "/a/A-1")
        assert 'href="/i/shop/i-2?alert=A-1"' in shown


@pytest.mark.heavy
async def test_an_id_of_two_pipelines_and_one_that_is_gone(async_redis: Any, redis_url: str) -> None:
    await keep(async_redis, specimen("i/1", "shop"), specimen("i/1", "b/nk"))
    async with http_service(redis_url) as service:
        _, text = await page(service, "/i/i%2F1")
        assert 'href="/i?pipeline=b%2Fnk&amp;id=i%2F1"' in text
        assert (await page(service, "/i/b%2Fnk/i%2F1"))[0] == 200
        status, text = await page(service, "/i/shop/none")
        assert status == 404
        assert "it expired after specimens.keep_s (7 d)" in unescape(text)
        assert (await page(service, "/i/a/b/c"))[0] == 404
        _, empty = await page(service, "/t?pipeline=none&list=newest")
        assert "No answer of the last 7 d is kept." in empty


async def test_without_texts_there_are_scores_and_marks(async_redis: Any, redis_url: str) -> None:
    secret = "SECRET"
    fields = {
        "question": secret, "response": secret, "response_sentences": [secret], "reference_answer": secret,
        "metadata": {"a": secret}, "history": [{"question": secret}],
        "documents": [{"id": secret, "text": secret, "sentences": [secret], "metadata": {"title": secret}}],
    }  # fmt: skip
    await keep(async_redis, specimen("i-1", "shop", **fields), specimen("i-2", "bank"))
    token = {"Authorization": "Bearer viewer-0123456789"}
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for path in ("/i/shop/i-1", "/t?pipeline=shop&list=worst"):
            status, text = await page(service, path, **token)
            assert status == 200
            assert secret not in text
            assert "texts are hidden" in text
        _, text = await page(service, "/i/shop/i-1", **token)
        assert 'data-support="supported"' in text
        assert (await page(service, "/i/shop/i-1?download=1", **token))[0] == 403
        hidden, unknown = await page(service, "/i/bank/i-2", **token), await page(service, "/i/none/i-2", **token)
        assert hidden[0] == unknown[0] == 404
        assert hidden[1].replace("/i/bank/", "/i/none/") == unknown[1]
        _, listed = await page(service, "/t?pipeline=bank&list=worst", **token)
        assert "i-2" not in listed


async def test_every_text_is_data(async_redis: Any, redis_url: str) -> None:
    foreign = f"{HOSTILE} текст"
    fields = {
        "question": foreign, "response": foreign, "response_sentences": [foreign], "reference_answer": foreign,
        "metadata": {foreign: foreign}, "segments": {SCRIPT: SCRIPT},
        "documents": [
            {"id": SCRIPT, "text": foreign, "sentences": [foreign], "metadata": {"title": foreign}},
            {"text": f"{foreign} {'w' * 100_000}"},
        ],
    }  # fmt: skip
    await keep(async_redis, specimen(f"i/{SCRIPT}", f"p {SCRIPT}", **fields))
    async with http_service(redis_url) as service:
        address = item_address(f"p {SCRIPT}", f"i/{SCRIPT}", {"list": "worst"})
        for path in (address, f"{address}&all=1", item_address(f"p {SCRIPT}", f"i/{SCRIPT}").replace("/i/", "/i/", 1)):
            status, text = await page(service, path)
            assert status == 200
            assert "<script>alert" not in text
            assert "&lt;script&gt;" in text
            assert "\u202e" not in text
            assert "\x07" not in text
        assert len((await page(service, address))[1]) < 100_000 < len((await page(service, f"{address}&all=1"))[1])
        _, listed = await page(service, f"/t?pipeline=p+{SCRIPT}&list=worst")
        assert "<script>alert" not in listed
        assert "текст" in listed
