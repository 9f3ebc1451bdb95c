"""`ragtide judge check`: a judge with a known fault is found by its row, and an honest judge by none."""

import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from ragtide.cli.app import cli
from ragtide.cli.printing import out
from ragtide.testing import JudgePrompt, Says, ScriptedJudge, Status
from ragtide_consumers.labelers.judge.plain_answers import in_lines
from ragtide_consumers.labelers.protocol import Labeling
from ragtide_consumers.metrics.trace import trace_metrics
from ragtide_offline.judge_check.rows import CheckRow, ItemAnswers, Variant, check_rows
from ragtide_schemas import SentenceLabels

pytestmark = pytest.mark.processes

PRICES = '{"scripted": {"input": 1.0, "output": 2.0}}'
CRITERIA = json.dumps(
    [
        {"name": "height", "question": "Does the response name a height?", "scale": "yes_no"},
        {"name": "colour", "question": "Does the response name a colour?", "scale": "yes_no"},
        {"name": "detail", "question": "How detailed is the response?", "scale": "1-5"},
    ]
)
FAULTS = {"unsteady", "moves", "slight", "often"}

Fields = dict[str, Any]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """44 items with three documents; every second response has a sentence that no document supports."""
    path = tmp_path / "rows.jsonl"
    found = []
    for number in range(44):
        town = f"{'ABCDEFGHIJK'[number % 11]}{('rles', 'rest', 'igny', 'oint')[number // 11]}"
        facts = [f"The tower of {town} is {120 + 7 * number} metres high.", f"It was built in {1800 + number}."]
        documents = [" ".join(facts), f"The river of {town} is {20 + number} metres deep.", f"{town} has a bridge."]
        response = " ".join(facts) + (" It is painted blue." if number % 2 else "")
        question = f"How high is the tower of {town}?"
        turned = number % 3  # the document with the answer is at any place
        found.append(
            {
                "interaction_id": f"i-{number}",
                "question": question,
                "documents": documents[turned:] + documents[:turned],
                "response": response,
            }
        )
    path.write_text("".join(json.dumps(row) + "\n" for row in found))
    return path


def true_fields(prompt: JudgePrompt) -> Fields:
    """Return the labels of a judge that knows the truth: a sentence is supported if a document has it word by word."""
    places = {sentence: key for key, sentence in prompt.documents.items()}
    support = {key: [places[sentence]] if sentence in places else [] for key, sentence in prompt.response.items()}
    text = " ".join(prompt.response.values())
    fields: Fields = {
        "relevance_explanation": "by strings",
        "all_relevant_sentence_keys": [key for key, sentence in prompt.documents.items() if "tower" in sentence],
        "overall_supported_explanation": "by strings",
        "overall_supported": all(support.values()),
        "sentence_support_information": [
            {
                "response_sentence_key": key,
                "explanation": "by strings",
                "supporting_sentence_keys": keys,
                "fully_supported": bool(keys),
            }
            for key, keys in support.items()
        ],
        "all_utilized_sentence_keys": sorted({key for keys in support.values() for key in keys}),
    }
    if prompt.criteria:
        answers = {"a height": "yes", "a colour": "yes" if "blue" in text else "no", "detailed": "3"}
        given = {
            key: next(answer for words, answer in answers.items() if words in asked.question)
            for key, asked in prompt.criteria.items()
        }
        fields["criteria"] = {
            key: {"reason": "by strings", "answer": answer} if prompt.wants_reasons else answer
            for key, answer in given.items()
        }
    return fields


def with_verdicts(fields: Fields, verdict: Callable[[bool], bool]) -> Fields:
    """Return labels whose verdicts on response sentences are others."""
    entries = []
    for entry in fields["sentence_support_information"]:
        supported = verdict(entry["fully_supported"])
        keys = entry["supporting_sentence_keys"] or ["supported_without_sentence"]
        entries.append(entry | {"fully_supported": supported, "supporting_sentence_keys": keys if supported else []})
    whole = all(entry["fully_supported"] for entry in entries)
    return fields | {"sentence_support_information": entries, "overall_supported": whole}


Judge = Callable[[JudgePrompt, random.Random, int], Fields | Says]
"""Returns labels, or another reply: for a prompt, with random numbers, at a time that this text is asked about."""


def honest(prompt: JudgePrompt, _: random.Random, __: int) -> Fields:
    return true_fields(prompt)


