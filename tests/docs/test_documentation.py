import asyncio
import functools
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.consumers.recorder.running import add_all, caught_up, recording, settings_of
from tests.support.cases import for_each
from tests.support.conditions import until
from tests.support.redis_cli import redis_cli
from tools.pages.__main__ import PAGES as GENERATED
from tools.pages.settings import settings_table, table_of

import ragtide
from ragtide import RagInteraction
from ragtide.cli.app import COMMANDS
from ragtide_consumers.metrics.scores import AbsentReason
from ragtide_offline.experiments.drafts import Draft, draft_of, plan_of
from ragtide_producers import items_of
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.telemetry.catalogue import catalogue_table
from ragtide_runtime.telemetry.quality_metrics import quality_table
from ragtide_schemas import Dropped, Reason

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    """Return the place and the text of every block of a language."""
    return [
        (f"{page.name}, block {number}", text)
        for page in PAGES
        for number, (found, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
        if found == language
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


def test_the_table_of_an_experiments_settings_is_its_settings() -> None:
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    assert table_of(Draft) in page, "the settings of an experiment changed: paste what table_of(Draft) returns"


def test_the_table_of_settings_is_the_settings() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert settings_table() in page, "the settings changed: paste what python -m tools.pages.settings prints"


@for_each("page", PAGES)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    named = re.findall(
        r"`((?:schemas|runtime|producers|consumers|aggregator|roles|offline|ragtide|tests|docs|benchmarks)/[\w./-]+)`",
        page.read_text(encoding="utf-8"),
    )
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_table_of_prometheus_metrics_is_the_catalogue() -> None:
    page = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")
    assert catalogue_table() in page, "the metrics changed: run python -m ragtide_runtime.telemetry.catalogue"


def test_the_table_of_prometheus_metrics_of_quality_is_the_catalogue() -> None:
    page = (ROOT / "docs" / "prometheus.md").read_text(encoding="utf-8")
    assert quality_table() in page, "the metrics changed: run python -m ragtide_runtime.telemetry.quality_metrics"


@for_each("name", GENERATED)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page == GENERATED[name](), "the definitions changed: run make schemas, and look at the difference"


def test_every_reason_why_a_metric_is_absent_is_documented() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert [reason for reason in AbsentReason if f"`{reason}`" not in page] == []


def test_every_reason_of_a_dead_letter_is_documented() -> None:
    page = (ROOT / "docs" / "dead-letters.md").read_text(encoding="utf-8")
    assert [reason for reason in Reason if f"| `{reason}` |" not in page] == []


def test_every_reason_of_a_drop_is_documented() -> None:
    page = (ROOT / "docs" / "producers.md").read_text(encoding="utf-8")
    assert [why for why in Dropped if f"| `{why}` |" not in page] == []


def test_every_command_that_is_named_exists() -> None:
    known = set(COMMANDS)
    text = "\n".join(page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CHANGELOG.md"])
    named = set(re.findall(r"`ragtide ([a-z][a-z-]+)", text))
    assert named <= known
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


def test_every_page_that_the_code_names_exists_and_has_the_section() -> None:
    for module in ROOT.glob("[a-z]*/**/*.py"):
        for page, _, section in re.findall(r'(docs/[\w-]+\.md)(, "([^"]+)")?', module.read_text(encoding="utf-8")):
            assert (ROOT / page).exists(), f"{module}: {page}"
            assert not section or f"# {section}\n" in (ROOT / page).read_text(encoding="utf-8"), f"{module}: {section}"


def test_the_readme_lists_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in sorted((ROOT / "docs").glob("*.md")) if f"(docs/{page.name})" not in readme] == []


def test_every_public_name_is_on_the_page_of_the_python_api() -> None:
    page = GENERATED["api.md"]()
    names = set(ragtide.__all__) - {"__version__"}
    assert {name for name in names if f"| `{name}` |" not in page and f"| `{name}()` |" not in page} == set()


def test_a_newcomers_questions_are_two_clicks_from_the_readme() -> None:
    assert "(docs/faq.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    _, *answers = re.split(r"^## (?=.*\?$)", page, flags=re.MULTILINE)
    assert len(answers) >= 10
    assert [answer.splitlines()[0] for answer in answers if "](" not in answer] == []


def test_the_compose_file_starts_commands_that_exist_with_health_checks() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    known = set(COMMANDS)
    services = compose["services"]
    assert "--appendonly" in services["redis"]["command"]
    assert services["aggregator"]["deploy"]["replicas"] >= 2
    assert "deploy" not in services["worker"]  # one container uses all processors
    for name in ("worker", "aggregator", "recorder", "serve"):
        assert services[name]["command"][0] == name
        assert name in known
        probe, python, option, code = services[name]["healthcheck"]["test"]
        assert (probe, python, option) == ("CMD", "python", "-c")
        assert f":{services[name]['environment']['RAGTIDE_HTTP_PORT']}/readyz" in code
        compile(code, "health check", "exec")
        assert services[name]["depends_on"]["redis"]["condition"] == "service_healthy"
    assert "healthcheck" in services["redis"]
    # Rules of ragtide.toml are taken by the running roles that evaluate them, so all see the folder of the file.
    for name in ("worker", "aggregator", "recorder", "notify", "serve", "cli"):
        assert ".:/files:ro" in services[name]["volumes"]
        assert services[name]["working_dir"] == "/files"


def test_what_is_checked_before_a_commit_is_what_ci_checks() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    assert {hook["entry"].split()[0].rpartition("/")[2] for hook in hooks} == {"ruff", "mypy", "lint-imports"}
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert {"make test", "make test-heavy"} <= set(lines)
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
