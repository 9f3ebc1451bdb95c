"""Journeys 6 and 7: record, replay and compare; experiments and their report."""

from typing import Final

from .model import Journey, Pain, Step

ROWS: Final = """
import json, random
chance = random.Random(1)
for number in range(300):
    good = chance.random() < (0.9 if number < 150 else 0.2)
    row = {
        "interaction_id": f"i-{number}", "pipeline": "assistant-of-the-shop",
        "question": "When was the tower built?",
        "documents": ["The tower was built in 1889. It is made of iron."],
        "response": "The tower was built in 1889." if good else "It is a bridge over the river Thames.",
        "segments": {"model": "a-model-with-a-very-long-name-20240307"},
    }
    print(json.dumps(row))
"""

BACK_TEST: Final = """
[[alerts]]
name = "adherence-below-nine-tenths"
metric = "trace.adherence"
kind = "threshold"
target = 0.9
"""

TARGET: Final = """
import random, time
def answer(question, top_k, chunk_sentences, answer_sentences):
    time.sleep(0.01)
    if top_k == 4 and question.endswith(" 7?"):
        raise RuntimeError("no answer in this language")
    chance = 0.1 + 0.2 * top_k - 0.02 * chunk_sentences + 0.05 * answer_sentences
    good = random.Random(f"{question}{top_k}").random() < chance
    said = "It was built in 1889." if good else "It is a bridge."
    return ["The tower was built in 1889. It is made of iron."], said
def measure(item, answer):
    return {"right": float("1889" in answer.response)}
"""

QUESTIONS: Final = """
import json
for number in range(60):
    print(json.dumps({"question": f"When was tower {number}?"}))
"""

PLAN: Final = """
name = "grid"
target = "target:answer"
data = "questions.jsonl"
metric = "own.right"
measure = "target:measure"
tries = 1
[grid]
top_k = [1, 2, 4]
chunk_sentences = [0, 3]
answer_sentences = [1, 2]
[metrics.right]
is_algebraic = true
value_range = [0, 1]
"""

SHOW: Final = """
import html, re
page = open("grid.html").read()
titles = re.findall("<summary>(.*?)</summary>", page.partition('id="worst"')[2].partition("</section>")[0])
missing = ["missing)" in title for title in titles]
print(" ".join(html.unescape(re.sub("<(style|title).*?</.*?>|<[^>]*>", " ", page, flags=re.S)).split()))
print("worst items complete first:", missing == sorted(missing))
"""