def noisy(prompt: JudgePrompt, rng: random.Random, _: int) -> Fields:
    return with_verdicts(true_fields(prompt), lambda supported: supported is not (rng.random() < 0.3))


def prefers_the_first_document(prompt: JudgePrompt, _: random.Random, __: int) -> Fields:
    return true_fields(prompt) | {"all_relevant_sentence_keys": [key for key in prompt.documents if key[0] == "0"]}


def prefers_long_answers(prompt: JudgePrompt, _: random.Random, __: int) -> Fields:
    fields = true_fields(prompt)
    return with_verdicts(fields, lambda supported: supported or len(prompt.response) > 3)


def says_yes_first(prompt: JudgePrompt, _: random.Random, __: int) -> Fields:
    fields = true_fields(prompt)
    for place, (key, asked) in enumerate(prompt.criteria.items()):
        answer = asked.answers[0 if place == 0 else 1]
        entry = fields["criteria"][key]
        fields["criteria"][key] = entry | {"answer": answer} if isinstance(entry, dict) else answer
    return fields


def refuses_some(prompt: JudgePrompt, _: random.Random, __: int) -> Fields | Says:
    chosen = sum(prompt.question.encode()) % 3 == 0
    return Says("", refusal="I cannot help with that.") if chosen else true_fields(prompt)


def breaks_its_form(prompt: JudgePrompt, _: random.Random, __: int) -> Fields | Says:
    """Some answers are no labels until their faults are named, others never are, and some name unknown keys."""
    fields, kind = true_fields(prompt), sum(prompt.question.encode()) % 4
    if kind == 0 or (kind == 1 and len(prompt.body["messages"]) < 4):
        return Says("It looks supported to me.")
    if kind == 2:
        fields["all_relevant_sentence_keys"] = [*fields["all_relevant_sentence_keys"], *prompt.documents, "9z"]
    return fields


def server_of(judge: Judge) -> ScriptedJudge:
    rng, times = random.Random(5), Counter[str]()

    def reply(prompt: JudgePrompt) -> Says:
        times[prompt.text] += 1
        found = judge(prompt, rng, times[prompt.text])
        if isinstance(found, Says):
            return found
        return Says(in_lines("trace", found) if prompt.in_lines else json.dumps(found))

    return ScriptedJudge(always=reply)


def check(server: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, *arguments: str, **extra: str) -> Result:
    for name, value in {**server.environment, "RAGTIDE_JUDGE_PRICES": PRICES, **extra}.items():
        monkeypatch.setenv(name, value)
    return CliRunner().invoke(cli, ["judge", "check", *arguments])


def checked(judge: Judge, monkeypatch: pytest.MonkeyPatch, rows: Path, **extra: str) -> dict[str, Any]:
    with server_of(judge) as server:
        done = check(server, monkeypatch, str(rows), "--json", **extra)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def words(found: Mapping[str, Any]) -> dict[tuple[str, str, str | None], str]:
    return {(row["check"], row["measure"], row["metric"]): row["verdict"] for row in found["checks"]}


def faults(found: Mapping[str, Any]) -> set[tuple[str, str, str | None]]:
    return {key for key, word in words(found).items() if word in FAULTS}


@pytest.mark.parametrize("prompt", ["full", "short", "keys"])
@pytest.mark.parametrize("criteria_call", ["shared", "own"])
def test_an_honest_judge_has_no_fault(
    rows: Path, monkeypatch: pytest.MonkeyPatch, prompt: str, criteria_call: str
) -> None:
    extra = {"RAGTIDE_JUDGE_CRITERIA_CALL": criteria_call} if prompt == "full" else {}
    found = checked(honest, monkeypatch, rows, RAGTIDE_JUDGE_PROMPT=prompt, RAGTIDE_JUDGE_CRITERIA=CRITERIA, **extra)
    assert faults(found) == set()
    assert {*words(found).values()} == {"steady", "stays", "rare", None}
    assert found["rows"] == 40
    assert found["labeled"] == 5 * 40
    by_measure = {(row["measure"], row["metric"]): row for row in found["checks"] if row["check"] != "cost"}
    assert by_measure["difference", "criteria.detail"]["estimate"] == 0
    assert by_measure["equal_verdicts", None]["estimate"] == 1
    costs = {row["measure"]: row for row in found["checks"] if row["check"] == "cost"}
    assert costs["cost_usd"]["estimate"] == pytest.approx(found["cost_usd"])
    each = costs["cost_usd_per_item"]
    assert 0 < each["lower"] < each["estimate"] < each["upper"] < found["cost_usd"]


