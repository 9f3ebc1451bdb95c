"""The application of docs/start/app.md, run for real."""

import re
from typing import Any

import pytest
from tests.support.doc_pages import doc_page

from ragtide import Feedback, RagInteraction
from ragtide_runtime.redis.keys import DATA_FIELD, Streams

pytestmark = pytest.mark.redis

PAGE = doc_page("app")


async def test_a_question_and_its_thumb_reach_redis_under_one_id(
    redis: Any, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    code = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(compile(code, PAGE.name, "exec"), names)
    async with names["lifespan"](names["app"]):
        answer = await names["ask"]("When was it built?", lang="de")
        await names["thumb"](answer["answer_id"], up=False)
    streams = Streams("ragtide", 0)
    ((entry_id, fields),) = redis.xrange(streams.interactions)
    interaction = RagInteraction.from_entry(entry_id.decode(), fields[DATA_FIELD])
    ((_, fields),) = redis.xrange(streams.feedback)
    feedback = Feedback.decode(fields[DATA_FIELD])
    assert interaction.segments == {"lang": "de"}
    assert interaction.interaction_id == feedback.interaction_id == answer["answer_id"]
    assert feedback.gold_scores == {"feedback.positive": 0.0}
