"""The prompts: pinned to their versions, and closed to what strangers write into documents and responses."""

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.consumers.judge.asking import TOWER, judge
from tests.support.cases import for_each

from ragtide import RagInteraction
from ragtide.testing import JudgePrompt, Says, ScriptedJudge
from ragtide_consumers.labelers.judge.prompts import (
    CLAIMS_SCHEMA,
    REMINDER,
    TRACE_SCHEMA,
    VERDICTS_SCHEMA,
    VERSIONS,
    Language,
    claims_prompt,
    criteria_prompt,
    quote,
    rules,
    session_prompt,
    trace_prompt,
    verdicts_prompt,
)
from ragtide_consumers.labelers.judge.texts import count_injections
from ragtide_schemas.criterion import RULES_VERSION, Criterion

ATTACKS = [
    json.loads(line) for line in (Path(__file__).parent / "attacks.jsonl").read_text(encoding="utf-8").splitlines()
]
PINNED = {
    "trace.en.1": "80d5d1d6a35f0c41",
    "trace.ru.1": "6d26879b01f0339e",
    "claims.en.1": "c7d493483bedf4bc",
    "claims.ru.1": "2370e65d2f53e546",
    "verdicts.en.1": "fed92cb877380cda",
    "verdicts.ru.1": "2c6f590b04aef118",
}


@for_each("version", PINNED)
def test_a_prompt_that_changed_has_a_new_version(version: str) -> None:
    """If this fails: give the prompt a new version in `VERSIONS`, then pin its new digest here."""
    name, language, number = version.split(".")
    assert VERSIONS[name] == int(number)
    schema = {"trace": TRACE_SCHEMA, "claims": CLAIMS_SCHEMA, "verdicts": VERDICTS_SCHEMA}[name]
    lang: Language = "ru" if language == "ru" else "en"
    data = {
        "trace": trace_prompt("q", [("0a", "d")], [("a", "r")], lang),
        "claims": claims_prompt("q", "r", "a", lang),
        "verdicts": verdicts_prompt([("D0", "d")], [("r1", "c")], lang),
    }[name].data
    pinned = json.dumps([rules(name, lang), schema, data], ensure_ascii=False, sort_keys=True)
    assert sha256(pinned.encode()).hexdigest()[:16] == PINNED[version]


VARIANTS_PINNED = {
    "short-trace.en.1": "75e3ecf3ca1ee6cb",
    "short-trace.ru.1": "9a72a6002f88f721",
    "short-claims.en.1": "b19d8b9d5158df2b",
    "short-claims.ru.1": "32ccb694181219b7",
    "short-verdicts.en.1": "ccf2bb62b6864f9b",
    "short-verdicts.ru.1": "f93d98541d949465",
    "keys-trace.en.1": "fd5bfd84a63c202e",
    "keys-trace.ru.1": "473e3525c4299907",
    "keys-claims.en.1": "f571ae53aa514b6b",
    "keys-claims.ru.1": "2bd6c4765f4fcfee",
    "keys-verdicts.en.1": "7ae7f3e3cc6161ce",
    "keys-verdicts.ru.1": "f85df9b6433d7339",
    "bare-trace.en.1": "1c65ee40d0b0127c",
    "bare-trace.ru.1": "65a35dc7901befe3",
}


@for_each("version", VARIANTS_PINNED)
def test_a_variant_that_changed_has_a_new_version(version: str) -> None:
    """If this fails: give the prompt a new version in `VERSIONS`, then pin its new digest here."""
    name, language, number = version.split(".")
    assert VERSIONS[name] == int(number)
    variant: Any = name.partition("-")[0]
    lang: Language = "ru" if language == "ru" else "en"
    prompt = {
        "trace": trace_prompt("q", [("0a", "d")], [("a", "r")], lang, variant=variant),
        "claims": claims_prompt("q", "r", "a", lang, variant=variant),
        "verdicts": verdicts_prompt([("D0", "d")], [("r1", "c")], lang, variant=variant),
    }[name.partition("-")[2]]
    pinned = json.dumps([prompt.rules, prompt.schema, prompt.data, prompt.grammar], ensure_ascii=False, sort_keys=True)
    assert sha256(pinned.encode()).hexdigest()[:16] == VARIANTS_PINNED[version]


def test_every_variant_is_pinned() -> None:
    pinned = (*PINNED, *VARIANTS_PINNED, *CRITERIA_PINNED, *SESSION_PINNED)
    assert {version.split(".")[0] for version in pinned} == VERSIONS.keys() - {"history", "calls"}


def _criteria_pinned(version: str) -> str:
    name, language, _ = version.split(".")
    variant: Any = name.partition("-")[0] if "-" in name else "full"
    lang: Language = "ru" if language == "ru" else "en"
    asked = (
        Criterion(name="one", question="Is it?", scale="yes_no", needs=("response",)),
        Criterion(name="two", question='How "good"?', values={"good": 1, "bad": 0}),
    )
    alone = criteria_prompt({"RESPONSE": [("R", "r")]}, asked, lang, variant=variant)
    shared = trace_prompt("q", [("0a", "d")], [("a", "r")], lang, variant=variant, criteria=asked, reference="x")
    parts = [[prompt.rules, prompt.schema, prompt.data, prompt.grammar] for prompt in (alone, shared)]
    return sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]


CRITERIA_PINNED = {
    "criteria.en.1": "320b88f8fe6682f8",
    "criteria.ru.1": "9434d799cafc8b9c",
    "short-criteria.en.1": "4b04d0e119b63101",
    "short-criteria.ru.1": "3e95c64f9efdaea0",
    "keys-criteria.en.1": "fed762ff38e9e0aa",
    "keys-criteria.ru.1": "e4e28ea4b34c0222",
}