def test_a_judge_that_does_not_repeat_itself_is_unsteady_and_nothing_else(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(noisy, monkeypatch, rows, RAGTIDE_JUDGE_CRITERIA=CRITERIA)
    assert ("asked_again", "equal_verdicts", None) in faults(found)
    assert ("asked_again", "mean_absolute_difference", "trace.adherence") in faults(found)
    assert {check for check, _, _ in faults(found)} == {"asked_again"}


@pytest.mark.parametrize("prompt", ["full", "keys"])
def test_a_judge_that_prefers_the_first_document_is_found_by_its_place(
    rows: Path, monkeypatch: pytest.MonkeyPatch, prompt: str
) -> None:
    found = checked(prefers_the_first_document, monkeypatch, rows, RAGTIDE_JUDGE_PROMPT=prompt)
    row = next(row for row in found["checks"] if row["measure"] == "relevance_first_minus_last")
    assert (row["estimate"], row["verdict"]) == (1, "moves")
    assert ("documents_reversed", "changed_labels_beyond_asking_again", None) in faults(found)
    assert {check for check, _, _ in faults(found)} == {"documents_reversed"}


def test_a_judge_that_prefers_long_answers_is_found_by_making_them_longer(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(prefers_long_answers, monkeypatch, rows)
    adherence = next(
        row for row in found["checks"] if (row["check"], row["metric"]) == ("answer_repeated", "trace.adherence")
    )
    assert adherence["estimate"] == pytest.approx(0.5, abs=0.1)
    assert adherence["verdict"] == "moves"
    assert {check for check, _, _ in faults(found)} == {"answer_repeated"}


def test_a_judge_that_says_yes_first_is_found_by_the_order_of_criteria(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(says_yes_first, monkeypatch, rows, RAGTIDE_JUDGE_CRITERIA=CRITERIA)
    height = ("criteria_reversed", "difference", "criteria.height")
    assert height in faults(found)
    assert {check for check, _, _ in faults(found)} == {"criteria_reversed"}
    row = next(row for row in found["checks"] if row["check"] == "criteria_reversed")
    assert (row["metric"], row["estimate"]) == ("criteria.height", -1)


def test_after_an_interruption_the_table_is_of_the_answers_so_far(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Counter[str]()

    def interrupting(prompt: JudgePrompt, rng: random.Random, time: int) -> Fields | Says:
        asked["all"] += 1
        if asked["all"] == 40:
            os.kill(os.getpid(), signal.SIGINT)
        return honest(prompt, rng, time)

    with server_of(interrupting) as server:
        done = check(server, monkeypatch, str(rows), "--json", RAGTIDE_JUDGE_MAX_IN_FLIGHT="1")
    assert done.exit_code == 130, done.output
    found = json.loads(done.stdout)
    assert 30 <= found["labeled"] <= 40
    assert found["cost_usd"] > 0
    assert next(row["n"] for row in found["checks"] if row["measure"] == "equal_verdicts") >= 1
    assert "answers were paid for" in " ".join(done.stderr.split())


def test_a_criterion_about_sessions_is_refused_if_it_is_named_and_else_left_out(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    solved = {"name": "solved", "question": "Was the problem solved?", "scale": "yes_no", "unit": "session"}
    extra = {"RAGTIDE_JUDGE_CRITERIA": json.dumps([*json.loads(CRITERIA), solved])}
    with server_of(honest) as server:
        done = check(server, monkeypatch, str(rows), "--criterion", "solved", **extra)
    assert (done.exit_code, server.requests) == (1, [])
    assert "criteria.solved is a criterion about whole sessions" in str(done.exception)
    found = checked(honest, monkeypatch, rows, **extra)
    assert "criteria.solved" not in found["criteria"]


def test_refusals_are_counted_by_item(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(refuses_some, monkeypatch, rows)
    assert faults(found) == {("answers", "refused", None)}
    row = next(row for row in found["checks"] if row["measure"] == "refused")
    adherence = next(row for row in found["checks"] if row["metric"] == "trace.adherence")
    assert row["n"] == 40
    assert adherence["n"] == 40 - round(40 * row["estimate"])


def test_answers_without_their_form_are_counted(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(breaks_its_form, monkeypatch, rows)
    assert faults(found) == {("answers", name, None) for name in ("unusable", "corrected", "unknown_keys")}


def test_a_judge_without_any_usable_answer_has_a_table(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(lambda *_: Says("It looks supported to me."), monkeypatch, rows)
    unusable = next(row for row in found["checks"] if row["measure"] == "unusable")
    assert (unusable["estimate"], unusable["n"], unusable["verdict"]) == (1, 40, "often")
    assert {row["verdict"] for row in found["checks"] if row["check"] in ("asked_again", "documents_reversed")} == {
        "not applicable"
    }


def test_an_endpoint_that_is_down_ends_the_check_with_its_problem(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedJudge(always=Status(500)) as server:
        done = check(server, monkeypatch, str(rows), RAGTIDE_JUDGE_ATTEMPTS="1")
    assert "interactions in a row could not be labeled" in str(done.exception)


def test_no_answer_comes_from_a_cache_and_none_is_kept(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = rows.read_text().splitlines()[:5]
    # The same texts once more at the end, when the first answers are known.
    twin = json.dumps({**json.loads(first), "interaction_id": "twin"})
    rows.write_text("\n".join([first, *others, twin]))
    with server_of(honest) as server:
        one_call = {"RAGTIDE_JUDGE_MAX_IN_FLIGHT": "1"}
        assert check(server, monkeypatch, str(rows), **one_call).exit_code == 0
        assert len(server.requests) == 24
        asked = Counter(prompt.text for prompt in server.prompts)
        assert sorted(asked.values()) == [1] * 8 + [2] * 6 + [4]
        # Answers that other commands keep are not used, either.
        assert CliRunner().invoke(cli, ["score", str(rows), "--labeler", "judge"]).exit_code == 0
        before = len(server.requests)
        planned = check(server, monkeypatch, str(rows), "--dry-run", "--json")
        calls = json.loads(planned.stdout)
        assert (calls["calls"], calls["cached"], len(server.requests)) == (24, 0, before)
        assert check(server, monkeypatch, str(rows)).exit_code == 0
        assert len(server.requests) == before + 24


def test_a_check_that_may_cost_more_or_has_no_price_does_not_begin(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with server_of(honest) as server:
        dear = check(server, monkeypatch, str(rows), "--max-cost-usd", "0.001")
        assert "--max-cost-usd is 0.001" in str(dear.exception)
        unknown = check(server, monkeypatch, str(rows), RAGTIDE_JUDGE_PRICES="{}")
        assert "judge.prices" in str(unknown.exception)
        assert server.requests == []


def test_a_check_stops_at_its_cost_and_shows_what_it_knows(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dear(prompt: JudgePrompt, _: random.Random, __: int) -> Says:
        return Says(json.dumps(true_fields(prompt)), completion_tokens=20_000)

    with server_of(dear) as server:
        done = check(server, monkeypatch, str(rows), "--json", "--max-cost-usd", "0.5")
    assert done.exit_code == 0
    assert "--max-cost-usd" in done.stderr
    found = json.loads(done.stdout)
    assert 0.5 < found["cost_usd"] < 0.6
    assert found["labeled"] < 20


def test_the_table_fits_a_terminal_and_names_what_does_not_apply(monkeypatch: pytest.MonkeyPatch, rows: Path) -> None:
    monkeypatch.setattr(out, "_width", 80)
    with rows.open("a") as file:
        file.write('{"question": "", "documents": [], "response": ""}\n')
        file.write('{"question": "Why?", "documents": ["Because."], "response": " "}\n')
    with server_of(honest) as server:
        done = check(server, monkeypatch, str(rows), "--rows", "50")
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    for text in ("fewer than two criteria are asked", "trace.context_utilization", "176 answers", "1 rows have"):
        assert text in done.stdout
    assert f"{rows}:45: " in done.stderr


def test_one_document_and_one_criterion_leave_the_checks_out_that_need_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text('{"question": "How high?", "documents": ["It is 3 m high."], "response": "It is 3 m high."}\n')
    with server_of(honest) as server:
        arguments = ("--json", "--criterion", "height")
        done = check(server, monkeypatch, str(path), *arguments, RAGTIDE_JUDGE_CRITERIA=CRITERIA)
        assert len(server.requests) == 3
    found = json.loads(done.stdout)
    assert found["criteria"] == ["criteria.height"]
    left_out = {row["check"] for row in found["checks"] if row["verdict"] == "not applicable"}
    assert left_out == {"documents_reversed", "criteria_reversed"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--corruptions", "--only", "negatoin"], "did you mean 'negation'"),
        (["--corruptions", "--criterion", "height"], "--criterion"),
    ],
)
def test_wrong_options_are_refused(
    rows: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    with server_of(honest) as server:
        refused = check(server, monkeypatch, str(rows), *arguments, RAGTIDE_JUDGE_CRITERIA=CRITERIA)
    assert refused.exit_code != 0
    assert message in str(refused.exception)


def test_a_file_without_an_item_for_the_judge_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text('{"question": "Why?", "documents": [], "response": "Because."}\n')
    with server_of(honest) as server:
        refused = check(server, monkeypatch, str(path))
    assert "empty.jsonl has no item" in str(refused.exception)


# --- The intervals ---

VARIANTS: tuple[Variant, ...] = ("as_it_is", "asked_again", "documents_reversed", "answer_repeated")


def drawn_items(rng: np.random.Generator, n: int, moved: float = 0.0) -> list[ItemAnswers]:
    """Return the answers of a judge whose verdict on each of two sentences is a coin of the item."""
    found = []
    for _ in range(n):
        coin = rng.beta(2, 1)
        answers: dict[Variant, Labeling] = {}
        for variant in VARIANTS:
            repeated = variant == "answer_repeated"
            keys = "abcd" if repeated else "ab"
            chance = coin + (moved if repeated else 0.0) * (1 - coin)
            verdicts = {key: bool(rng.random() < chance) for key in keys}
            documents = ("0a", "1a")
            labels = SentenceLabels(
                relevant=tuple(key for key in documents if rng.random() < 0.5),
                utilized=(),
                support={key: ("0a",) if ok else () for key, ok in verdicts.items()},
                fully_supported=verdicts,
                n_document_sentences=2,
                document_keys=documents,
                response_keys=tuple(keys),
            )
            scores, absent = trace_metrics(labels).by_qualified_name("trace.")
            answers[variant] = Labeling(scores, absent, labels=(labels,))
        found.append(ItemAnswers(2, answers))
    return found


def row_of(rows: list[CheckRow], check: str, measure: str, metric: str | None = None) -> CheckRow:
    return next(row for row in rows if (row.check, row.measure, row.metric) == (check, measure, metric))


@pytest.mark.simulation
def test_intervals_hold_for_a_judge_that_does_not_repeat_itself() -> None:
    """Of 100 checks of 30 items, at most 5 and three standard errors say that a harmless change moves something."""
    rng = np.random.default_rng(20261127)
    missed = Counter[str]()
    for _ in range(100):
        found = check_rows(drawn_items(rng, 30), ())
        missed["joint"] += any(row.verdict in ("moves", "slight") for row in found)
        again = row_of(found, "asked_again", "equal_verdicts")
        # With a coin c, two verdicts are equal with probability c² + (1 - c)²; of a beta(2, 1) the mean is 2/3.
        missed["equal"] += not (again.mean.lower or 0) <= 2 / 3 <= (again.mean.upper or 1)
        for check in ("documents_reversed", "answer_repeated"):
            row = row_of(found, check, "difference", "trace.adherence")
            missed[check] += not (row.mean.lower or 0) <= 0 <= (row.mean.upper or 0)
        place = row_of(found, "documents_reversed", "relevance_first_minus_last")
        missed["place"] += not (place.mean.lower or 0) <= 0 <= (place.mean.upper or 0)
    assert max(missed.values()) <= 100 * 0.06 + 3 * (100 * 0.06 * 0.94) ** 0.5, missed


@pytest.mark.simulation
def test_the_interval_of_a_true_effect_holds() -> None:
    """A longer answer moves the chance of each verdict half of the way to 1: by 1/6 on average."""
    rng = np.random.default_rng(3)
    where = "answer_repeated", "difference", "trace.supported_fraction"
    rows = [row_of(check_rows(drawn_items(rng, 40, 0.5), ()), *where) for _ in range(60)]
    covered = sum((row.mean.lower or 0) <= 1 / 6 <= (row.mean.upper or 0) for row in rows)
    assert covered >= 60 * 0.94 - 3 * (60 * 0.06 * 0.94) ** 0.5
