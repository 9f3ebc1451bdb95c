"""`ragtide criteria`: check and try before, add, list and remove while a deployment runs."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.in_process import Done, run_command
from tests.support.owners import owners
from tests.support.roles import command
from tests.web.page.test_criteria import answers

from ragtide.testing import Labels, ScriptedJudge
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.stored_criteria import StoredCriterion, read_stored_criteria
from ragtide_schemas.criterion import CANNOT_TELL, Criterion

QUESTION = "Does the response ask a clarifying question?"
DOUBLE = "Is the response polite and correct?"
FILE = f"""
[[judge.criteria]]
name = "asks_back"
question = "{QUESTION}"
scale = "yes_no"
rate = 0.2

[[judge.criteria]]
name = "polite"
question = "{DOUBLE}"
values = {{ good = 1.0, bad = 0.0 }}
"""


@pytest.fixture(autouse=True)
def _here(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGTIDE_REDIS_URL", redis_url)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    Path("criteria.toml").write_text(FILE, encoding="utf-8")
    lines = [row.model_dump_json(exclude_none=True) for row in demo_interactions()[:30]]
    Path("answers.jsonl").write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    labels = Labels(answers={QUESTION: "no", DOUBLE: CANNOT_TELL}, reasons={QUESTION: "It gives the answer at once."})
    with ScriptedJudge(labels) as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("RAGTIDE_JUDGE_PRICES", json.dumps({"scripted": {"input": 1.0, "output": 2.0}}))
        yield found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*words: str) -> Done:
        return run_command(capsys, "criteria", *words)

    return command


def test_check_names_hints_and_prices_without_a_call(run: Any, server: ScriptedJudge) -> None:
    done = run("check", "criteria.toml", "--json")
    assert done.code == 0
    found = json.loads(done.stdout)
    assert [(each["criterion"], each["kind"], each["level"]) for each in found["findings"]] == [
        ("polite", "double question", "hint")
    ]
    prices = found["prices"]
    assert [each["name"] for each in prices["each"]] == ["asks_back", "polite"]
    for price in (*prices["each"], prices["together"]):
        assert price["calls"] == 0
        assert price["completion_tokens_bare"] < price["completion_tokens"]
        assert price["cost_usd_bare"] < price["cost_usd"]
        assert price["cost_usd"] == pytest.approx((price["prompt_tokens"] + 2 * price["completion_tokens"]) / 1e6)
    assert prices["together"]["cost_usd"] < sum(each["cost_usd"] for each in prices["each"])
    assert server.requests == []
    shown = run("check", "criteria.toml", "--file", "answers.jsonl")
    assert "all together" in shown.stdout
    assert all(len(line) <= 80 for line in shown.stdout.splitlines())


def test_check_without_a_model_counts_tokens_and_has_no_dollars(run: Any) -> None:
    done = run("check", "criteria.toml", "--json")
    assert done.code == 0
    together = json.loads(done.stdout)["prices"]["together"]
    assert together["prompt_tokens"] > 0
    assert together["cost_usd"] is None


def test_check_fails_for_a_criterion_that_cannot_be_asked(run: Any) -> None:
    Path("criteria.toml").write_text(FILE + '[[judge.criteria]]\nname = "tone"\nquestion = "How is it?"\n')
    done = run("check", "criteria.toml")
    assert done.code == 1
    assert "tone: error" in done.stdout
    assert "needs either scale" in done.stdout


def test_try_shows_verdicts_beside_reasons(run: Any, server: ScriptedJudge) -> None:
    done = run("try", "asks_back", "--criteria", "criteria.toml", "--file", "answers.jsonl", "--limit", "5")
    assert done.code == 0, done.stderr
    assert done.stdout.count("It gives the answer at once.") == 5
    assert "5 interactions: no 5; mean 0.000; cannot tell 0%" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert len(server.requests) == 5
    assert {prompt.kind for prompt in server.prompts} == {"criteria"}

    undecided = ("--question", DOUBLE, "--scale", "yes_no", "--file", "answers.jsonl", "--limit", "3", "--json")
    found = json.loads(run("try", "own", *undecided).stdout)
    assert (found["n"], found["mean"], found["cannot_tell_share"]) == (3, None, 1.0)
    assert found["counts"] == {"judge_cannot_tell": 3}


def test_a_trial_that_may_cost_too_much_does_not_begin(run: Any, server: ScriptedJudge) -> None:
    words = ("try", "asks_back", "--criteria", "criteria.toml", "--file", "answers.jsonl")
    done = run(*words, "--max-cost-usd", "0.0000001")
    assert done.code == 1
    assert "give a lower --limit" in done.stderr
    assert server.requests == []


async def _commit(redis_url: str) -> StoredCriterion:
    """Commit answers to the stored criterion, and return it."""
    async with connect_async(redis_url) as redis:
        (stored,) = (await read_stored_criteria(redis, "ragtide")).criteria
        (owner,) = owners(redis, Settings())
        await owner.commit(*answers(stored.criterion, *[1.0, 0.0] * 10, None))
    return stored


def test_add_list_replace_and_remove(run: Any, redis_url: str) -> None:
    done = run("add", "asks_back", "--criteria", "criteria.toml", "--by", "ann")
    assert (done.code, done.stdout.strip()) == (0, "criteria.asks_back")
    stored = asyncio.run(_commit(redis_url))
    assert (stored.criterion.rate, stored.by) == (0.2, "ann")
    assert "give --replace" in run("add", "asks_back", "--question", "Short?", "--scale", "yes_no").stderr
    (found,) = json.loads(run("list", "--json").stdout)
    assert (found["name"], found["state"], found["by"]) == ("asks_back", "asked", "ann")
    ((asked, cannot_tell),) = [(number["asked"], number["cannot_tell"]) for number in found["numbers"]]
    assert (asked, cannot_tell) == (21, 1)
    done = run("add", "asks_back", "--question", "Does it ask?", "--scale", "yes_no", "--replace")
    assert "which has numbers of its own" in done.stderr
    listed = run("list")
    assert stored.criterion.version in listed.stdout
    assert all(len(line) <= 80 for line in listed.stdout.splitlines())
    assert run("remove", "asks_back").code == 0
    assert "is stored" in run("remove", "asks_back").stderr
    assert "No criteria" in run("list").stderr


def test_mistakes_name_the_remedy(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for words, remedy in (
        (("add", "x"), "give --question and --scale"),
        (("add", "x", "--question", "Is it?", "--values", "good"), "write 'good=1, bad=0'"),
        (("add", "x", "--question", "Is it?", "--values", "a=1,b=0,a=0"), "a has two values"),
        (("add", "x", "--question", "Is it?", "--values", "a=1"), "give at least 2"),
        (("add", "x", "--question", "Is it?", "--scale", "1-9"), "scale"),
        (("add", "x", "--question", "Is it?", "--scale", "yes_no", "--segment", "de"), "write lang=de"),
        (("add", "none", "--criteria", "criteria.toml"), "no criterion"),
        (("check", "nowhere.toml"), "name a TOML file"),
        (("try", "nothing", "--file", "answers.jsonl"), "or give --question"),
    ):
        done = run(*words)
        assert done.code in (1, 2), words
        assert remedy in " ".join(done.stderr.split()), (words, done.stderr)
    mine = [Criterion(name="mine", question="Is it short?", scale="yes_no").model_dump(mode="json")]
    monkeypatch.setenv("RAGTIDE_JUDGE_CRITERIA", json.dumps(mine))
    assert "change it there" in run("add", "mine", "--question", "Is it?", "--scale", "yes_no").stderr
    assert "remove it there" in run("remove", "mine").stderr
    assert json.loads(run("list", "--json").stdout)[0]["source"] == "settings"


async def test_compare_says_which_criterion_has_no_version_in_common(async_redis: Any, redis_url: str) -> None:
    before, now = (
        Criterion(name="asks_back", question=question, scale="yes_no") for question in ("Does it ask?", QUESTION)
    )
    (owner,) = owners(async_redis, Settings())
    await owner.commit(*answers(before, *[1.0, 0.0] * 50), *answers(now, *[1.0, 0.0] * 50, pipeline="docs"))
    done = command(redis_url, "compare", "shop", "docs")
    for criterion in (before, now):
        assert criterion.version[:7] in done.stderr
    assert f"{now.metric} is not compared" in done.stderr
    await owner.commit(*answers(now, *[1.0, 0.0] * 50))
    done = command(redis_url, "compare", "shop", "docs")
    assert "is not compared" not in done.stderr
    assert now.version[:7] in done.stdout
