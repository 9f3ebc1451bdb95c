import asyncio
import functools
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.consumers.recorder.running import add_all, caught_up, recording, settings_of
from tests.support.cases import for_each
from tests.support.conditions import until
from tests.support.doc_pages import blocks_of, page_text
from tests.support.redis_cli import redis_cli
from tools.pages.__main__ import PAGES as GENERATED
from tools.pages.__main__ import PARTS as GENERATED_PARTS
from tools.pages.__main__ import REFERENCE, with_parts
from tools.pages.api import API_PAGES
from tools.pages.parts import parts_of

import ragtide
from ragtide import RagInteraction
from ragtide.cli.app import COMMANDS, FORMER
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_offline.experiments.drafts import draft_of, plan_of
from ragtide_producers import items_of
from ragtide_producers.traces.interactions import Refusal
from ragtide_producers.traces.nothing import Cause
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_schemas import Dropped, Reason

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the place and the text of every block of a language."""
    return [
        (f"{page.name}, block {number}", block.code)
        for page in PAGES
        for number, block in enumerate(blocks_of(page.read_text(encoding="utf-8")))
        if block.language == language and not block.tag
    ]


async def record(url: str) -> None:
    """Make the recording that the documentation reads, in the working directory."""
    async with connect_async(url) as redis:
        await add_all(redis, 0, 20)
        async with recording(redis, settings_of("recording")):
            await until(lambda: caught_up(redis))


@pytest.mark.parametrize(("place", "code"), [pytest.param(*block, id=block[0]) for block in blocks("python")])
def test_python_in_the_documentation_runs(place: str, code: str, request: pytest.FixtureRequest) -> None:
    if 'Recording.open("recording")' in code:
        asyncio.run(record(request.getfixturevalue("redis_url")))
    exec(compile(code, place, "exec"), {})


@pytest.mark.parametrize("text", [text for _, text in blocks("sh")])
def test_redis_cli_in_the_documentation_publishes_an_interaction(text: str, redis: Any, redis_url: str) -> None:
    program, *arguments = shlex.split(text)
    assert program == "redis-cli"
    redis_cli(redis_url, *arguments)
    ((entry_id, fields),) = redis.xrange(Streams("ragtide", 0).interactions)
    assert RagInteraction.from_entry(entry_id.decode(), fields[DATA_FIELD]).pipeline == "shop"


@for_each("place, text", blocks("toml"))
def test_toml_in_the_documentation_is_a_settings_file_or_an_experiment(place: str, text: str) -> None:
    fields = tomllib.loads(text)
    if "grid" in fields:
        items = items_of(["why?", "how?"])
        assert plan_of(draft_of({**fields, "shards": 2}), items, labeler="local")[0].configs
    else:
        assert Settings(**fields).alerts


@for_each("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:schemas|runtime|producers|consumers|aggregator|roles|offline|ragtide|tests|docs|benchmarks)/[\w./-]+)`",
        page.read_text(encoding="utf-8"),
    )
    assert [path for path in named if not (ROOT / path).exists()] == []


@for_each("name", sorted(GENERATED.keys() - REFERENCE))
def test_a_generated_page_is_up_to_date(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page == GENERATED[name](), "the definitions changed: run make schemas, and look at the difference"


def test_the_pages_of_the_reference_are_not_committed() -> None:
    listed = subprocess.run(["git", "ls-files", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert REFERENCE.isdisjoint(line.removeprefix("docs/") for line in listed.stdout.splitlines())


@for_each("page", [page for page in PAGES if parts_of(page.read_text(encoding="utf-8"))])
def test_the_generated_parts_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    now = with_parts(text, page.relative_to(ROOT / "docs").as_posix())
    assert text == now, "the definitions changed: run make schemas, and look at the difference"


def test_every_generated_part_stands_in_one_page() -> None:
    named = [name for page in PAGES for name in parts_of(page.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(GENERATED_PARTS)


def test_every_reason_why_a_metric_is_absent_is_documented() -> None:
    page = page_text("metrics")
    assert [reason for reason in AbsentReason if f"`{reason}`" not in page] == []


def test_every_reason_of_a_dead_letter_is_documented() -> None:
    page = page_text("troubleshooting")
    assert [reason for reason in Reason if f"| `{reason}` |" not in page] == []


def test_every_reason_why_a_trace_gives_nothing_is_documented() -> None:
    page = page_text("traces")
    assert [why for why in (*Cause, *Refusal) if f"| `{why}` |" not in page] == []


def test_every_reason_of_a_drop_is_documented() -> None:
    page = page_text("python")
    assert [why for why in Dropped if f"| `{why}` |" not in page] == []


def test_every_command_that_is_named_exists() -> None:
    known, former = set(COMMANDS), {words.split()[0] for words in FORMER}
    for pages, there in ((PAGES, known), ([ROOT / "CHANGELOG.md"], known | former)):
        text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
        assert set(re.findall(r"`ragtide ([a-z][a-z-]+)", text)) - there == set()
    assert {"demo", "up", "worker", "aggregator", "publish", "watch", "estimates", "alerts", "doctor"} <= known


@functools.cache
def anchors_of(page: Path) -> set[str]:
    if page.suffix != ".md":
        return set()
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@for_each("page", PAGES)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    links = re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8"))
    files = [(page.parent / target if target else page, anchor) for target, anchor in links]
    assert [
        (file, anchor) for file, anchor in files if not file.exists() or anchor not in {"", *anchors_of(file)}
    ] == []


def cells_of(row: str) -> int:
    """Return the number of cells of a row of a Markdown table; a bar after a backslash stands in a cell."""
    return len(re.sub(r"\\\|", "", row).strip().removeprefix("|").removesuffix("|").split("|"))


@for_each("page", PAGES)
def test_a_table_has_a_delimiter_for_each_heading(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    tables = re.findall(r"^(\|.*)\n(\|[ :|-]*-[ :|-]*)$", text, re.MULTILINE)
    assert [heading for heading, delimiters in tables if cells_of(heading) != cells_of(delimiters)] == []


def test_every_page_that_the_code_names_exists_and_has_the_section() -> None:
    with_invented_pages = {ROOT / "tests" / name for name in ("test_committed_files.py", "test_packaging.py")}
    for module in set(ROOT.glob("[a-z]*/**/*.py")) - with_invented_pages:
        for page, _, section in re.findall(r'(docs/[\w/-]+\.md)(, "([^"]+)")?', module.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), f"{module}: {page}"
            assert not section or f"# {section}\n" in (ROOT / page).read_text(encoding="utf-8"), f"{module}: {section}"


def test_every_public_name_has_a_row_that_leads_to_its_description() -> None:
    rows = dict(re.findall(r"^\| \[`(\w+)(?:\(\))?`\]\(([\w.-]+)#", GENERATED["reference/api.md"](), re.MULTILINE))
    assert rows.keys() == set(ragtide.__all__) - {"__version__"}
    assert [name for name, page in rows.items() if f"\n## {name}\n" not in GENERATED[f"reference/{page}"]()] == []


def test_every_public_function_and_method_describes_its_arguments() -> None:
    """An argument stands in the signature above the description, and in the list below it."""
    found = re.compile(r"```py\n(.+?)\n```\n(.*?)(?=\n##|\Z)", re.DOTALL)
    missing = []
    for name in API_PAGES:
        for signature, description in found.findall(GENERATED[f"reference/{name}"]()):
            inner = signature.partition("(")[2].rpartition(")")[0]
            arguments = re.findall(r"(?:^|[,(]\s+|^\s+)\*{0,2}(\w+)(?=[:=,]|$)", inner, re.MULTILINE)
            missing += [f"{signature[:40]} {each}" for each in arguments if f"- `{each}`" not in description]
    assert missing == []


def test_a_newcomers_questions_are_two_clicks_from_the_readme() -> None:
    assert "(docs/help/faq.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    page = page_text("faq")
    _, *answers = re.split(r"^## (?=.*\?$)", page, flags=re.MULTILINE)
    assert len(answers) >= 10
    assert [answer.splitlines()[0] for answer in answers if "](" not in answer] == []


def test_what_is_checked_before_a_commit_is_what_ci_checks() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    assert {hook["entry"].split()[0].rpartition("/")[2] for hook in hooks} == {"ruff", "mypy", "lint-imports"}
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert {"make test", "make test-heavy"} <= set(lines)
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
