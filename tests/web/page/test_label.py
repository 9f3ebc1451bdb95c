"""The annotation page: blind, and the same queue for everybody."""

import asyncio
import re
from html import unescape
from typing import Any

from tests.ragtide.test_annotate import kept
from tests.support.http_service import Service, http_service
from tests.support.metric_events import START
from tests.web.page.test_page import TOKENS, form, orders, page

from ragtide_roles.kept.annotated import double_annotations
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_schemas import Feedback

STREAMS = Streams("ragtide", 0)
BOB = {"name": "bob", "token": "bob-0123456789", "access": ["read", "operate"]}
SHOWN = re.compile(r'name="(interaction_id|pipeline)" value="([^"]*)"')
ASKED = re.compile(r'data-question="([^"]+)"')


async def asked(service: Service, path: str = "/label", **headers: str) -> tuple[dict[str, str], list[str], str]:
    """Return the hidden fields of the form, the names of the questions, and the page."""
    status, text = await page(service, path, **headers)
    assert status == 200
    return dict(SHOWN.findall(text)), [unescape(name) for name in ASKED.findall(text)], text


def answers(names: list[str], keys: str) -> dict[str, str]:
    return {f"a:{name}": key for name, key in zip(names, keys, strict=True)}


async def published(redis: Any) -> list[Feedback]:
    return [Feedback.decode(fields[DATA_FIELD]) for _, fields in await redis.xrange(STREAMS.feedback)]


async def test_answers_become_feedback_with_their_probability_as_on_the_command_line(
    async_redis: Any, redis_url: str
) -> None:
    await asyncio.to_thread(kept, redis_url, 2)
    async with http_service(redis_url) as service:
        fields, names, text = await asked(service, "/label?from=sample")
        assert len(names) == 2
        assert "2 items are left for you" in text
        for hidden in ("trace.adherence", "0.9", "worst:"):
            assert hidden not in text  # a person sees no score, and not why the item is here
        status, place, _ = await form(service, "/label?from=sample", {**fields, **answers(names, "yn"), "answer": "1"})
        assert (status, place.startswith("/label?from=sample&done=")) == (303, True)
        (found,) = await published(async_redis)
        assert found.interaction_id == fields["interaction_id"]
        assert found.gold_scores["trace.adherence"] == 0.0
        assert found.annotator == "local user"
        assert found.inclusion_probability is not None
        assert 0 < found.inclusion_probability <= 1
        after, _, _ = await asked(service, "/label?from=sample")
        assert after["interaction_id"] != fields["interaction_id"]
        again = {**fields, **answers(names, "yy"), "answer": "1"}
        assert (await form(service, "/label?from=sample", again))[0] == 409
        assert len(await published(async_redis)) == 1
        # The other item is skipped; then nothing is left.
        assert (await form(service, "/label?from=sample", {**after, "skip": "1"}))[0] == 303
        assert "There is no item for you to annotate." in (await page(service, "/label?from=sample"))[1]
        assert len(await published(async_redis)) == 1
    assert [(order.action, order.details["skipped"]) for order in await orders(async_redis)] == [
        ("annotate", False),
        ("annotate", True),
    ]


async def test_a_question_without_an_answer_keeps_the_others(async_redis: Any, redis_url: str) -> None:
    await asyncio.to_thread(kept, redis_url, 1)
    async with http_service(redis_url) as service:
        fields, names, _ = await asked(service)
        given = {**fields, f"a:{names[0]}": "y", f"a:{names[1]}": "maybe", "answer": "1"}
        status, text, _ = await form(service, "/label", given)
        assert status == 422
        assert "1 of 2 questions have no answer" in text
        assert text.count(" checked") >= 1
        assert await published(async_redis) == []


async def test_the_first_person_counts_and_two_people_are_compared(async_redis: Any, redis_url: str) -> None:
    await asyncio.to_thread(kept, redis_url, 1)
    async with http_service(redis_url, serve={"tokens": [*TOKENS, BOB]}) as service:
        for name in ("ann", "bob"):
            headers = {"Authorization": f"Bearer {name}-0123456789"}
            fields, names, _ = await asked(service, "/label?from=sample", **headers)
            sent = {**fields, **answers(names, "yy"), "answer": "1"}
            assert (await form(service, "/label?from=sample", sent, **headers))[0] == 303
        assert [one.annotator for one in await published(async_redis)] == ["ann"]
        found = await StoredAnnotations(async_redis, "ragtide").read()
        assert [one.annotator for one in found] == ["ann", "bob"]
        _, text = await page(service, "/label", Authorization="Bearer ann-0123456789")
        assert "they agree on" in text


async def test_only_operators_who_see_texts_annotate(async_redis: Any, redis_url: str) -> None:
    await asyncio.to_thread(kept, redis_url, 1)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        viewer = {"Authorization": "Bearer viewer-0123456789"}
        status, text = await page(service, "/label", **viewer)
        assert (status, "Only operators" in text, "tower" in text) == (200, True, False)
        assert (await form(service, "/label", {"skip": "1"}, **viewer))[0] == 403
        ann = {"Authorization": "Bearer ann-0123456789", "Sec_Fetch_Site": "cross-site"}
        assert (await form(service, "/label", {"skip": "1"}, **ann))[0] == 403


def annotation(item: int, annotator: str, adherence: float, **fields: Any) -> Annotation:
    return Annotation(
        pipeline="p",
        interaction_id=f"i-{item}",
        annotator=annotator,
        given_at=START,
        gold_scores={"trace.adherence": adherence},
        **fields,
    )


def test_kappa_of_people_is_the_agreement_beyond_chance() -> None:
    first = [1.0] * 20 + [0.0] * 20
    second = [1.0] * 15 + [0.0] * 5 + [0.0] * 15 + [1.0] * 5
    both = [annotation(n, "ann", a) for n, a in enumerate(first)] + [
        annotation(n, "bob", b) for n, b in enumerate(second)
    ]
    found = double_annotations([*both, annotation(99, "ann", 1.0), annotation(98, "ann", 0.0, skipped=True)])
    assert (found.n_items, found.n_double, found.n_agreed) == (41, 40, 30)
    assert found.kappa is not None
    assert abs(found.kappa - 0.5) < 1e-9
    assert found.kappa_lower is not None
    assert found.kappa_upper is not None
    assert 0.2 < found.kappa_lower < 0.5 < found.kappa_upper < 0.8


def test_without_a_disagreement_kappa_has_no_interval() -> None:
    same = [annotation(n, name, float(n % 2)) for name in ("ann", "bob") for n in range(6)]
    found = double_annotations(same)
    assert (found.kappa, found.kappa_lower) == (1.0, None)
    assert double_annotations([]).kappa is None
    always = [annotation(n, name, 1.0) for name in ("ann", "bob") for n in range(6)]
    assert double_annotations(always).kappa is None
