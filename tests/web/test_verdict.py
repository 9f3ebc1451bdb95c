"""`/v1/verdict`: the verdict on a release over HTTP, for rollout tools."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from tests.support.http_service import Service, http_service
from tests.support.metric_events import START, event
from tests.support.owners import owners
from tests.support.stored_releases import store, watched_release

from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import utc_now
from ragtide_schemas.release import Release
from ragtide_web.app import openapi_document

TOKENS = [
    {"name": "shop", "token": "shop-0123456789", "pipelines": ["shop*"], "access": ["read"]},
    {"name": "bank", "token": "bank-0123456789", "pipelines": ["bank"], "access": ["read"]},
    {"name": "writer", "token": "writer-0123456789", "access": ["write"]},
]
SHOP = "shop-0123456789"
V1_V2 = "/v1/verdict?pipeline=shop&from=v1&to=v2"


async def seed(redis: Any) -> None:
    """Answers of three versions of `shop`, the last long ago, so that pipeline and versions are known."""
    (owner,) = owners(redis, Settings(releases={"enabled": False}))
    first = int((utc_now() - START).total_seconds()) - 20_000
    await owner.commit(
        *(
            event(
                first + 3_000 * number,
                {"trace.adherence": 0.9, "trace.completeness": 0.9},
                interaction_id=f"{version}-{number}",
                segments={"version": version},
            )
            for version, numbers in (("v0", (0, 1)), ("v1", (5, 6)), ("v2", (6, 6)))
            for number in numbers
        )
    )


async def verdict(service: Service, path: str = V1_V2) -> tuple[int, Any]:
    status, content = await service.get(path)
    return status, content.get("verdict", content.get("detail"))


async def test_the_verdict_is_the_record_of_the_release(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    await store(async_redis, watched_release(fall=0.3))
    async with http_service(redis_url) as service:
        status, content = await service.get(V1_V2)
        release = Release.model_validate(content)
        assert (status, release.verdict, release.decided_by) == (200, "worse", "trace.adherence")
        (row,) = release.metrics
        assert row.upper is not None
        assert row.upper < 0
        assert row.alpha < release.alpha == 0.05
        assert (row.labeler, row.n_compared, release.n) == ("judge", (400, 400), (400, 400))
        # The versions may be left out, and a metric may be given in short.
        for path in ("?pipeline=shop", "?pipeline=shop&to=v2", "?pipeline=shop&from=v1&metric=adherence"):
            assert await verdict(service, f"/v1/verdict{path}") == (200, "worse"), path


async def test_margin_and_alpha_of_the_request_decide(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    await store(async_redis, watched_release(n=60))
    async with http_service(redis_url) as service:
        for options, expected in (
            ("", "undecided"),
            ("&margin=0.3", "not_worse"),
            ("&margin=0.3&alpha=0.000001", "undecided"),
        ):
            status, content = await service.get(V1_V2 + options)
            assert (status, content["verdict"]) == (200, expected), options
        assert content["alpha"] == 0.000001
        assert content["metrics"][0]["margin"] == 0.3
        # A metric of which no value came yet is no mistake, and does not count as not worse.
        for names in ("&metric=completeness", "&metric=completeness&metric=adherence"):
            assert await verdict(service, f"{V1_V2}{names}&margin=0.3") == (200, "undecided")


async def test_a_poller_sees_a_new_verdict_at_once(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    opened_at = utc_now() - timedelta(minutes=5)
    async with http_service(redis_url) as service:
        await store(async_redis, watched_release(n=20, opened_at=opened_at))
        assert await verdict(service) == (200, "undecided")
        await store(async_redis, watched_release(fall=0.3, opened_at=opened_at))
        assert await verdict(service) == (200, "worse")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("?pipeline=shpo&from=v1&to=v2", 404, ["pipeline", "did you mean 'shop'"]),
        ("?pipeline=shop&from=v1&to=v22", 404, ["version", "did you mean 'v2'"]),
        ("?pipeline=shop&from=v1&to=v1", 422, ["v1"]),
        ("?pipeline=shop&from=v1&to=v2&metric=trace.adherance", 422, ["metric", "did you mean 'trace.adherence'"]),
        ("?pipeline=shop&from=v0&to=v2&metric=trace.adherance", 422, ["metric", "did you mean 'trace.adherence'"]),
        ("?pipeline=shop&margin=0", 422, ["margin"]),
        ("?pipeline=shop&alpha=0.7", 422, ["alpha"]),
        ("?from=v1&to=v2", 422, ["pipeline"]),
        ("?pipeline=shop&to=v0", 404, ["v0"]),
    ],
)
async def test_mistakes_are_one_sentence(
    async_redis: Any, redis_url: str, path: str, status: int, words: list[str]
) -> None:
    await seed(async_redis)
    await store(async_redis, watched_release())
    async with http_service(redis_url) as service:
        answered, content = await service.get(f"/v1/verdict{path}")
        assert (answered, list(content)) == (status, ["detail"])
        assert all(word in content["detail"] for word in words), content


async def test_known_versions_without_a_release_are_not_comparable(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    ended = watched_release("v1", "v2", n=20)
    ended.finish("traffic", ended.last_ms[0])
    async with http_service(redis_url) as service:

        async def reason(path: str) -> str:
            status, content = await service.get(path)
            assert (status, content["verdict"]) == (200, "not_comparable"), content
            assert content["reason"] in content["sentence"]
            return str(content["reason"])

        assert "common time" in await reason(V1_V2)
        assert "v0 has no traffic" in await reason("/v1/verdict?pipeline=shop&from=v1&to=v0")
        await store(async_redis, watched_release("v0", "v1"))
        straight = (await service.get("/v1/verdict?pipeline=shop&from=v0&to=v1"))[1]
        turned = (await service.get("/v1/verdict?pipeline=shop&from=v1&to=v0"))[1]
        assert (turned["from_version"], turned["to_version"]) == ("v1", "v0")
        assert turned["n"] == straight["n"][::-1]
        await store(async_redis, ended)
        assert "no traffic" in await reason(V1_V2)
        # The newest release of the two versions counts.
        await store(async_redis, watched_release("v1", "v2", fall=0.3, opened_at=utc_now() - timedelta(minutes=2)))
        assert await verdict(service) == (200, "worse")


async def test_a_token_sees_the_releases_of_its_pipelines(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    await store(async_redis, watched_release())
    async with http_service(redis_url, serve={"tokens": TOKENS}) as service:
        assert (await service.get(V1_V2, SHOP))[0] == 200
        status, content = await service.get(V1_V2, "bank-0123456789")
        assert (status, "v1" in str(content)) == (404, False)
        assert (await service.get("/v1/verdict?pipeline=sho", "bank-0123456789"))[1]["detail"].count("shop") == 0
        assert (await service.get(V1_V2))[0] == 401
        assert (await service.get(V1_V2, "writer-0123456789"))[0] == 403
        hook = {"metadata": {"pipeline": "shop", "to": "v2", "pass": "worse"}}
        assert (await service.post("/v1/verdict", hook, SHOP))[0] == 409  # the right to read suffices
        assert (await service.post("/v1/verdict", hook, "writer-0123456789"))[0] == 403


async def test_a_webhook_passes_at_its_verdict_only(async_redis: Any, redis_url: str) -> None:
    await seed(async_redis)
    at = utc_now() - timedelta(minutes=20)
    flagger = {"name": "shop", "namespace": "prod", "phase": "Progressing", "checksum": "85d557f47b"}
    async with http_service(redis_url) as service:

        async def passes(wanted: str, query: str = "", **metadata: str) -> int:
            hook = {**flagger, "metadata": {"pipeline": "shop", "pass": wanted, **metadata}}
            status, content = await service.post(f"/v1/verdict{query}", hook)
            assert status == 200 or list(content) == ["detail"]
            return status

        assert await passes("worse") == 409  # no release is open
        for release, expected in (
            (watched_release(n=20, opened_at=at), {"worse": 409, "not_worse": 409}),
            (watched_release(fall=0.3, opened_at=at), {"worse": 200, "not_worse": 409}),
            (watched_release(n=3_000, opened_at=at), {"worse": 409, "not_worse": 200}),
        ):
            await store(async_redis, release)
            for wanted, status in expected.items():
                assert await passes(wanted) == status, (release.verdict, wanted)
                assert await passes(wanted, "?pipeline=shop&from=v1", to="v2") == status
        release.finish("traffic", release.last_ms[1])
        await store(async_redis, release)
        assert await passes("not_worse") == 409  # of releases that are not named, only an open one counts
        assert await passes("not_worse", to="v2") == 200
        for query, metadata in (
            ("?pipeline=bank", {}),
            ("", {"form": "v1"}),
            ("", {"margin": "wide"}),
            ("", {"metric": "trace.adherance", "to": "v2"}),
            ("", {"pass": "better"}),
            ("", {"pass": ""}),
        ):
            assert await passes("worse", query, **metadata) == 422, (query, metadata)
        assert await passes("worse", to="v22") == 404


def test_the_description_has_the_record_and_the_parameters() -> None:
    document = openapi_document()
    operation = document["paths"]["/v1/verdict"]["get"]
    assert operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/Release")
    assert {"pipeline", "from", "to", "metric", "margin", "alpha"} == {each["name"] for each in operation["parameters"]}
    assert {"404", "422", "401", "403"} <= operation["responses"].keys()
    assert "pass" in {each["name"] for each in document["paths"]["/v1/verdict"]["post"]["parameters"]}


async def test_a_release_that_the_aggregator_opened_is_answered(async_redis: Any, redis_url: str) -> None:
    """From scored answers to the verdict: a canary of a fifth, in two languages."""
    (owner,) = owners(async_redis, Settings())
    owner.state = AggregatorState(state_options(Settings()))
    first, random = int((utc_now() - START).total_seconds()) - 3_000, Random(1)
    events = [
        event(
            first + number,
            {"trace.adherence": float(random.random() < (0.6 if second else 0.9))},
            segments={"version": "v2" if second else "v1", "lang": random.choice(("de", "en"))},
        )
        for number in range(1_500)
        for second in [number > 300 and random.random() < 0.2]
    ]
    async with http_service(redis_url) as service:
        for start in range(0, len(events), 300):
            await owner.commit(*events[start : start + 300])
            status, content = await service.get("/v1/verdict?pipeline=shop")
            assert status == (404 if start == 0 else 200), content
        assert (content["from_version"], content["to_version"], content["verdict"]) == ("v1", "v2", "worse")
        assert content["decided_by"] == "trace.adherence"
        assert await verdict(service, f"{V1_V2}&metric=adherence") == (200, "worse")
        answer = await service.post("/v1/verdict?pass=worse", {"metadata": {"pipeline": "shop", "to": "v2"}})
        assert answer[0] == 200
