"""The answer of a worker's judge to each way in which an endpoint can fail. One test per fault, against real HTTP."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.consumers.judge.asking import SECRET, TOWER, entry, judge
from tests.support.conditions import wait_until

from ragtide import RagInteraction
from ragtide.testing import Drops, Hangs, JudgePrompt, Labels, Raw, Says, ScriptedJudge, Slow, Status
from ragtide_consumers.labelers.remote.errors import EndpointMisconfigured, EndpointUnavailable, OverBudget
from ragtide_consumers.worker.waiting import Patience

pytestmark = pytest.mark.processes

OUT_OF_QUOTA = Status(429, "You exceeded your current quota", kind="insufficient_quota")


def another(number: int) -> RagInteraction:
    return TOWER.model_copy(update={"interaction_id": str(number), "question": f"Question {number}?"})


def answering(**changes: Any) -> Says:
    """Return the right answer with these fields changed; a field that is None is left out."""

    def text(prompt: JudgePrompt) -> str:
        fields = json.loads(Labels().answer(prompt)) | changes
        return json.dumps({name: value for name, value in fields.items() if value is not None})

    return Says(text)


@pytest.mark.parametrize(
    "fault",
    [
        Status(429, "slow down", {"retry-after": "0.05"}),
        Status(429, "slow down", {"retry-after-ms": "20"}),
        Status(429, "slow down"),
        Status(500),
        Status(502),
        Status(503, "overloaded", {"retry-after": "0.02"}),
        Status(408),
        Status(409),
        Drops(),
    ],
    ids=lambda fault: f"{type(fault).__name__}{getattr(fault, 'code', '')}",
)
async def test_a_passing_failure_is_tried_again_and_counted(server: ScriptedJudge, fault: Any) -> None:
    server.script.append(fault)
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.counters == {"judge_calls": 2, "judge_retries": 1}


async def test_retry_after_is_obeyed_by_all_calls(server: ScriptedJudge) -> None:
    server.script.append(Status(429, "slow down", {"retry-after": "0.5"}))
    async with judge(server) as labeler:
        started = asyncio.get_running_loop().time()
        first = asyncio.create_task(labeler.label(another(1)))
        await asyncio.to_thread(wait_until, lambda: server.requests)
        await asyncio.sleep(0.1)  # in which the answer has come: nothing to see from outside
        await labeler.label(another(2))
        assert asyncio.get_running_loop().time() - started >= 0.5
        await first


async def test_an_endpoint_that_hangs_is_given_up_after_the_timeout_and_tried_again(server: ScriptedJudge) -> None:
    server.script.append(Hangs())
    async with judge(server, timeout_s=0.2) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.counters["judge_retries"] == 1


async def test_a_slow_answer_within_the_timeout_is_taken(server: ScriptedJudge) -> None:
    server.script.append(Slow(0.3))
    async with judge(server) as labeler:
        assert (await labeler.label(TOWER)).counters == {"judge_calls": 1}


async def test_a_failure_that_stays_is_unavailable_after_all_attempts(server: ScriptedJudge) -> None:
    server.always = Status(500, "broken")
    async with judge(server, attempts=3) as labeler:
        with pytest.raises(EndpointUnavailable, match=r"failed 3 times.*broken"):
            await labeler.label(TOWER)
    assert len(server.requests) == 3


async def test_a_worker_waits_for_an_endpoint_that_is_down_and_loses_nothing(server: ScriptedJudge) -> None:
    server.always = Status(500)
    async with judge(server, breaker_failures=2, breaker_pause_s=0.05) as labeler:
        labeling = asyncio.create_task(Patience(labeler).label(TOWER))
        await asyncio.to_thread(wait_until, lambda: len(server.requests) >= 6)
        assert not labeling.done()
        server.always = None
        found = (await labeling).labeling
    assert found.scores["trace.supported_fraction"] == 0.5
    assert found.counters["judge_calls"] == len(server.requests)


async def test_an_endpoint_that_fails_again_and_again_is_paused(server: ScriptedJudge) -> None:
    server.always = Status(500)
    async with judge(server, breaker_failures=4, breaker_pause_s=60, attempts=3) as labeler:
        for number in range(5):
            with pytest.raises(EndpointUnavailable):
                await labeler.label(another(number))
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    "refusal", [Status(401, "bad key"), Status(402), Status(403), Status(404, "no such model"), OUT_OF_QUOTA]
)
async def test_a_refused_key_model_or_quota_is_not_tried_again(server: ScriptedJudge, refusal: Status) -> None:
    server.always = refusal
    async with judge(server, breaker_pause_s=60) as labeler:
        with pytest.raises(EndpointMisconfigured, match="refuses calls"):
            await labeler.label(TOWER)
        with pytest.raises(EndpointUnavailable):
            await labeler.label(another(2))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"all_relevant_sentence_keys": ["0a"', "JSON"),
        ("I think it is all fine.", "not a JSON object"),
        ("", "not a JSON object"),
        ("{'single': 'quotes'}", "not a JSON object"),
        ("[]", "not a JSON object"),
        ('{"other": 1}', "not a JSON object"),
    ],
)
async def test_broken_json_is_told_to_the_judge_who_is_asked_again(server: ScriptedJudge, text: str, said: str) -> None:
    server.script.append(Says(text))
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.counters["judge_repairs"] == 1
    assert labeling.scores["trace.supported_fraction"] == 0.5
    told = server.requests[1]["messages"][-1]["content"]
    assert "That answer cannot be used" in told
    if said != "JSON":
        assert said in told


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a sentence without entry": (
        {"sentence_support_information": [
            entry("a", ["0a"], True)
        ]},
        "response sentences b have no entry",
    ),
    "supported by nothing": (
        {"sentence_support_information": [
            entry(key, [], True)
            for key in "ab"
        ]},
        "fully supported without a supporting key",
    ),
    "an overall verdict that contradicts": ({"overall_supported": True}, "overall_supported contradicts"),
    "invented keys": ({"all_relevant_sentence_keys": ["7x", "9b", "0a"]}, "keys that no document sentence has"),
    "two entries that differ": (
        {"sentence_support_information": [
            entry(key, ["0a"], truth)
            for key, truth in (("a", True), ("a", False), ("b", True))
        ]},
        "two entries that differ",
    ),
    "a verdict that is a word": (
        {"sentence_support_information": [
            entry(key, ["0a"], "perhaps")
            for key in "ab"
        ]},
        "not true or false",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_keys_and_verdicts_are_asked_for_again(server: ScriptedJudge, case: str) -> None:
    changes, said = WRONG[case]
    server.script.append(answering(**changes))
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert said in server.requests[1]["messages"][-1]["content"]
    assert labeling.counters["judge_repairs"] == 1
    assert labeling.scores["trace.supported_fraction"] == 0.5


async def test_sloppy_keys_are_mended_and_counted_without_another_call(server: ScriptedJudge) -> None:
    information = [
        {
            "response_sentence_key": " A.",
            "explanation": "",
            "supporting_sentence_keys": ["[0A]."],
            "fully_supported": True,
        },
        entry("b", [], False),
        entry("c", [], False),
    ]
    server.script.append(
        answering(
            all_relevant_sentence_keys=["0a.", "0A", "0b, 1a", "general", "0a", "0b", "9z"],
            sentence_support_information=information,
        )
    )
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert len(server.requests) == 1
    assert labeling.scores["trace.context_relevance"] == 1.0
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.counters == {"judge_calls": 1, "duplicate_keys": 3, "dropped_keys": 2}


async def test_a_truncated_answer_is_asked_for_again_and_salvaged_if_it_stays_so(server: ScriptedJudge) -> None:
    def half(prompt: JudgePrompt) -> str:
        text = Labels().answer(prompt)
        return text[: text.index('"response_sentence_key": "b"')]

    server.always = Says(half, finish="length")
    async with judge(server, repairs=1) as labeler:
        labeling = await labeler.label(TOWER)
    assert len(server.requests) == 2
    assert "cut off" in server.requests[1]["messages"][-1]["content"]
    assert labeling.scores["trace.context_relevance"] == pytest.approx(1 / 3)
    assert labeling.absent["trace.adherence"] == "incomplete_labels"
    assert labeling.counters["judge_truncated"] == 1


@pytest.mark.parametrize(
    "refusal",
    [Says("", refusal="I will not."), Says("", finish="content_filter"), Status(400, "x", kind="content_filter")],
)
async def test_a_refusal_is_absent_with_its_reason_and_not_tried_again(server: ScriptedJudge, refusal: Any) -> None:
    async with judge(server) as labeler:
        await labeler.label(another(1))
        server.always = refusal
        labeling = await labeler.label(TOWER)
    assert labeling.scores == {}
    assert set(labeling.absent.values()) == {"judge_refused"}
    assert len(labeling.absent) == 7
    assert len(server.requests) == 2


async def test_answers_that_stay_unusable_are_absent_with_the_reason_and_their_cost(server: ScriptedJudge) -> None:
    server.always = Says("no")
    prices = {"test-model": {"input": 1.0, "output": 1.0}}
    async with judge(server, prices=prices, repairs=2) as labeler:
        labeling = await labeler.label(TOWER)
    assert set(labeling.absent.values()) == {"judge_unusable"}
    assert len(server.requests) == 3
    assert labeling.cost_usd > 0
    assert labeling.prompt_tokens > 0


async def test_tool_calls_are_not_an_answer(server: ScriptedJudge) -> None:
    server.script.append(Says("", tool_calls=True, finish="tool_calls"))
    async with judge(server) as labeler:
        assert (await labeler.label(TOWER)).counters["judge_repairs"] == 1
    assert "tools" not in server.requests[0]


@pytest.mark.parametrize(
    ("refused", "gone"),
    [
        (Status(400, "response_format.json_schema is not supported"), "json_schema"),
        (Status(422, "Unknown parameter: 'temperature'", param="temperature"), "temperature"),
        (Status(400, "max_tokens is not supported, use max_completion_tokens", param="max_tokens"), "max_tokens"),
    ],
)
async def test_an_endpoint_that_takes_less_is_asked_for_less(server: ScriptedJudge, refused: Status, gone: str) -> None:
    server.script.append(refused)
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
        await labeler.label(another(2))
    assert labeling.scores["trace.supported_fraction"] == 0.5
    first, *later = (json.dumps({**request, "messages": None}) for request in server.requests)
    assert f'"{gone}"' in first
    assert all(f'"{gone}"' not in request for request in later)
    assert len(later) == 2


async def test_calls_refused_together_give_up_one_thing_only(server: ScriptedJudge) -> None:
    server.latency_s = 2.0  # until all four have been asked
    server.script += [Status(400, "response_format json_schema is unknown")] * 4
    async with judge(server) as labeler:
        await asyncio.gather(*(labeler.label(another(number)) for number in range(4)))
    forms = [request.get("response_format", {}).get("type") for request in server.requests]
    assert forms == ["json_schema"] * 4 + ["json_object"] * 4


async def test_an_endpoint_without_any_structure_is_told_the_schema_in_words(server: ScriptedJudge) -> None:
    async with judge(server, structured="text", families=("trace", "ragchecker")) as labeler:
        labeling = await labeler.label(TOWER)
    assert all("response_format" not in request for request in server.requests)
    assert "all_utilized_sentence_keys" in server.requests[0]["messages"][0]["content"]
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert labeling.scores["ragchecker.precision"] == 0.5


@pytest.mark.parametrize("fault", [Status(401, f"wrong key {SECRET}"), Status(500, f"auth was Bearer {SECRET}")])
async def test_the_key_is_sent_and_in_no_message_and_no_log(
    server: ScriptedJudge, fault: Status, capsys: pytest.CaptureFixture[str]
) -> None:
    server.always = fault
    async with judge(server) as labeler:
        with pytest.raises(EndpointUnavailable) as caught:
            await labeler.label(TOWER)
    assert server.headers[0]["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in str(caught.value)
    assert "***" in str(caught.value)
    printed = capsys.readouterr()
    assert SECRET not in printed.out + printed.err + repr(labeler) + repr(vars(caught.value))


# --- Thoughts that use up the tokens ---


def thinking(needed: int, *, visible: str = "", used: Callable[[int], None] = lambda _: None) -> Any:
    """Return a judge that thinks for a number of tokens before it answers."""

    def reply(prompt: JudgePrompt) -> Raw:
        limit = prompt.body.get("max_tokens", 2**30)
        used(limit)
        is_cut = limit < needed
        message = {"content": visible if is_cut else Labels().answer(prompt), "reasoning_content": "Let me see."}
        choice = {"message": message, "finish_reason": "length" if is_cut else "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": min(limit, needed)}
        return Raw(json.dumps({"choices": [choice], "usage": usage}).encode())

    return reply


@pytest.mark.parametrize("visible", ["", '{"relevance_explanation": "the fir', "<think>Let me see"])
async def test_a_limit_that_thoughts_used_up_is_raised_once_and_remembered(
    server: ScriptedJudge, async_redis: Any, visible: str
) -> None:
    limits: list[int] = []
    server.always = thinking(20_000, visible=visible, used=limits.append)
    async with judge(server, async_redis, cache_ttl_s=60.0) as labeler:
        labeling = await labeler.label(TOWER)
        await labeler.label(another(2))
    async with judge(server, async_redis, cache_ttl_s=60.0) as labeler:
        await labeler.label(another(3))
    assert labeling.scores["trace.supported_fraction"] == 0.5
    assert limits == [8192, 32_768, 32_768, 32_768]


@pytest.mark.parametrize(
    ("changes", "tried", "said"),
    [
        ({}, [8192, 32_768], "judge.answer_tokens = 8,192"),
        ({"answer_tokens": 1000}, [1000, 4000], "judge.answer_tokens = 1,000"),
        ({"repairs": 0}, [8192], "8,192 tokens (judge.answer_tokens)"),
        ({"window_tokens": 16_384}, [4096, None], "judge.window_tokens"),
        ({"window_tokens": 2048}, [512, None], "judge.window_tokens"),
    ],
)
async def test_no_limit_is_paid_twice_for_thoughts_and_the_cause_is_named(
    server: ScriptedJudge, capsys: pytest.CaptureFixture[str], changes: Any, tried: list[int | None], said: str
) -> None:
    limits: list[int] = []
    server.always = thinking(2**20, used=limits.append)
    async with judge(server, **changes) as labeler:
        labeling = await labeler.label(TOWER)
    assert set(labeling.absent.values()) == {"judge_unusable"}
    assert len(limits) == len(set(limits)) == len(tried)
    assert all(wanted in (limit, None) for limit, wanted in zip(limits, tried, strict=True))
    assert max(limits) <= changes.get("window_tokens", 2**20)
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("words", ["max_tokens is too large", "max_tokens must be at most 8192"])
async def test_an_endpoint_that_refuses_the_raised_limit_is_asked_for_the_usual_one(
    server: ScriptedJudge, words: str
) -> None:
    limits: list[int] = []
    thinks = thinking(2**20, used=limits.append)
    server.always = lambda prompt: Status(400, words) if prompt.body["max_tokens"] > 8192 else thinks(prompt)
    async with judge(server) as labeler:
        for number in range(2):
            assert set((await labeler.label(another(number))).absent.values()) == {"judge_unusable"}
    assert limits == [8192, 8192, 8192]


async def test_the_raised_call_is_reserved_in_the_spend_limit(server: ScriptedJudge, async_redis: Any) -> None:
    limits: list[int] = []
    server.always = thinking(20_000, used=limits.append)
    prices = {"test-model": {"input": 0.0, "output": 100.0}}  # 8,192 tokens are 0.82 dollars
    async with judge(server, async_redis, prices=prices, spend_per_hour_usd=1.5) as labeler:
        with pytest.raises(OverBudget):
            await labeler.label(TOWER)
    assert limits == [8192]
