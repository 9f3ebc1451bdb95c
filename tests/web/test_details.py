"""One pipeline, alert, item and interaction over HTTP: within the pipelines of the token, with texts for some."""

from typing import Any

from tests.consumers.specimens.test_keeping import worked
from tests.support.http_service import Service, http_service
from tests.support.metric_events import adherence
from tests.support.owners import owners
from tests.web.page.test_alert import drift
from tests.web.page.test_item import METRIC, keep, specimen

from ragtide import LocalLabeler
from ragtide.testing import interaction
from ragtide_runtime.redis.keys import DATA_FIELD, SPECIMEN_NEWEST, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import DeadLetter, RagInteraction, Reason
from ragtide_schemas.details import AlertDetails, FleetPipeline, InteractionFate, KeptItem, KeptItemLine

STREAMS = Streams("ragtide", 0)
READER, OPERATOR, BANK, WRITER = (f"{name}-0123456789ab" for name in ("reader", "operator", "bank", "writer"))
TOKENS = [
    {"name": "reader", "token": READER, "access": ["read"]},
    {"name": "operator", "token": OPERATOR, "access": ["read", "operate"]},
    {"name": "bank", "token": BANK, "access": ["read", "operate"], "pipelines": ["bank"]},
    {"name": "writer", "token": WRITER, "access": ["write"]},
]
SECRET = "zebra"
PATHS = (
    "/v1/fleet",
    "/v1/alert?alert_id=A-1",
    "/v1/items",
    f"/v1/items?pipeline=shop&list=worst&metric={METRIC}",
    "/v1/item?interaction_id=i-1",
    "/v1/why?interaction_id=i-9",
)


async def seed(redis: Any) -> None:
    """Store an alert, two kept items and a dead letter of `shop`, each text with the secret."""
    (owner,) = owners(redis, Settings())
    await owner.commit(*adherence([0.9] * 50 + [0.2] * 50, pipeline="shop"), alerts=(drift("A-1"),))
    given: dict[str, Any] = {
        "question": f"{SECRET} question \x1b[2J",
        "documents": [{"id": SECRET, "text": f"A {SECRET}.", "sentences": [f"A {SECRET}."]}],
        "response": f"Yes, {SECRET}.",
        "response_sentences": [f"Yes, {SECRET}."],
        "reference_answer": SECRET,
        "metadata": {"note": SECRET},
    }
    worst, other = specimen("i-1", **given), specimen("i-2", **given)
    await keep(redis, worst, other)
    await keep(redis, other, worst, name=SPECIMEN_NEWEST)
    letter = DeadLetter.of(
        interaction(9, interaction_id="i-9", pipeline="shop", question=SECRET).encode(),
        stream=STREAMS.interactions,
        entry_id="9-0",
        reason=Reason.LABELING_FAILED,
        detail=f"the endpoint answered: {SECRET}",
        component="worker",
    )
    await redis.xadd(STREAMS.dead_letters, {DATA_FIELD: letter.encode()})


async def got(service: Service, path: str, token: str | None = OPERATOR) -> Any:
    status, found = await service.get(path, token)
    assert status == 200, found
    return found


