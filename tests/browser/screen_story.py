"""The story in a real browser: each of ten questions is answered on the first screen of the right page, in words."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.async_api import Browser
from tests.browser.screens import opened
from tests.support import story

from ragtide import Deployment
from ragtide_runtime.calls.endpoint_states import read_calls
from ragtide_runtime.redis.client import connect_async
from ragtide_schemas import Estimate, utc_now
from ragtide_web.look.amounts import usd

pytestmark = pytest.mark.heavy

SEEN = r"""() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const texts = [];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 2 || box.top < 0 || box.bottom > window.innerHeight) continue;
    const time = node.parentElement.closest("time");
    texts.push(time ? `${node.data} ${time.dateTime}` : node.data);
  }
  return texts.join(" ").replace(/\s+/g, " ");
}"""
"""The text that is seen without scrolling; a time is followed by its moment in UTC."""
MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)")
NUMBER = re.compile(r"(?<![\d.,])\d\.\d{2,3}(?![\d.])")
SOON = timedelta(minutes=30)
"""A change is found in the answers around it, so its time is known to some answers."""


def says_time(text: str, wanted: datetime | None) -> bool:
    """Return whether a text has a time near the wanted one."""
    if wanted is None:
        return False
    found = (datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=UTC) for day, time in MOMENT.findall(text))
    return any(abs(moment - wanted) < SOON for moment in found)


def says_number(text: str, wanted: float) -> bool:
    """Return whether a text has a score near the wanted one: the first pane of the history has older answers, too."""
    return any(abs(float(number) - wanted) < 0.05 for number in NUMBER.findall(text))


def mean_since_the_deploy(estimates: list[Estimate]) -> float:
    """Return the mean adherence of the new version, which has all answers since the deploy."""
    (found,) = (
        estimate.estimate
        for estimate in estimates
        if estimate.pipeline == story.SHOP
        and estimate.metric == "trace.adherence"
        and estimate.segment == f"version={story.NEW_VERSION}"
    )
    assert found is not None
    return found


async def test_ten_questions_are_answered_on_first_screens(browser: Browser, tmp_path: Path) -> None:
    async with story.play(tmp_path) as played, connect_async(played.url) as redis:
        deployment = Deployment(redis, played.settings)
        bad = mean_since_the_deploy(await deployment.estimates(windows=False))
        calls = await read_calls(redis, played.settings.prefix, "judge", now=utc_now(), hours=0, days=1)
        dollars = usd(sum(day.cost_usd for day in calls.days.values()))
        shop, helpdesk = played.alert(story.SHOP_RULE), played.alert(story.HELPDESK_RULE, story.BROKEN_SEGMENT)
        over = played.alert(story.DOCS_RULE)
        questions = {
            interaction.question
            for interaction in story.traffic(played.now)
            if interaction.pipeline == story.SHOP and interaction.interaction_id in shop.worst_interaction_ids
        }
        on_shop, deployed = f"/a/{shop.alert_id}", played.now - story.BAD_DEPLOY
        answers: dict[str, tuple[str, Callable[[str], bool]]] = {
            "what is wrong": ("/", lambda text: all(word in text for word in (story.SHOP, "firing", "Adherence"))),
            "since when": (on_shop, lambda text: says_time(text, deployed)),
            "where": (f"/a/{helpdesk.alert_id}", lambda text: story.HELPDESK in text and story.BROKEN_SEGMENT in text),
            "how bad now": (on_shop, lambda text: says_number(text, bad)),
            "how sure": (on_shop, lambda text: "false alarm" in text and "10,000" in text),
            "which answers": (on_shop, lambda text: any(question in text for question in questions)),
            "who was told": (on_shop, lambda text: story.ON_CALL in text and story.ANN in text),
            "what changed": (
                "/",
                lambda text: f"version {story.NEW_VERSION} since" in text and says_time(text, deployed),
            ),
            "is it over": (
                f"/a/{over.alert_id}",
                lambda text: "resolved" in text and says_time(text, over.resolved_at),
            ),
            "what did it cost": ("/judge", lambda text: dollars in text),
        }
        missing = {}
        async with opened(browser, played.address, locale="en-US", timezone_id="UTC") as screen:
            for question, (path, is_answered) in answers.items():
                page = await screen.open(path)
                text = await page.evaluate(SEEN)
                if not is_answered(text):
                    missing[question] = f"{path}: {text}"
        assert not missing, "\n\n".join(f"{question}? {text}" for question, text in missing.items())


async def test_the_story_is_as_its_constants_say(tmp_path: Path) -> None:
    async with story.play(tmp_path) as played:
        shop, helpdesk = played.alert(story.SHOP_RULE), played.alert(story.HELPDESK_RULE, story.BROKEN_SEGMENT)
        over, silenced = played.alert(story.DOCS_RULE), played.alert(story.SILENCED_RULE)
        left, hour = played.alert(story.LEAVERS_RULE), played.alert(story.BILLING_RULE)
        # Both versions serve while sessions leave: a release opens beside the alerts of the rules.
        assert len([alert for alert in played.alerts if alert.release is None]) == 6
        for alert, before in (
            (shop, story.BAD_DEPLOY),
            (helpdesk, story.BROKEN_RETRIEVER),
            (silenced, story.BROKEN_RETRIEVER),
            (over, story.DIP),
            (left, story.LEFT),
            (hour, story.INCIDENT),
        ):
            assert alert.began_at is not None
            assert abs(played.now - before - alert.began_at) < SOON
        assert {shop.status, helpdesk.status, silenced.status} <= {"firing", "explained"}
        assert (over.status, hour.status) == ("resolved", "resolved")
        assert left.status in {"firing", "explained"}
        assert {alert["id"].rpartition(":")[0] for alert in (request.json for request in played.sink.received)} >= {
            shop.alert_id, helpdesk.alert_id, over.alert_id,
        }  # fmt: skip
        assert silenced.alert_id not in str([request.json for request in played.sink.received])