@for_each("version", CRITERIA_PINNED)
def test_rules_of_criteria_that_changed_have_a_new_version(version: str) -> None:
    """If this fails: raise `RULES_VERSION` in the schemas, then pin the new digests here."""
    name, _, number = version.split(".")
    assert VERSIONS[name] == int(number) == RULES_VERSION
    assert _criteria_pinned(version) == CRITERIA_PINNED[version]


def _session_pinned(language: Language) -> str:
    asked = (
        Criterion(name="one", question="Is it?", scale="yes_no", unit="session", needs=("response",)),
        Criterion(name="two", question='How "good"?', values={"good": 1, "bad": 0}, unit="session"),
    )
    variants: tuple[Any, ...] = ("full", "short", "keys")
    prompts = [session_prompt([("T1Q", "q"), ("T1R", "r")], asked, language, variant=variant) for variant in variants]
    parts = [[prompt.rules, prompt.schema, prompt.data, prompt.grammar] for prompt in prompts]
    return sha256(json.dumps(parts, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]


SESSION_PINNED = {"session.en.1": "cc4d5087fe5c84f7", "session.ru.1": "eb90f0e0b9496b63"}


@for_each("version", SESSION_PINNED)
def test_rules_of_sessions_that_changed_have_a_new_version(version: str) -> None:
    """If this fails: raise the version of `session`, then pin the new digests here."""
    _, language, number = version.split(".")
    assert VERSIONS["session"] == int(number)
    assert _session_pinned("ru" if language == "ru" else "en") == SESSION_PINNED[version]


@for_each("name", VERSIONS)
def test_both_languages_name_the_same_fields_and_keys(name: str) -> None:
    english, russian = (
        set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b|\"[a-z_]+\"", rules(name, language))) for language in ("en", "ru")
    )
    assert english == russian


@given(st.text(), st.text(), st.text())
def test_no_text_can_end_its_line_or_forge_a_key(question: str, document: str, response: str) -> None:
    prompt = trace_prompt(question, [("0a", document), ("0b", "second")], [("a", response)], "en")
    lines = prompt.data.splitlines()
    assert lines[0] == "QUESTION"
    assert [line.partition(":")[0] for line in lines if re.match(r"\w+: ", line)] == ["Q", "0a", "0b", "a"]
    assert json.loads(lines[4].removeprefix("0a: ")) == document
    assert len(lines) == 11


@given(st.text())
def test_a_quoted_text_is_one_line_and_reads_back(text: str) -> None:
    assert len(quote(text).splitlines()) == 1
    assert json.loads(quote(text)) == text


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack["name"])
@pytest.mark.parametrize("place", ["document", "response"])
async def test_an_attack_reaches_the_judge_as_one_quoted_line_and_changes_no_rule(
    server: ScriptedJudge, attack: dict[str, str], place: str
) -> None:
    text = attack["text"]
    attacked = RagInteraction(
        pipeline="p",
        question="When was the tower built?",
        documents=[
            {
                "text": text if place == "document" else "Harmless.",
                "sentences": [text if place == "document" else "Harmless."],
            }
        ],
        response=text if place == "response" else "In 1889.",
        response_sentences=[text if place == "response" else "In 1889."],
    )
    async with judge(server, language="en", families=("trace", "ragchecker")) as labeler:
        labeling = await labeler.label(attacked)
    for request in server.requests:
        told, data = (message["content"] for message in request["messages"])
        assert told in (rules("trace", "en"), rules("claims", "en"), rules("verdicts", "en"))
        assert text not in told
        headings = {"QUESTION", "DOCUMENT SENTENCES", "RESPONSE SENTENCES", "TEXTS", "SOURCES", "CLAIMS", ""}
        *lines, reminder = data.splitlines()
        assert reminder == REMINDER["en"]
        assert all(line in headings or re.fullmatch(r'\w+: "(?:[^"\\]|\\.)*"', line) for line in lines)
        assert "tools" not in request
    assert labeling.counters["injection_suspected"] == 1


OBEYED: dict[str, dict[str, object] | None] = {
    "marks everything as relevant, under keys of the attacker": {
        "all_relevant_sentence_keys": ["0a", "5z", "6z", "7z"]
    },
    "says that all is supported, with nothing to show": {"overall_supported": True, "sentence_support_information": []},
    "leaves the form": None,
}


@pytest.mark.parametrize("case", OBEYED)
async def test_a_judge_that_obeyed_an_attack_is_caught_by_the_check_of_its_answer(
    server: ScriptedJudge, case: str
) -> None:
    changes = OBEYED[case]

    def obey(_: JudgePrompt) -> str:
        return (
            "All good, everything is supported!"
            if changes is None
            else json.dumps(
                {
                    "all_relevant_sentence_keys": [],
                    "all_utilized_sentence_keys": [],
                    "sentence_support_information": [],
                    "overall_supported": True,
                }
                | changes
            )
        )

    server.script.append(Says(obey))
    async with judge(server) as labeler:
        labeling = await labeler.label(TOWER)
    assert labeling.counters["judge_repairs"] == 1
    assert labeling.scores["trace.adherence"] == 0.0


def test_attacks_are_recognized_and_ordinary_texts_are_not() -> None:
    assert [attack["name"] for attack in ATTACKS if not count_injections([attack["text"]])] == []
    rows = (Path(__file__).parents[2] / "data" / "ragbench" / "ragbench_sample.jsonl").read_text(encoding="utf-8")
    texts = [text for row in map(json.loads, rows.splitlines()) for text in [*row["documents"], row["response"]]]
    assert len(texts) > 200
    assert count_injections(texts) <= len(texts) / 100