EVALUATIONS: Final = (
    Journey(
        "Record and replay",
        (
            Step("ragtide publish answers.jsonl", shows=("300 published",)),
            Step(
                "ragtide recorder inspect recording --verify",
                settles=True,
                shows=("day", "pipeline", "interactions", "metrics", "300 300", "every file matches its manifest"),
                pains=(
                    Pain(
                        "recordings (now inspect) at 80 columns: day and sizes cut",
                        "both whole; the name gives way",
                        ("day pipeline interactions metrics alerts files bytes 20",),
                    ),
                ),
            ),
            Step(
                "ragtide replay recording --rules rules.toml --workspace back",
                shows=("alerts", "in production", "300 of 300"),
                pains=(
                    Pain('"fired 21:33" in minutes', "fired with seconds", ("fired 2", ":")),
                    Pain(
                        '"0.278 ●─ 0.278" looks like a bug',
                        '"exact", and a line that says why',
                        ("exact: every interaction of the workspace is counted", "exact"),
                        (" 1.000 to 1.000",),
                    ),
                ),
            ),
            Step(
                "ragtide replay recording --rules mistyped.toml",
                code=1,
                pains=(
                    Pain(
                        "a mistyped rule back-tests as 0 alerts",
                        "refused, with the probable name",
                        ("there is no metric 'trace.adherance'", "did you mean 'trace.adherence'"),
                    ),
                ),
            ),
            Step("ragtide replay recording --relabel --workspace again", shows=("300 of 300",)),
            Step(
                "ragtide compare assistant-of-the-shop --workspace back --workspace again --recording recording",
                shows=("metric", "back", "again", "verdict", "adherence"),
                pains=(
                    Pain(
                        "the same ids compared unpaired, ± 0.076",
                        "paired by id: exact, equal",
                        ("Paired by interaction id: 300 pairs", "+0.000 exact 300 equal"),
                        ("undecided",),
                    ),
                    Pain(
                        "compare cut even at 110 columns",
                        "n, interval and verdict whole at 80",
                        ("difference", "interval", "n"),
                    ),
                    Pain(
                        "segments mixed with whole pipelines",
                        "whole pipelines; --segments for more",
                        ("--segments shows them",),
                        ("model=",),
                    ),
                ),
            ),
            Step("ragtide replay workspaces", shows=("back", "again", "300")),
            Step(
                "ragtide doctor",
                code=1,
                environ={"RAGTIDE_RECORDER__ROLL_S": "2"},
                pains=(
                    Pain(
                        "RAGTIDE_RECORDER__ROLL_S: a riddle",
                        "says which form to write",
                        ("write one underscore", "RAGTIDE_RECORDER_ROLL_S"),
                    ),
                ),
            ),
        ),
        {
            "answers.py": ROWS,
            "rules.toml": BACK_TEST,
            "mistyped.toml": BACK_TEST.replace('adherence"\nkind', 'adherance"\nkind'),
        },
        up=True,
        environ={"RAGTIDE_RECORDER_URL": "recording", "RAGTIDE_RECORDER_ROLL_S": "1"},
    ),
    Journey(
        "Experiments and the report",
        (
            Step(
                "ragtide experiment run plan.toml",
                shows=("complete", "60 of 60 items"),
                pains=(
                    Pain(
                        "grid names wrap over three lines",
                        "parameters are columns, a config is #3",
                        ("config top_k", "#3"),
                        ("top_k=1,chunk_sentences=0", "sen tences"),
                    ),
                    Pain(
                        "45 lines of stop reasons with two full names each",
                        "a line each: NAME (#4) stopped after 60 items: surely at most 0.019 better than NAME (#1)",
                        (" stopped after ", " items: surely at "),
                        ("at an error probability of",),
                    ),
                    Pain(
                        '"0.507 (0.507 to 0.507)": false precision',
                        '"exact", beside the interval for other items',
                        ("exact: all 60 items have run.", "For other items like these "),
                    ),
                ),
            ),
            Step(
                "ragtide experiment clone grid #0 bad --set topk=5",
                code=1,
                pains=(
                    Pain(
                        "clone --set topk=5 accepted: 300 failing calls",
                        "refused, with the probable name",
                        ("there is no parameter 'topk'; did you mean 'top_k'?",),
                    ),
                ),
            ),
            Step(
                "ragtide experiment clone grid #0 more --set top_k=5",
                pains=(
                    Pain(
                        "commands accepted while no driver runs",
                        "the command says so, and how to go on",
                        ("No driver runs, so this takes effect when the experiment continues",),
                    ),
                ),
            ),
            Step(
                "ragtide experiment show grid",
                shows=("#12 more",),
                pains=(
                    Pain(
                        '"running" for ever after the driver ended',
                        '"waits for a driver", and how to go on',
                        ("grid waits for a driver", "To continue, run ragtide experiment run FILE again"),
                    ),
                ),
            ),
            Step("ragtide experiment run plan.toml", shows=("complete",)),
            Step("ragtide experiment report grid", shows=("report written to grid.html",)),
            Step(
                "python show.py",
                pains=(
                    Pain(
                        "the report: three intervals for one difference",
                        "the race's interval everywhere",
                        ("intervals are those of the race", "surely at "),
                    ),
                    Pain(
                        '"leads with 0.507 (0.507 to 0.507)"',
                        "of these questions, exactly; and the interval for others",
                        ("questions, exactly. For other questions like these expect 0.", " of these 5"),
                    ),
                    Pain(
                        "names in the report: answe r_sentences=3",
                        "the parameters in one piece, and #numbers",
                        ("config own.right", "top_k=1, chunk"),
                        ("top_k=1,chunk",),
                    ),
                    Pain(
                        "worst items led by an item without some scores",
                        "items with every score first; missing scores counted",
                        ("worst items complete first: True",),
                    ),
                    Pain("-0.000, and an interval from 0.000 to -0.000", "0.000", (), ("-0.000",)),
                ),
            ),
        ),
        {
            "target.py": TARGET,
            "questions.py": QUESTIONS,
            "plan.toml": PLAN,
            "show.py": SHOW,
        },
        pains=(
            Pain(
                "a config without a score called a contender",
                "named as without a score",
                test="tests/ragtide/test_experiment_mistakes.py::test_a_config_whose_calls_fail_with_one_error_is_stopped_and_is_no_contender",
            ),
            Pain(
                "300 calls of the same TypeError",
                "a config stops after 10 equal failures in a row",
                test="tests/ragtide/test_experiment_mistakes.py::test_a_config_whose_calls_fail_with_one_error_is_stopped_and_is_no_contender",
            ),
            Pain(
                "wrong grid parameter: every call fails",
                "checked against the function before the first call",
                test="tests/ragtide/test_experiment_mistakes.py::test_a_parameter_that_the_target_does_not_take_is_refused_before_anything_is_called",
            ),
            Pain(
                "a notebook prints a Row(...) of 600 characters",
                "short reprs, tables, to_frame()",
                test="tests/ragtide/test_notebooks.py",
            ),
            Pain(
                "--install-completion in the help of a subcommand",
                "only in ragtide --help",
                test="tests/ragtide/test_help.py",
            ),
            Pain("Ctrl-C without a word", "what was kept, and how to go on", test="tests/ragtide/test_interrupts.py"),
            Pain(
                "a late clone is not raced, and runs to the end",
                "as before: it shares no item with a finished leader",
                issue=18,
            ),
            Pain(
                "the report's look: charts, colours, phone",
                "scores stand beside the name on a phone; the rest is as before",
                issue=18,
            ),
        ),
    ),
)
"""In the order of `ragtide --help`."""
