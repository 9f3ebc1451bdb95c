"""An endpoint that answers, and never with labels: calls are paused as for one that fails."""

import asyncio
from typing import Any

import pytest
from tests.consumers.judge.asking import SECRET, TOWER, judge
from tests.support.conditions import wait_until

from ragtide import RagInteraction
from ragtide.testing import Raw, Says, ScriptedJudge
from ragtide_consumers.labelers.remote.errors import EndpointUnavailable

pytestmark = pytest.mark.processes

PROSE = Says("I am happy to help you with that!")
LOGIN = Raw(b"<html><body>Please sign in</body></html>", content_type="text/html")
GATEWAY = Raw(b'{"error": {"message": "upstream failed"}}')
SILENT = [PROSE, Says("{}"), Says('{"error": "no"}'), LOGIN, GATEWAY, Raw(b'{"choices": []}'), Raw(b'{"choices": "x"}')]


def another(number: int) -> RagInteraction:
    return TOWER.model_copy(update={"interaction_id": str(number), "question": f"Question {number}?"})


@pytest.mark.parametrize("answer", SILENT, ids=repr)
async def test_answers_without_labels_in_a_row_open_the_breaker(server: ScriptedJudge, answer: Any) -> None:
    server.always = answer
    async with judge(server, breaker_failures=6, breaker_pause_s=60, attempts=2) as labeler:
        given_up = 0
        for number in range(20):
            try:
                await labeler.label(another(number))
            except EndpointUnavailable:
                given_up += 1
    assert len(server.requests) == 6
    assert given_up >= 18


@pytest.mark.parametrize("answer", [LOGIN, GATEWAY], ids=repr)
async def test_a_reply_that_is_no_completion_is_tried_again_and_loses_no_label(
    server: ScriptedJudge, answer: Any
) -> None:
    server.script.append(answer)
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.counters == {"judge_calls": 2, "judge_retries": 1}


async def test_the_reason_says_what_came_instead_without_the_key(server: ScriptedJudge) -> None:
    server.always = Raw(f"<html>sign in {SECRET}\x1b[2J</html>".encode(), content_type="text/html")
    async with judge(server, attempts=1) as labeler:
        with pytest.raises(EndpointUnavailable, match=r"sign in \*\*\*") as caught:
            await labeler.label(TOWER)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("width", range(90, 112))
async def test_an_excerpt_never_holds_a_part_of_the_key(server: ScriptedJudge, width: int) -> None:
    server.always = Raw(f"<html>{'x' * 2 * width}{SECRET}</html>".encode(), content_type="text/html")
    async with judge(server, attempts=1) as labeler:
        with pytest.raises(EndpointUnavailable) as caught:
            await labeler.label(TOWER)
    assert SECRET[:5] not in str(caught.value)


async def test_a_gateway_that_says_a_context_is_too_long_gets_smaller_parts(server: ScriptedJudge) -> None:
    server.script.append(Raw(b'{"error": {"code": "context_length_exceeded"}}'))
    async with judge(server, context_tokens=2400) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.counters["context_split"] == 1
    assert labeling.scores["trace.supported_fraction"] == 0.5


async def test_an_interaction_that_alone_is_answered_without_labels_is_absent_and_stops_nobody(
    server: ScriptedJudge,
) -> None:
    server.always = lambda prompt: Says("I will not say.") if "strange" in prompt.question else None
    strange = TOWER.model_copy(update={"question": "A strange question?"})
    async with judge(server, breaker_failures=4, breaker_pause_s=60) as labeler:
        for number in range(5):
            labeling = await labeler.label(strange)
            assert set(labeling.absent.values()) == {"judge_unusable"}
            assert (await labeler.label(another(number))).scores != {}


async def test_when_labels_come_again_the_breaker_closes_and_what_waited_is_labeled(server: ScriptedJudge) -> None:
    server.always = PROSE
    async with judge(server, breaker_failures=3, breaker_pause_s=0.05, repairs=50) as labeler:

        async def patiently(number: int) -> Any:
            while True:
                try:
                    return await labeler.label(another(number))
                except EndpointUnavailable as error:
                    await asyncio.sleep(min(error.resume_in_s, 0.05))

        waiting = [asyncio.create_task(patiently(number)) for number in range(8)]
        await asyncio.to_thread(wait_until, lambda: len(server.requests) >= 6)
        assert not any(task.done() for task in waiting)
        server.always = None
        labelings = await asyncio.gather(*waiting)
    assert all(labeling.scores["trace.supported_fraction"] == 0.5 for labeling in labelings)
