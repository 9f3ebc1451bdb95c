"""The journeys of a new user: the commands, and the pains that their screens show to be gone."""

from typing import Final

from .evaluations import EVALUATIONS
from .model import Journey, Pain, Step
from .user_files import ANSWERS, APPLICATION, FEW, FIELD, FOREIGN, MISTYPED, NOTEBOOK, RAGAS, RULES

FIRST_DAYS: Final = (
    Journey(
        "Five minutes",
        (
            Step(
                "ragtide --help",
                pains=(
                    Pain(
                        "23 commands in one flat list",
                        "seven groups, a line each",
                        ("Start", "Publish", "Look (live)", "Offline", "Experiments", "Operate"),
                    ),
                ),
            ),
            Step(
                "ragtide demo --fast",
                shows=("FIRING adherence-drift", "480 scored"),
                pains=(
                    Pain(
                        "riddles: the baseline on the lenient side",
                        "Normal is 0.929, learned from 120 answers; the rule counts below 0.847",
                        ("Normal is 0.", "learned from 120 answers", "At most one false alarm"),
                        ("lenient side",),
                    ),
                ),
            ),
            Step("ragtide publish answers.jsonl", shows=("60 published",)),
            Step("ragtide publish answers.jsonl", shows=("0 published", "60 published before")),
            Step(
                "ragtide estimates",
                settles=True,
                shows=("shop · all · local", "adherence"),
                pains=(
                    Pain(
                        "n is … at 80 columns and in pipes",
                        "n, interval and state whole",
                        ("n ", " 60 ", " to "),
                        ("…",),
                    ),
                    Pain(
                        "3 of 12 rows always dead",
                        "one line at the end, with the reason",
                        ("without a value: completeness", "shows why"),
                    ),
                    Pain(
                        "every segment value by default: 152 lines",
                        "whole pipelines; --segments for more",
                        (),
                        ("model=",),
                    ),
                    Pain("no word of how a metric stands", "a state for each metric", ("state", "too few")),
                ),
            ),
            Step("ragtide publish few.jsonl", shows=("2 published",)),
            Step(
                "ragtide estimates --pipeline few",
                settles=True,
                shows=("few · all · local",),
                pains=(
                    Pain("advice after one interaction", "none before 30", (), ("Perhaps", "look whether", "usually")),
                ),
            ),
            Step(
                "ragtide explain adherence",
                pains=(
                    Pain(
                        "nothing says what a metric means",
                        "ragtide explain METRIC",
                        ("higher is better", "good from 0.8", "does not tell"),
                    ),
                ),
            ),
            Step(
                "ragtide estimate",
                code=2,
                pains=(Pain("no did-you-mean for commands", "and for pipelines", ("did you mean 'estimates'",)),),
            ),
            Step(
                "ragtide estimates --pipeline shpo",
                code=1,
                pains=(
                    Pain(
                        "an unknown pipeline: 'No estimates yet'",
                        "named, with the probable name",
                        ("did you mean 'shop'",),
                    ),
                ),
            ),
            Step(
                "ragtide compare shop few",
                pains=(
                    Pain(
                        "compare at 80: verdict, interval and n cut", "all whole", ("verdict", "undecided", "60 and 2")
                    ),
                ),
            ),
            Step(
                "ragtide doctor",
                settles=True,
                shows=("redis",),
                pains=(
                    Pain("the printed redis-cli call fails", "doctor prints the call that works", ("redis-cli -s",)),
                    Pain("'1 workers'", "1 worker", ("1 worker seen",), ("1 workers", "1 partitions")),
                ),
            ),
        ),
        {"answers.py": ANSWERS, "few.jsonl": FEW},
        up=True,
        pains=(
            Pain(
                "which redis-server runs depends on PATH",
                "the newest; remembered with the data",
                test="tests/runtime/test_redis_binary.py::test_the_newest_of_path_and_wheel_is_taken",
            ),
        ),
    ),
    Journey(
        "An application",
        (
            Step(
                "python application.py",
                shows=("published=40",),
                pains=(
                    Pain(
                        "documents=[] raises in the request",
                        "taken, and counted as an empty retrieval",
                        ("published=40",),
                    ),
                    Pain(
                        "feedback has no submit, and raises",
                        "submit_feedback: same queue, never raises",
                        (),
                        ("Error",),
                    ),
                ),
            ),
            Step(
                "ragtide estimates --pipeline app",
                settles=True,
                shows=("app · all · local",),
                pains=(
                    Pain(
                        "an empty retrieval cannot be expressed",
                        "retrieval.empty is a metric",
                        ("retrieval.empty", "0.125"),
                    ),
                ),
            ),
            Step("ragtide estimates --pipeline app --segments", shows=("lang=en",)),
            Step("ragtide dead-letters", shows=("No dead letters.",)),
        ),
        {"application.py": APPLICATION},
        up=True,
        pains=(
            Pain(
                "submit(dict): AttributeError in the log",
                "a dict is taken",
                test="tests/producers/test_background.py::test_an_interaction_is_taken_as_a_dict_or_as_keyword_fields",
            ),
            Pain(
                "two log lines a second while Redis is down",
                "two lines an outage",
                test="tests/end_to_end/test_outages.py::test_an_outage_of_redis_is_two_lines_of_each_role",
            ),
            Pain("no sampling in the producer", "a recipe in docs/start/app.md; no option sample=", issue=16),
        ),
    ),
    Journey(
        "Rules and alerts",
        (
            Step(
                "ragtide rules check rules.toml",
                pains=(
                    Pain(
                        "rules are checked only by starting a role", "ragtide rules check", ("1 of 1 rules can fire",)
                    ),
                ),
            ),
            Step(
                "ragtide rules check mistyped.toml",
                code=1,
                pains=(
                    Pain(
                        "a mistyped metric is a silent dead rule",
                        "refused, with file, line and rule",
                        ("mistyped.toml, line", "rule 'adherence-low'", "did you mean 'trace.adherence'"),
                    ),
                ),
            ),
            Step(
                "ragtide rules check field.toml",
                code=1,
                pains=(
                    Pain(
                        "a mistyped field: 'move it into metadata'",
                        "did you mean target",
                        ("did you mean target?",),
                        ("metadata",),
                    ),
                ),
            ),
            Step(
                "ragtide rules check syntax.toml",
                code=1,
                pains=(
                    Pain(
                        "broken TOML without file or line",
                        "both named",
                        ("syntax.toml cannot be read", "line 1"),
                    ),
                ),
            ),
            Step("ragtide publish answers.jsonl", shows=("60 published",)),
            Step("ragtide alerts", settles=True, shows=("FIRING adherence-low", "The target is 0.8")),
        ),
        {
            "answers.py": ANSWERS,
            "rules.toml": RULES,
            "mistyped.toml": MISTYPED,
            "field.toml": FIELD,
            "syntax.toml": "[[alerts]\nname",
            "ragtide.toml": RULES,
        },
        up=True,
        pains=(
            Pain(
                "a rule whose metric the labeler never gives",
                "doctor and roles warn",
                test="tests/ragtide/test_rule_findings.py::test_doctor_and_a_starting_role_tell_of_a_rule_that_never_fires",
            ),
            Pain(
                "subscribers die when Redis restarts",
                "they connect again and continue",
                test="tests/consumers/test_subscriber.py",
            ),
            Pain("no webhook, no gauge of firing alerts", "as before", issue=17),
            Pain('"fell" said of a mean that never was above its target', "as before", issue=17),
            Pain("each alert ends in the same two sentences", "shorter, and still there", issue=17),
        ),
    ),
    Journey(
        "A judge",
        (
            Step(
                "ragtide score answers.jsonl --labeler judge",
                shows=("scored, 0 problems",),
                pains=(Pain("offline tables do not name the labeler", "in the heading", ("shop · all · judge",)),),
            ),
            Step("ragtide publish answers.jsonl", shows=("60 published",)),
            Step(
                "ragtide estimates",
                settles=True,
                shows=("adherence",),
                pains=(
                    Pain("rows do not say which labeler", "grouped by labeler and model", ("shop · all · judge",)),
                    Pain(
                        "sentences.*: 0 to 153.6",
                        "no interval until it says something",
                        ("not yet",),
                        ("to 11", "to 15"),
                    ),
                ),
            ),
            Step(
                "ragtide estimates --labeling",
                settles=True,
                pains=(
                    Pain(
                        "--labeling cut at 80",
                        "quantity, n, mean and quantiles whole",
                        ("quantity", "n", "mean", "p50", "60"),
                        ("…",),
                    ),
                ),
            ),
            Step(
                "ragtide doctor",
                settles=True,
                pains=(Pain("nowhere what the judge is doing", "a line of doctor", ("judge",)),),
            ),
        ),
        {"answers.py": ANSWERS},
        up=True,
        judge=True,
        pains=(
            Pain(
                "eight rows called adherence (--estimator all)",
                "a column names the estimator",
                test="tests/ragtide/test_screens.py",
            ),
            Pain(
                "/readyz green while the judge is dead",
                "it says so, and why",
                test="tests/consumers/test_unavailable.py::test_readyz_says_that_the_labeler_is_unavailable_and_why",
            ),
            Pain(
                "one outage: a warning for each interaction",
                "one warning and one line at its end",
                test="tests/consumers/test_unavailable.py::test_one_outage_is_one_warning_and_one_line_when_it_is_over",
            ),
        ),
    ),
    Journey(
        "Offline and in CI",
        (
            Step(
                "ragtide score answers.jsonl",
                shows=("60 scored, 0 problems",),
                pains=(
                    Pain("names of metrics cut at 80", "whole", ("shop · all · local", "context_utilization"), ("…",)),
                ),
            ),
            Step(
                "ragtide score answers.jsonl --fail-if 'trace.adherence < 0.8'",
                code=4,
                pains=(Pain("no gate for CI", "--fail-if: fail is exit code 4", ("gate: fail",)),),
            ),
            Step("ragtide score answers.jsonl --fail-if 'trace.adherence < 0.1'", shows=("gate: pass",)),
            Step("ragtide score answers.jsonl --fail-if 'trace.adherance < 0.1'", code=2, shows=("did you mean",)),
            Step(
                "ragtide score empty.jsonl",
                code=1,
                pains=(Pain("an empty file passes CI", "exit code 1", ("no interactions to score",)),),
            ),
            Step(
                "ragtide score ragas.jsonl",
                shows=("40 scored, 0 problems",),
                pains=(
                    Pain(
                        "formats of other tools (Ragas, DeepEval, ...) and a missing pipeline refused",
                        "read, and it says which columns",
                        ("ragas · all · local", "documents from retrieved_contexts"),
                    ),
                ),
            ),
            Step(
                "ragtide score foreign.jsonl",
                code=1,
                pains=(Pain("69 kB of errors", "five lines, then how many more like it", ("35 more like it",)),),
            ),
            Step(
                "python notebook.py",
                pains=(Pain("no value for notebooks", "from ragtide import score", ("Summary of 9 estimates",)),),
            ),
        ),
        {
            "answers.py": ANSWERS,
            "empty.jsonl": "",
            "foreign.jsonl": FOREIGN,
            "notebook.py": NOTEBOOK,
            "ragas.jsonl": RAGAS,
        },
    ),
)
"""Journeys 1 to 5, in the order of a user's first days."""