async def test_an_operator_reads_the_texts_and_another_reader_none(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        for path in PATHS:
            shown, hidden = await got(service, path, OPERATOR), await got(service, path, READER)
            assert SECRET not in str(hidden), path
            assert (SECRET in str(shown)) == (path != "/v1/fleet"), path
        item = KeptItem.model_validate(await got(service, "/v1/item?interaction_id=i-1", READER))
        assert item.texts_hidden is not None
        assert item.response is not None
        assert [(each.untrusted_text, each.support) for each in item.response] == [(None, "supported")]
        assert {score.labeler for score in item.scores} == {"local", "judge"}
    async with http_service(redis_url, serve={"tokens": TOKENS}, web={"texts": "nobody"}) as service:
        for path in PATHS:
            assert SECRET not in str(await got(service, path, OPERATOR)), path


async def test_a_token_of_other_pipelines_finds_nothing(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert await got(service, "/v1/fleet", BANK) == []
        assert await got(service, "/v1/items", BANK) == []
        assert await got(service, "/v1/items?pipeline=shop", BANK) == []
        fate = InteractionFate.model_validate(await got(service, "/v1/why?interaction_id=i-9", BANK))
        assert (fate.outcome, fate.stations, fate.dropped) == ("unknown", (), None)
        assert (await got(service, "/v1/why?interaction_id=i-9&pipeline=shop", BANK))["outcome"] == "unknown"
        for path in (
            "/v1/alert?alert_id=A-1",
            "/v1/item?interaction_id=i-1",
            "/v1/item?interaction_id=i-1&pipeline=shop",
        ):
            status, answer = await service.get(path, BANK)
            assert status == 404, answer
            assert "shop" not in str(answer)
        for path in PATHS:
            assert (await service.get(path, WRITER))[0] == 403
            assert (await service.get(path, "wrong-0123456789ab"))[0] == 401
            assert (await service.get(path))[0] == 401


async def test_the_fleet_has_the_states_and_numbers_of_the_page(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    async with http_service(redis_url) as service:
        (shop,) = map(FleetPipeline.model_validate, await got(service, "/v1/fleet?range=all", None))
        assert (shop.pipeline, shop.state, shop.firing) == ("shop", "firing", (METRIC,))
        (headline,) = shop.headlines
        assert (headline.metric, headline.n, headline.estimate) == (METRIC, 100, 0.55)
        assert headline.lower is not None
        assert headline.lower < 0.55
        assert await got(service, "/v1/fleet?state=silent", None) == []


async def test_an_alert_has_its_causes_and_its_worst_items(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    async with http_service(redis_url) as service:
        found = AlertDetails.model_validate(await got(service, "/v1/alert?alert_id=A-1", None))
        assert (found.alert.alert_id, found.state) == ("A-1", "firing")
        facts = {
            name: "".join(fact.text for fact in found.facts if fact.name == name) for name in ("Cause", "Diagnosis")
        }
        assert "lang=de" in facts["Cause"]
        assert facts["Diagnosis"] == "The retriever finds less."
        assert [item.interaction_id for item in found.worst] == ["i-1"]
        # A question stands in its marked field, and not among the facts.
        assert SECRET not in str(found.facts)
        assert found.worst[0].question is not None
        assert found.worst[0].question.untrusted_text == f"{SECRET} question \\x1b[2J"
        assert (await service.get("/v1/alert?alert_id=none"))[0] == 404
        await async_redis.delete(*[key async for key in async_redis.scan_iter("*specimen*")])
        gone = AlertDetails.model_validate(await got(service, "/v1/alert?alert_id=A-1", None))
        assert (gone.worst, gone.not_kept) == ((), ("i-1",))


async def test_lists_of_items_and_one_item(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    await keep(async_redis, specimen("i-1", "bank"), name=SPECIMEN_NEWEST)
    async with http_service(redis_url) as service:
        worst = await got(service, f"/v1/items?pipeline=shop&list=worst&metric={METRIC}", None)
        lines = list(map(KeptItemLine.model_validate, worst))
        assert [(line.interaction_id, line.score) for line in lines] == [("i-1", 0.5), ("i-2", 0.5)]
        newest = await got(service, "/v1/items?pipeline=shop&limit=1", None)
        assert [line["interaction_id"] for line in newest] == ["i-2"]
        for path, words in (
            ("/v1/items?list=worst", "give pipeline"),
            ("/v1/items?pipeline=shop&list=wurst", "did you mean 'worst'?"),
            ("/v1/item?interaction_id=i-1", "one of bank, shop"),
        ):
            status, answer = await service.get(path)
            assert (status, words in answer["detail"]) == (422, True), answer
        status, answer = await service.get("/v1/item?interaction_id=i-7")
        assert (status, "specimens.keep_s" in answer["detail"]) == (404, True)
        short = KeptItem.model_validate(await got(service, "/v1/item?interaction_id=i-2&chars=5", None))
        assert (short.cut, short.question) == (True, None if short.question is None else short.question)
        assert short.question is not None
        assert (short.question.untrusted_text, short.question.cut) == (SECRET, True)


async def test_the_fate_of_an_interaction(async_redis: Any, redis_url: str) -> None:
    async def fate(service: Service, interaction_id: str, query: str = "") -> InteractionFate:
        return InteractionFate.model_validate(
            await got(service, f"/v1/why?interaction_id={interaction_id}{query}", None)
        )

    one, two, three = (interaction(number) for number in (1, 2, 3))
    empty = RagInteraction.model_validate({**three.model_dump(), "response": ""})
    await worked(async_redis, [one, empty], LocalLabeler())
    await async_redis.hincrby(STREAMS.dropped, "drop_new", 7)
    await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: two.encode()})
    letter = DeadLetter.of(
        b'{"interaction_id": "i-9", "pipeline": "shop"}',
        stream=STREAMS.interactions,
        entry_id="9-0",
        reason=Reason.TOO_LARGE,
        detail="documents is too large (got 'zebra')",
        component="worker",
    )
    await async_redis.xadd(STREAMS.dead_letters, {DATA_FIELD: letter.encode()})
    async with http_service(redis_url) as service:
        scored = await fate(service, one.interaction_id, f"&pipeline={one.pipeline}")
        assert scored.outcome in ("scored", "scored in part")
        assert [station.station for station in scored.stations] == ["published", "label", "labeled", "aggregated"]
        absent = await fate(service, three.interaction_id, f"&pipeline={three.pipeline}")
        assert absent.outcome == "scored in part"
        assert absent.absent
        assert (await fate(service, two.interaction_id)).outcome == "waiting"
        dead = await fate(service, "i-9")
        assert (dead.outcome, "too_large" in dead.explanation) == ("dead letter", True)
        # Redaction is on, so no value is quoted: it may be cut within a part that no pattern finds.
        assert dead.detail is not None
        assert dead.detail.untrusted_text == "documents is too large …"
        unknown = await fate(service, "i-77")
        assert (unknown.outcome, unknown.dropped) == ("unknown", {"drop_new": 7})
        assert "producer.sample" in unknown.explanation
        entries = await async_redis.xrange(STREAMS.interactions)
        await async_redis.xdel(STREAMS.interactions, entries[-1][0])
        await async_redis.xadd(STREAMS.interactions, {DATA_FIELD: interaction(4).encode()})
    async with http_service(redis_url, labeler="cascade") as service:
        partly = await fate(service, one.interaction_id, f"&pipeline={one.pipeline}")
        assert (partly.outcome, "Not scored by judge" in partly.explanation) == ("scored in part", True)
