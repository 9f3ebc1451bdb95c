"""Every command that the pages print exists with its options; those of four folders run, or a reason says why not."""

import asyncio
import csv
import gzip
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pytest
import typer
from pyarrow import parquet
from tests.consumers.recorder.running import add_all, caught_up, recording, settings_of
from tests.support.cases import for_each
from tests.support.conditions import until
from tests.support.doc_pages import blocks_of
from tests.support.in_process import run_command

from ragtide.cli.app import cli
from ragtide.testing import ScriptedJudge
from ragtide_runtime.redis.client import connect_async

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOLDERS: Final = ("start", "scores", "offline", "operate")
RAGBENCH: Final = ROOT / "tests/data/ragbench/ragbench_sample.jsonl"


class Command(NamedTuple):
    """A command in a page."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        """Its words, without the comment and without what follows a redirection."""
        words = shlex.split(self.line, comments=True)
        return words[: words.index(">")] if ">" in words else words


def commands_in(page: Path) -> list[Command]:
    """Return the commands of the indented blocks and of the blocks of bash of a page; a continued line is one."""
    text = page.read_text(encoding="utf-8")
    indented = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    blocks = [found[1].replace("\n    ", "\n") for found in re.finditer(r"\n\n((?:    \S.*\n)+)", indented)]
    blocks += [block.code for block in blocks_of(text) if block.language == "bash"]
    lines = [line.strip() for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [Command(page.name, line) for line in lines if line and not line.startswith("#")]


COMMANDS: Final = list(
    dict.fromkeys(
        command for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))
        for command in commands_in(page)
    )
)  # fmt: skip

INSTALLS: Final = "it installs packages; the package tests install the wheel"
CONTAINERS: Final = "it needs Docker or a cluster; the tests of deploy/ render what it starts"
SYSTEM: Final = "it changes the system's services; tests/deploy checks the units"
ROLE: Final = "it starts roles without an end; the test of its page, and tests/end_to_end, run it"
TAGGED: Final = "the test of its page runs it"
MODEL: Final = "it needs a model of hundreds of megabytes"
CLOUD: Final = "it needs an object store"
LIVE: Final = "it reads an alert, an experiment or annotations of a running deployment; tests of the command have one"
NOTHING: Final = "it is no command: a variable, a message or a formula"

CANNOT: Final = {
    r"(python -m )?pip install|python3 -m venv|/opt/ragtide/bin/pip": INSTALLS,
    r"optimum-cli|python -m onnxruntime": MODEL,
    r".*--labeler (model|nli)\b": MODEL,
    r"docker|kubectl|helm|sh deploy/compose/secrets.sh": CONTAINERS,
    r"cp /opt|mkdir -p|touch /etc|echo 'RAGTIDE_REDIS|systemctl": SYSTEM,
    r"ragtide up|RAGTIDE_RECORDER_URL=recording ragtide up": ROLE,
    r"chmod 600|ragtide notify test|ragtide items --forget|ragtide replay workspaces remove again": TAGGED,
    r"redis-cli --scan|redis-cli BGSAVE": "it acts on a server of its own; tests/docs/test_privacy.py and backups do",
    r"ragtide replay /recording --restore": "tests/end_to_end/test_restore.py restores a recording",
    r"export |bytes = |the judge failed": NOTHING,
    r"ragtide score 's3://": CLOUD,
    r"ragtide (alerts --firing|dataset from-alert)": LIVE,
    r"ragtide experiment report may": LIVE,
    r"ragtide fit ": "it fits for minutes; tests of the command have data for it",
    r"ragtide capacity plan criteria.asks_back": LIVE,
    r"ragtide experiment run examples": "tests/examples/test_bm25_rag.py runs it",
    r"ragtide score batch": "it needs a batch API; tests of the command have a server of it",
    r"ragtide score merge parts": "it needs all 64 parts of other machines; tests of the command merge parts",
}
"""Commands that cannot run here, as patterns of their beginning, each with the reason."""

PLACES: Final = {"FILE": "answers.jsonl", "FOLDER": "answers/", "NAME": "asks_back"}
TIMES: Final = {"2026-10-01": "2020-01-01", "2026-11-01": "2099-01-01"}
ENDS: Final = {
    "score answers.jsonl --fail-if": (0, 4, 5),
    "score answers.jsonl --output new.jsonl --baseline": (0, 4, 5),
}
"""Exit codes of gates, whose verdict depends on the answers; all other commands end with 0."""


def reason_of(command: Command) -> str | None:
    """Return why a command cannot run here; None if it runs."""
    return next((reason for pattern, reason in CANNOT.items() if re.match(pattern, command.line)), None)


RUN: Final = [command for command in COMMANDS if reason_of(command) is None]
SLOW: Final = [command for command in RUN if "--corruptions" in command.words]
QUICK: Final = [command for command in RUN if command not in SLOW]


def test_the_pages_have_commands_and_every_exception_is_needed() -> None:
    assert len(RUN) > 20
    unused = [pattern for pattern in CANNOT if not any(re.match(pattern, command.line) for command in COMMANDS)]
    assert unused == []


# The names of commands and options, in every page


ROOT_COMMAND: Final[Any] = typer.main.get_command(cli)


def options_of(words: list[str]) -> tuple[set[str], list[str]]:
    """Return the options that the command in these words has, and the words after its name.

    Raises:
        AssertionError: there is no such command.
    """
    found = ROOT_COMMAND
    before = {option for parameter in found.params for option in parameter.opts + parameter.secondary_opts}
    rest = list(words)
    while rest and rest[0].startswith("--"):  # options before the command have a value
        rest = rest[1:] if "=" in rest[0] or rest[0] in {"--help", "--all", "--version"} else rest[2:]
    while rest and rest[0] in getattr(found, "commands", ()):
        found = found.commands[rest[0]]
        rest = rest[1:]
    if hasattr(found, "commands") and not any(parameter.param_type_name == "argument" for parameter in found.params):
        assert not rest or not re.fullmatch(r"[a-z][a-z-]+", rest[0]), f"there is no command {rest[0]}"
    known = before | {option for parameter in found.params for option in parameter.opts + parameter.secondary_opts}
    return known | {"--help"}, rest


def printed_in(page: Path) -> set[str]:
    """Return the commands of ragtide in the blocks and in the sentences of a page."""
    text = page.read_text(encoding="utf-8")
    inline = re.findall(r"`(ragtide [a-z-][^`]*)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    lines = [" ".join(line.split()) for line in inline]
    lines += [command.line for command in commands_in(page) if re.match(r"(\S+=\S+ )*ragtide ", command.line)]
    return set(lines)


def wrong_options(line: str) -> list[str]:
    """Return the options in a line that its command does not have."""
    try:
        words = shlex.split(line.replace("\\|", "|"), comments=True)
    except ValueError:  # a sentence in quotes
        return []
    words = words[words.index("ragtide") + 1 :]
    cut = min((words.index(end) for end in ("|", ">", "&&") if end in words), default=len(words))
    known, rest = options_of(words[:cut])
    given = {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)}
    return [f"{line}: {option}" for option in sorted(given - known)]


@pytest.mark.pure
def test_a_wrong_option_and_a_wrong_command_are_found() -> None:
    assert wrong_options("ragtide score FILE --labeller judge")
    assert wrong_options("ragtide --workspace NAME estimates --workspace NAME") == []
    with pytest.raises(AssertionError, match="no command scroe"):
        wrong_options("ragtide scroe FILE")
    with pytest.raises(AssertionError, match="no command rename"):
        wrong_options("ragtide replay workspaces rename")


@pytest.mark.pure
@for_each("page", PAGES)
def test_every_option_that_a_page_prints_is_one_of_its_command(page: Path) -> None:
    assert [wrong for line in printed_in(page) for wrong in wrong_options(line)] == []


# The commands of four folders, in one folder with what they read


async def record(url: str) -> None:
    async with connect_async(url) as redis:
        await add_all(redis, 0, 20)
        async with recording(redis, settings_of("recording")):
            await until(lambda: caught_up(redis))


def fill(folder: Path) -> None:
    """Write the files that the pages name: rows of RAGBench, interactions, labels, scores and rules."""
    rows = RAGBENCH.read_text(encoding="utf-8").splitlines()[:12]
    (folder / "ragbench.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name in ("test.jsonl", "response.jsonl"):
        shutil.copy(folder / "ragbench.jsonl", folder / name)
    (folder / "ragbench.jsonl.gz").write_bytes(gzip.compress((folder / "ragbench.jsonl").read_bytes()))
    shutil.copy(ROOT / "tests/data/ragchecker-example/checking_outputs.json", folder)
    answers = [
        {
            "pipeline": "shop", "interaction_id": f"i-{number}", "question": f"When was tower {number} built?",
            "documents": [f"Tower {number} was built in 18{number:02d}."], "response": f"In 18{number:02d}.",
            "gold_scores": {"trace.adherence": float(number % 3 > 0), "trace.context_relevance": number % 4 / 4},
        }
        for number in range(20)
    ]  # fmt: skip
    lines = "".join(json.dumps(answer) + "\n" for answer in answers)
    for name in ("answers.jsonl", "rows.jsonl", "graded.jsonl", "labeled.jsonl", "b.jsonl"):
        (folder / name).write_text(lines, encoding="utf-8")
    cells = [(f"When was {n} built?", f"Tower {n} was built in 18{n}.", f"In 18{n}.", n % 3 > 0) for n in range(10, 30)]
    with (folder / "labeled.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("question", "documents", "response", "supported"), *cells])
    table = pa.Table.from_pylist([{**answer, "gold_scores": None} for answer in answers])
    (folder / "answers").mkdir()
    for place in ("a.parquet", "answers/one.parquet"):
        parquet.write_table(table, folder / place)
    (folder / "rules.toml").write_text(
        '[[alerts]]\nname = "floor"\nkind = "threshold"\nmetric = "trace.adherence"\ntarget = 0.8\n', encoding="utf-8"
    )
    (folder / "feedback.jsonl").write_text(
        '{"pipeline": "shop", "interaction_id": "i-17", "gold_scores": {"trace.adherence": 1.0}}\n', encoding="utf-8"
    )
    page = (ROOT / "docs/scores/own-labeler.md").read_text(encoding="utf-8")
    (folder / "my_module.py").write_text(
        next(block.code for block in blocks_of(page) if block.language == "python"), encoding="utf-8"
    )


PREPARE: Final = (
    ("score", "answers.jsonl", "--output", "scores.jsonl"),
    ("score", "answers.jsonl", "--output", "local.jsonl"),
    ("score", "answers.jsonl", "--output", "main.jsonl"),
    ("score", "answers.jsonl", "--labeler", "judge", "--output", "judge.jsonl"),
)
"""Commands that write what the pages read, as their texts say before."""


def arranged(command: Command) -> list[str]:
    """Return the words of a command with the names of this test in place of those in capitals."""
    if "stored" in command.words:
        return ["checking_outputs.json" if word == "FILE" else word for word in command.words]
    if "--shard" in command.words:
        return ["shards" if word == "parts" else word for word in command.words]
    if "--output scores.jsonl" in command.line:
        return ["judged.jsonl" if word == "scores.jsonl" else PLACES.get(word, word) for word in command.words]
    return [{**PLACES, **TIMES}.get(word, word) for word in command.words]


@pytest.mark.processes
@pytest.mark.redis
@pytest.mark.usefixtures("redis")
@pytest.mark.parametrize("commands", [QUICK, pytest.param(SLOW, marks=pytest.mark.heavy)], ids=["quick", "slow"])
def test_every_command_of_the_pages_runs(
    commands: list[Command],
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(tmp_path)
    asyncio.run(record(redis_url))
    with ScriptedJudge() as judge:
        fixed = {**judge.environment, "RAGTIDE_REDIS_URL": redis_url, "RAGTIDE_DATA_DIR": str(tmp_path / "data")}
        fixed["RAGTIDE_JUDGE_PRICES"] = '{"scripted": {"input": 0.1, "output": 0.4}}'
        fixed["RAGTIDE_JUDGE_CRITERIA"] = '[{"name": "asks_back", "question": "Does it ask back?", "scale": "yes_no"}]'
        fixed.pop("RAGTIDE_LABELER", None)
        for name, value in fixed.items():
            monkeypatch.setenv(name, value)
        for prepared in PREPARE:
            assert run_command(capsys, *prepared).code == 0
        failed = []
        for command in commands:
            words = arranged(command)
            with monkeypatch.context() as variables:
                while "=" in words[0] and not words[0].startswith("-"):
                    name, _, value = words.pop(0).partition("=")
                    variables.setenv(name, value)
                assert words[0] == "ragtide", f"{command}: give it a reason in CANNOT, or run it here"
                done = run_command(capsys, *words[1:])
            ends = next((ends for begin, ends in ENDS.items() if " ".join(words[1:]).startswith(begin)), (0,))
            if done.code not in ends:
                failed.append(f"{command.page}: {command.line}: exit code {done.code}: {done.stderr[-400:]}")
    assert failed == [], "\n".join(failed)