OPERATIONS: Final = Journey(
    "Operations",
    (
        Step("ragtide --redis-url redis://127.0.0.1:1 doctor", code=1, shows=("127.0.0.1:1",)),
        Step("ragtide --redis-url 127.0.0.1 doctor", code=1, shows=("redis://",)),
        Step(
            "ragtide doctor",
            code=1,
            environ={"RAGTIDE_LABELLER": "judge"},
            pains=(
                Pain(
                    "a mistyped variable is silent",
                    "refused, with the probable name",
                    ("did you mean RAGTIDE_LABELER",),
                ),
            ),
        ),
        Step(
            "ragtide doctor",
            code=1,
            environ={"RAGTIDE_METRICS": "my:metric"},
            pains=(
                Pain(
                    "'EnvSettingsSource', no name of the variable",
                    "names the setting and the value",
                    ("metrics: my:metric cannot be loaded",),
                    ("EnvSettingsSource",),
                ),
            ),
        ),
        Step(
            "ragtide doctor",
            environ={"RAGTIDE_WINDOWS": "1h,2h"},
            pains=(
                Pain(
                    "lists in the environment only as JSON", "commas too", (), ("cannot be read", "EnvSettingsSource")
                ),
            ),
        ),
        Step(
            "ragtide doctor",
            pains=(
                Pain(
                    "doctor is green while nothing runs",
                    "it says that nothing runs",
                    ("no worker and no aggregator is running",),
                ),
            ),
        ),
        Step(
            "ragtide doctor",
            code=1,
            environ={"RAGTIDE_LABELER": "cascade"},
            pains=(Pain("a cascade without a judge: doctor green", "refused as up refuses it", ("judge",)),),
        ),
        Step(
            "ragtide docs clusters",
            pains=(
                Pain(
                    "a message names docs/understand/clusters.md, and the wheel has no pages",
                    "it names ragtide docs clusters, which shows the page",
                    ("Sessions and other clusters",),
                ),
            ),
        ),
        Step("ragtide replay workspaces", shows=("No workspaces yet",)),
        Step("ragtide recorder inspect nowhere", code=1, shows=("nowhere",)),
        Step("ragtide replay nowhere", code=1, shows=("nowhere",)),
    ),
    pains=(
        Pain(
            "a Redis that wants a password: 'HELLO must be called ...'",
            "needs a password: set RAGTIDE_REDIS_PASSWORD",
            test="tests/runtime/test_redis_url.py::test_a_wrong_password_is_refused_without_being_shown",
        ),
        Pain(
            "a read command converts Redis's data",
            "it never does",
            test="tests/runtime/test_data_directory.py::test_two_shells_with_two_servers_never_lock_each_other_out_by_reading",
        ),
        Pain(
            "dead letters: a detail of 8 characters a line",
            "the whole width below the row",
            test="tests/ragtide/test_screens_offline.py::test_a_dead_letter_has_its_whole_detail",
        ),
        Pain("no estimate and no firing alert in /metrics; no dashboard", "as before", issue=17),
    ),
)

JOURNEYS: Final = (*FIRST_DAYS, *EVALUATIONS, OPERATIONS)
"""All but the last, which is about the pages (`pages.py`)."""
