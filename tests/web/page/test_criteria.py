"""Criteria on the page: numbers, the form with its check, and orders of operators."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.cases import for_each
from tests.support.http_service import Service, http_service
from tests.support.metric_events import START
from tests.web.page.test_page import SCRIPT, TOKENS, form, orders, page
from tests.web.page.test_pipeline import commit

from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_offline.demo import demo_interactions
from ragtide_roles.criteria.numbers import rule_for
from ragtide_roles.criteria.pricing import TYPICAL, criteria_prices
from ragtide_runtime.redis.keys import Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriterion, read_stored_criteria, store_criterion
from ragtide_schemas import MetricEvent, utc_now
from ragtide_schemas.criterion import Criterion
from ragtide_web.look.amounts import usd
from ragtide_web.page.criteria.form import WrongFieldError, criterion_fields, make_criterion

ANN = {"Authorization": "Bearer ann-0123456789"}
VIEWER = {"Authorization": "Bearer viewer-0123456789"}
FIELDS = {
    "name": "asks_back",
    "question": "Does the response ask a clarifying question?",
    "scale": "yes_no",
    "direction": "higher",
    "pipelines": "shop*, docs",
    "segments": "lang=de, lang=en",
    "rate": "0.2",
    "need_response": "1",
    "values": "",
}
ASKS_BACK = Criterion(
    name="asks_back",
    question="Does the response ask a clarifying question?",
    scale="yes_no",
    needs=("response",),
    pipelines=("shop*", "docs"),
    segments={"lang": ("de", "en")},
    rate=0.2,
)


def answers(criterion: Criterion, *values: float | None, pipeline: str = "shop") -> Sequence[MetricEvent]:
    """Return events with the answers to a criterion; None for an answer that the judge could not give."""
    return [
        MetricEvent(
            interaction_id=f"{criterion.version}-{number}",
            pipeline=pipeline,
            profile="ragbench",
            labeler="judge",
            labeler_version="1",
            occurred_at=START,
            labeled_at=START,
            scores={} if value is None else {criterion.metric: value},
            absent={criterion.metric: str(AbsentReason.JUDGE_CANNOT_TELL)} if value is None else {},
            declared={criterion.metric: criterion.declaration()},
        )
        for number, value in enumerate(values)
    ]


async def the_stored(redis: Any) -> tuple[StoredCriterion, ...]:
    return (await read_stored_criteria(redis, "ragtide")).criteria


async def main_of(service: Service, path: str = "/criteria", **headers: str) -> str:
    status, text = await page(service, path, **headers)
    assert status == 200, text
    return text.partition("<main")[2]


def test_the_form_makes_the_criterion_that_it_shows() -> None:
    own = Criterion(name="tone", question="How is it?", values={"good, kind": 1.0, "bad": 0.0}, direction="lower")
    made = make_criterion(FIELDS)
    assert made == ASKS_BACK
    assert make_criterion(criterion_fields(made)) == made
    assert make_criterion(criterion_fields(own)) == own
    assert criterion_fields(own)["values"] == '"good, kind" = 1\nbad = 0'
    built_in = make_criterion({"name": "answer.refused", "rate": "0.1"})
    assert built_in == Criterion.model_validate({"name": "answer.refused", "rate": 0.1})


PARTS = st.text(alphabet="ab,=\"'\\ 1\u00e9", min_size=1, max_size=8)
NUMBERS = st.floats(-1e6, 1e6) | st.sampled_from([1 / 3, 0.1, 1e-9])


@given(
    st.dictionaries(PARTS, NUMBERS, min_size=2, max_size=4),
    st.floats(1e-6, 1),
    st.lists(PARTS, min_size=1, max_size=3),
    st.dictionaries(PARTS, st.lists(PARTS, min_size=1, max_size=2, unique=True), max_size=2),
)
def test_the_form_of_a_criterion_makes_it_again(
    values: dict[str, float], rate: float, pipelines: list[str], segments: dict[str, list[str]]
) -> None:
    fields = {"values": values, "rate": rate, "pipelines": pipelines, "segments": segments}
    try:
        criterion = Criterion.model_validate({"name": "a", "question": "Is it?", **fields})
    except ValidationError:
        reject()
    assert make_criterion(criterion_fields(criterion)) == criterion


@for_each(
    "field, value",
    [
        ("name", "Asks Back"),
        ("question", "x" * 2_000),
        ("question", ""),
        ("question", "evil\u202e"),
        ("rate", "2"),
        ("rate", "much"),
        ("values", "\n".join(f"v{number} = {number}" for number in range(50))),
        ("values", "good"),
        ("values", "a = 1\nb = 1"),
        ("pipelines", "x" * 300),
        ("segments", "lang"),
    ],
)
def test_a_problem_of_the_form_names_its_field(field: str, value: str) -> None:
    fields = FIELDS | {field: value} | ({"scale": "values"} if field == "values" else {})
    with pytest.raises(WrongFieldError) as found:
        make_criterion(fields)
    assert found.value.field == field


async def test_a_problem_stands_beside_its_field(redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for action in ({}, {"check": "1"}):
            _, text, _ = await form(service, "/criteria", FIELDS | {"rate": "2"} | action, **ANN)
            field = re.search(r'<input name="rate"[^>]*>', text)
            slot = re.search(r'<p [^>]*id="problem-rate"[^>]*>([^<]*)</p>', text)
            assert field is not None
            assert slot is not None
            assert 'aria-invalid="true"' in field[0]
            assert "hidden" not in slot[0]
            assert slot[1].startswith("rate ")
            assert text.count('aria-invalid="true"') == 1


async def test_an_operator_adds_changes_pauses_and_removes_a_criterion(async_redis: Any, redis_url: str) -> None:
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert "There is no criterion yet" in await main_of(service, **ANN)
        status, place, _ = await form(service, "/criteria", FIELDS, **ANN)
        assert (status, place.partition("?")[0]) == (303, "/criteria")
        (stored,) = await the_stored(async_redis)
        assert (stored.criterion, stored.by, stored.paused) == (ASKS_BACK, "ann", False)
        text = await main_of(service, **ANN)
        assert "criteria.asks_back" in text
        assert "lang=de|en · 20.0%" in text
        assert ASKS_BACK.version in text
        assert "No answer yet." in text

        status, found, _ = await form(service, "/criteria", FIELDS, **ANN)
        assert (status, "is stored already" in found) == (422, True)
        again = FIELDS | {"changes": "asks_back", "rate": "0.5"}
        status, place, _ = await form(service, "/criteria", again, **ANN)
        assert (status, "numbers%20continue" in place) == (303, True)
        again["question"] = "Does it ask back?"
        status, place, _ = await form(service, "/criteria", again, **ANN)
        assert (status, "new%20version" in place) == (303, True)

        assert (await form(service, "/criteria/asks_back/pause", {"reason": ""}, **ANN))[0] == 422
        assert (await form(service, "/criteria/asks_back/pause", {"reason": "too dear"}, **ANN))[0] == 303
        assert [each.paused for each in await the_stored(async_redis)] == [True]
        assert 'data-state="silent">paused<' in await main_of(service, **ANN)
        assert (await form(service, "/criteria/asks_back/resume", {"reason": "again"}, **ANN))[0] == 303
        assert (await form(service, "/criteria/asks_back/remove", {"reason": "done"}, **ANN))[0] == 303
        assert await the_stored(async_redis) == ()
        assert (await form(service, "/criteria/asks_back/remove", {"reason": "done"}, **ANN))[0] == 404
        found_orders = await orders(async_redis)
        assert [(order.user, order.action.partition(" ")[0], order.subject) for order in found_orders] == [
            ("ann", action, "criterion asks_back")
            for action in ("add", "change", "change", "pause", "resume", "remove")
        ]
        assert found_orders[2].details["version before"] == ASKS_BACK.version


async def test_numbers_of_versions_stay_apart_and_cannot_tell_is_counted(async_redis: Any, redis_url: str) -> None:
    before = ASKS_BACK.model_copy(update={"question": "Does it ask?"})
    await commit(
        async_redis, *answers(ASKS_BACK, *[1.0, 0.0] * 150, None, None), *answers(before, 1.0),
        *answers(ASKS_BACK, 0.0, pipeline="docs"),
    )  # fmt: skip
    await store_criterion(async_redis, "ragtide", StoredCriterion(criterion=ASKS_BACK, by="ann", at=utc_now()))
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        text = await main_of(service, **VIEWER)
    rows = text.partition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")[:-1]
    assert len(rows) == 2  # of the pipelines that the viewer may see
    assert ">0.500<" in rows[0]
    assert ">302</td>" in rows[0]
    assert ">2</td>" in rows[0]
    assert before.version in rows[1]
    assert "<form" not in text
    assert rule_for(ASKS_BACK).splitlines()[0] in text


async def test_only_operators_of_all_pipelines_change_criteria(async_redis: Any, redis_url: str) -> None:
    some = {"name": "some", "token": "some-0123456789", "access": ["read", "operate"], "pipelines": ["shop"]}
    async with http_service(redis_url, serve={"tokens": [*TOKENS, some]}) as service:
        for headers in (VIEWER, {"Authorization": "Bearer some-0123456789"}):
            for path in ("/criteria", "/criteria/check", "/criteria/x/remove"):
                assert (await form(service, path, FIELDS, **headers))[0] == 403
        other = Criterion(name="other", question="Is it short?", scale="yes_no", pipelines=("bank",))
        for criterion in (other, ASKS_BACK):
            await store_criterion(async_redis, "ragtide", StoredCriterion(criterion=criterion, by="ann", at=utc_now()))
        text = await main_of(service, **VIEWER)
        assert ("bank" in text, "docs" in text, "shop*" in text) == (False, False, True)
        foreign = ANN | {"Sec_Fetch_Site": "cross-site"}
        assert (await form(service, "/criteria", FIELDS, **foreign))[0] == 403
    assert {each.by for each in await the_stored(async_redis)} == {"ann"}
    assert len(await the_stored(async_redis)) == 2


async def test_the_check_names_problems_and_stores_nothing(async_redis: Any, redis_url: str) -> None:
    mine = {"name": "mine", "question": "Is it short?", "scale": "yes_no"}
    async with http_service(redis_url, serve={"tokens": TOKENS}, judge={"criteria": [mine]}) as service:

        async def checked(**changes: str) -> str:
            status, text, _ = await form(service, "/criteria/check", FIELDS | changes, **ANN)
            assert status == 200
            return str(text)

        assert "Nothing to object" in await checked()
        assert "joined by" in await checked(question="Is it polite and correct?")
        assert "Is it short" not in await checked()
        assert "asks nearly the same as mine" in await checked(question="Is it short ?")
        assert "the settings have a criterion mine" in await checked(name="mine")
        assert "such as good = 1" in await checked(scale="values", values="good")
        assert "write a number such as 0.2" in await checked(rate="many")
        assert "write one such as lang=de" in await checked(segments="de")
        assert "&lt;script&gt;" in await checked(segments=SCRIPT)
        assert "the settings have no model with a price" in await checked()
        status, text, _ = await form(service, "/criteria", FIELDS | {"check": "1"}, **ANN)
        assert (status, "Nothing to object" in text) == (200, True)
        status, text, _ = await form(service, "/criteria", FIELDS | {"name": "mine"}, **ANN)
        assert (status, "the settings have a criterion mine" in text) == (422, True)
        assert "settings file" in await main_of(service, **ANN)
    assert await the_stored(async_redis) == ()


async def test_what_cannot_be_read_or_asked_is_said_and_foreign_text_is_escaped(
    async_redis: Any, redis_url: str
) -> None:
    key = Streams("ragtide", 0).criteria
    await async_redis.hset(key, SCRIPT, "{")
    hostile = StoredCriterion(
        criterion=Criterion(name="hostile", question=SCRIPT, scale="yes_no", pipelines=(SCRIPT,)),
        by=SCRIPT,
        at=utc_now(),
    )
    await store_criterion(async_redis, "ragtide", hostile)
    async with http_service(redis_url) as service:
        text = await main_of(service)
        shown = await main_of(service, "/criteria?change=hostile")
    assert "This release cannot read these stored criteria" in text
    assert SCRIPT not in text
    assert SCRIPT not in shown
    assert 'value="hostile" readonly' in shown


async def test_operators_change_criteria_over_http(async_redis: Any, redis_url: str) -> None:
    body = ASKS_BACK.model_dump(mode="json", exclude_defaults=True)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        status, found = await service.post("/v1/criteria", body, "ann-0123456789")
        assert (status, found["change"], found["metric"], found["hints"]) == (200, "added", "criteria.asks_back", [])
        status, found = await service.post("/v1/criteria", body | {"question": "Is it A and B?"}, "ann-0123456789")
        assert (found["change"], [hint["kind"] for hint in found["hints"]]) == ("new version", ["double question"])
        status, found = await service.post("/v1/criteria", {"name": "x", "question": "Is it?"}, "ann-0123456789")
        assert (status, "needs either scale" in found["detail"]) == (422, True)
        assert (await service.post("/v1/criteria", body, "viewer-0123456789"))[0] == 403
        assert (await service.post("/v1/criteria", body))[0] == 401
        status, found = await service.get("/v1/criteria", "viewer-0123456789")
        assert [(each["metric"], each["by"], each["source"], each["state"]) for each in found] == [
            ("criteria.asks_back", "ann", "store", "asked")
        ]
        assert found[0]["criterion"]["pipelines"] == ["shop*"]
        url, headers = f"{service.url}/v1/criteria/asks_back", {"Authorization": "Bearer ann-0123456789"}
        async with service.session.delete(url, headers=headers) as reply:
            assert reply.status == 204
        async with service.session.delete(url, headers=headers) as reply:
            assert reply.status == 404
    assert await the_stored(async_redis) == ()
    assert [order.action for order in await orders(async_redis)] == [
        "add a criterion", "change a criterion", "remove a criterion",
    ]  # fmt: skip


async def test_the_check_has_the_price_that_the_command_prints(async_redis: Any, redis_url: str) -> None:
    judge = {"model": "m", "prices": {"m": {"input": 1.0, "output": 4.0}}}
    settings = Settings.model_validate({"judge": judge})
    price = (await criteria_prices(settings, [ASKS_BACK], demo_interactions()[:TYPICAL])).each[0]
    assert price.cost_usd is not None
    assert price.cost_usd_bare is not None
    async with http_service(redis_url, serve={"tokens": TOKENS}, judge=judge) as service:
        status, text, _ = await form(service, "/criteria/check", FIELDS, **ANN)
        dear = (await form(service, "/criteria/check", FIELDS | {"question": "Is it short? " * 40}, **ANN))[1]
    assert status == 200
    shown = text.partition('class="pairs price"')[2]
    assert (f"{price.prompt_tokens:,.0f} tokens in" in shown, usd(price.cost_usd) in shown) == (True, True), shown
    assert usd(price.cost_usd_bare) in shown
    assert "20.0% of the answers are asked" in shown
    assert usd(price.cost_usd) not in dear.partition('class="pairs price"')[2]


async def test_a_criterion_about_sessions_is_written_with_the_form(async_redis: Any, redis_url: str) -> None:
    wanted = FIELDS | {"unit": "session"}
    session = make_criterion(wanted)
    assert session == Criterion.model_validate({**ASKS_BACK.model_dump(), "unit": "session"})
    assert make_criterion(criterion_fields(session)) == session
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert (await form(service, "/criteria", wanted, **ANN))[0] == 303
        text = await main_of(service, **ANN)
        assert "whole sessions" in text
        status, refused, _ = await form(service, "/criteria", {**wanted, "name": "b", "need_documents": "1"}, **ANN)
        assert (status, "a whole session has its turns only" in refused) == (422, True)
    sampled: dict[str, Any] = {"producer": {"sample": 0.1}}
    async with http_service(redis_url, serve={"tokens": TOKENS}, **sampled) as service:
        for path, status in (("/criteria/check", 200), ("/criteria", 422)):
            found, text, _ = await form(service, path, {**wanted, "name": "c"}, **ANN)
            assert (found, "producer.sample_by" in text) == (status, True)
    assert [each.criterion.unit for each in await the_stored(async_redis)] == ["session"]
