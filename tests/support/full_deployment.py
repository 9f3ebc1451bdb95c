"""A deployment in which every panel of every screen has something to show."""

import asyncio
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlencode

from tests.ragtide.judged_runs import Run, plan_of, write_experiment
from tests.support.alerts import alert
from tests.support.releases import alerts_of, canary
from tests.web.page.test_alert import drift
from tests.web.page.test_dead_letters import add, letter
from tests.web.page.test_item import CALLS, METRIC, keep, specimen
from tests.web.page.test_judge import asked_twice, cascade, count_some
from tests.web.page.test_pipeline import SETTINGS, commit, runs, traffic
from tests.web.page.test_system import NOTIFY, order

from ragtide_consumers.notify.destination_state import DestinationState
from ragtide_consumers.notify.grouping import NotificationGroup
from ragtide_roles.kept.annotations import Annotation, StoredAnnotations
from ragtide_runtime.redis.keys import DATA_FIELD, LABEL_GROUP, SPECIMEN_NEWEST, SPECIMEN_SAMPLE, Streams
from ragtide_runtime.settings.labelers import JudgeSettings
from ragtide_runtime.stored_criteria import StoredCriterion, store_criterion
from ragtide_schemas import Reason, utc_now
from ragtide_schemas.alert_rule import AlertRule
from ragtide_schemas.criterion import Criterion

STREAMS = Streams("ragtide", 0)
OPTIONS: Final[dict[str, Any]] = {
    "history": SETTINGS.history,
    "notify": NOTIFY,
    "alerts": (AlertRule(name="adherence-drift", kind="drift", metric="trace.adherence"),),
    "judge": JudgeSettings(model="gpt-5-mini", spend_per_hour_usd=1.0, spend_per_day_usd=20.0),
}
"""Settings of its service."""
POOR: Final = {"trace.context_relevance": 0.5, "trace.context_utilization": 0.05, "trace.completeness": 0.2}
"""Scores with a diagnosis."""
SLASHED: Final = "team/a b?"
"""Name of a pipeline that no path holds as one segment."""
_RANGE: Final = urlencode({"start": utc_now() - timedelta(hours=3), "end": utc_now() - timedelta(hours=1)})
SCREENS: Final = (
    "/", "/?segment=lang%3Dde", "/p/shop", "/p/shop?range=1h&vs=bank", f"/p/shop?{_RANGE}",
    "/a", "/a?state=firing", "/a/A-1", "/a/A-2",
    "/t", "/t?pipeline=shop&below=0.9&segment=lang%3Dde",
    "/t?pipeline=shop&list=sample", "/t?alert=A-1", "/i/shop/i-1",
    "/p/agent", "/i/agent/i-1", "/p/rolled", "/a/R-0", "/a/R-1",
    "/x", "/x/may", "/x/may?config=0",
    "/judge", "/criteria", "/dead", "/dead?reason=invalid", "/label", "/system", "/system/orders",
)  # fmt: skip


USES = {"answer.cost_usd": 0.02, "answer.latency_s": 1.5}


async def fill_everything(redis: Any, redis_url: str) -> None:
    """Fill an empty Redis."""
    now = utc_now()
    events = [
        one.model_copy(update={"scores": {**one.scores, **POOR, **USES}, "labeler": labeler})
        for labeler in ("local", "judge")
        for one in traffic(lang="de")
    ]
    alerts = (
        drift("A-1", worst_interaction_ids=("i-1", "x/y")),
        drift("A-2", status="resolved", resolved_at=now, cause=None),
        alert("A-3", pipeline="*", message="The judge does not answer."),
        alert("floor/adherence-1"),
    )
    agent = [one.model_copy(update={"pipeline": "agent"}) for one in runs({"search": 0.9})]
    rolled = canary(600, pipeline="rolled", first=9000)
    about = [
        one.model_copy(update={"alert_id": f"R-{number}"}) for number, one in enumerate(alerts_of(SETTINGS, rolled))
    ]
    await commit(
        redis, *rolled, *events, *agent, *traffic("bank", 1000, 0.4), *traffic(SLASHED, 2000, 0.9),
        *cascade(pipeline="judged"), *asked_twice("judged"), alerts=(*alerts, *about),
    )  # fmt: skip
    asked = Criterion(name="asked", question="Is the response polite?", values={"good": 1.0, "bad": 0.0})
    await store_criterion(redis, "ragtide", StoredCriterion(criterion=asked, by="ann", at=now))
    await count_some(redis)
    run = specimen("i-1", "agent", steps=CALLS)
    kept = [specimen("i-1"), specimen("x/y"), specimen("i-1", SLASHED), run]
    for one in kept:
        await keep(redis, one)
        await keep(redis, one, name=SPECIMEN_SAMPLE)
        await keep(redis, one, name=SPECIMEN_NEWEST)
    for person in ("ann", "bob"):
        opinion = Annotation(
            pipeline="shop",
            interaction_id="i-1",
            annotator=person,
            given_at=now,
            saw_scores=True,
            rating=4,
            reason="good",
        )
        await StoredAnnotations(redis, "ragtide").put(opinion, 1000)
    await add(
        redis,
        *(letter(number, {"pipeline": "shop", "question": 7}) for number in range(3)),
        letter(3, b"no json", Reason.INVALID, detail="the entry is not valid JSON: send one"),
        letter(4, {"pipeline": "shop"}, Reason.UNDELIVERABLE, stream=STREAMS.alerts, detail="it answers 500"),
    )
    await asyncio.to_thread(
        write_experiment, redis_url, Run(plan_of("may", ("a", "b", "c")), {"a": 0.9, "b": 0.5, "c": 0.88})
    )
    for number in range(60):
        await order(redis, number, reason=f"reason {number}", details={"count": number})
    for _ in range(9):
        await redis.xadd(STREAMS.interactions, {DATA_FIELD: b"{}"})
    await redis.xgroup_create(STREAMS.interactions, LABEL_GROUP, id="0")
    await redis.xreadgroup(LABEL_GROUP, "host-1", {STREAMS.interactions: ">"}, count=4)
    await redis.hset(STREAMS.dropped, mapping={"interactions_cap": 3})
    group = NotificationGroup(
        destination="hook", key="a", pipeline="shop", due_ms=5, tries=3, answer="it answers 500", last_sent_ms=7_000
    )
    state = DestinationState(name="hook", sent_ms=(9_000,))
    await redis.hset(
        STREAMS.outbox, mapping={"group:hook:a": group.model_dump_json(), "destination:hook": state.model_dump_json()}
    )
    assert METRIC in events[0].scores
