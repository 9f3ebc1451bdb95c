"""The documentation in a terminal: pages, links that make sense there, and the pages that messages name."""

import ast
import re
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from tests.support.cases import for_each
from tests.support.in_process import run_command

from ragtide.cli.printing.pages import DocumentationPage, for_terminal, page_name, pages, search, title_of

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "runtime", "producers", "consumers", "aggregator", "roles", "offline", "web", "ragtide")
WRITERS = {"table.py", "pages.py"}
"""Modules that write pages, or read them."""
DOCS = ROOT / "docs"
KNOWN = {
    "alerts": DOCS / "live" / "alerts.md",
    "settings": DOCS / "live" / "settings.md",
    "redis": DOCS / "operate" / "redis.md",
    "drift": DOCS / "understand" / "drift.md",
}


@for_each(
    "text, shown",
    [
        ("[settings.md](settings.md) has all.", "`settings` has all."),
        ("See [the settings](settings.md).", "See the settings (`settings`)."),
        ("See [Redis](../operate/redis.md#the-data-directory).", 'See Redis: `redis`, "the data directory".'),
        ("See [redis.md](../operate/redis.md#the-data-directory).", 'See `redis`, "the data directory".'),
        ("See [above](#above).", "See above."),
        ("<!-- generated: settings -->\n\n| a |\n\n<!-- /generated -->\n\nNext", "| a |\n\nNext"),
        ("See [why](../../decisions/0001-a.md).", "See why (`decisions/0001-a.md`, in the source)."),
        ("See [code](../../examples/bm25_rag).", "See code (`examples/bm25_rag`, in the source)."),
        ("![picture](../assets/drift.svg)", "picture (`docs/assets/drift.svg`, in the source)"),
        ("[paper](https://example.org/a_(b).pdf)", "[paper](https://example.org/a_(b).pdf)"),
        ("```python\nnames[0](settings.md)\n```", "```python\nnames[0](settings.md)\n```"),
    ],
)
def test_a_link_names_its_page(text: str, shown: str) -> None:
    assert for_terminal(text, "alerts", KNOWN) == shown


def test_a_link_of_a_page_in_a_folder_is_resolved_from_there() -> None:
    assert for_terminal("[settings.md](../live/settings.md)", "drift", KNOWN) == "`settings`"


def test_a_page_full_of_brackets_takes_linear_time() -> None:
    assert for_terminal("[" * 100_000 + "(" * 100_000, "alerts", KNOWN).startswith("[[")


def test_no_page_has_a_link_that_a_terminal_cannot_follow() -> None:
    known = pages()
    for name, path in known.items():
        text = for_terminal(path.read_text(encoding="utf-8"), name, known)
        outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert re.findall(r"\]\((?!https?:)[\w./#-]+\)", outside) == [], name
        assert title_of(path)


def test_the_pages_are_listed_with_titles(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run_command(capsys, "docs").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"troubleshooting +Troubleshooting", line) for line in lines)
    assert len(lines) >= len([name for name in pages() if "/" not in name])


@for_each("name", ["settings", "settings.md", "docs/reference/settings.md"])
def test_a_page_is_shown(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run_command(capsys, "docs", name).stdout.startswith("# Settings\n")


def test_an_unknown_page_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "docs", "troubleshoting")
    assert (done.code, done.stdout) == (1, "")
    assert "did you mean 'troubleshooting'? To list them: ragtide docs" in done.stderr


@for_each(
    "words, first",
    [
        ("effective number", ("statistics", "Effective number")),
        ("EFFECTIVE", ("statistics", "Effective number")),
        ("beta second", ("statistics", "More")),
        ("host", ("redis", "Redis")),
        ("heading", ("redis", "Redis")),
        ("nowhere", None),
    ],
)
def test_a_search_finds_the_section_with_every_word(
    tmp_path_factory: pytest.TempPathFactory, words: str, first: tuple[str, str] | None
) -> None:
    place = tmp_path_factory.mktemp("docs")
    (place / "redis.md").write_text("# Redis\nA host, beta.\n```sh\n# no heading\n```\n", encoding="utf-8")
    (place / "statistics.md").write_text(
        "# Statistics\nAn effective number.\n## Effective number\nIts effective number.\n## More\nA second beta.\n",
        encoding="utf-8",
    )
    found = search(words, {"redis": place / "redis.md", "statistics": place / "statistics.md"})
    assert [(section.page, section.section) for section in found[:1]] == ([] if first is None else [first])


def test_a_search_fits_80_columns_and_names_pages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run_command(capsys, "docs", "--search", "dead letter").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert {line.split()[0] for line in lines[:-1:2]} <= set(pages())
    only = run_command(capsys, "docs", "redis", "--search", "redis").stdout.splitlines()
    assert {line.split()[0] for line in only[:-1:2]} == {"redis"}
    nothing = run_command(capsys, "docs", "--search", "no-such-word-anywhere-in-it")
    assert (nothing.code, nothing.stdout) == (1, "")


def test_a_table_is_whole_at_80_columns() -> None:
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system=None)
    word = "redis+sentinel://host:26379,host:26379/" + "m" * 90
    console.print(DocumentationPage(f"| address | |\n|---|---|\n| `{word}` | a master found through sentinels |\n"))
    assert isinstance(console.file, StringIO)
    drawn = console.file.getvalue()
    assert "…" not in drawn
    assert drawn.count("m") >= 90
    assert max(map(len, drawn.splitlines())) <= 80


def texts(path: Path) -> list[str]:
    """Every text of a module that is not a docstring, and so may reach a user."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said
    ]


def test_messages_name_pages_as_a_user_of_the_wheel_can_read_them() -> None:
    every = (path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.name not in WRITERS)
    modules = [path for path in every if re.search(r"docs|\.md", path.read_text(encoding="utf-8"))]
    found = {path: text for path in modules for text in texts(path) if re.search(r"\bdocs/|\b[\w-]+\.md\b", text)}
    allowed = {
        "report.py",
        "experiments.py",
        "prompts.py",
    }  # a report and a prompt that are files of Markdown themselves
    assert {path: text for path, text in found.items() if path.name not in allowed} == {}
    named = [
        name for path in modules for text in texts(path) for name in re.findall(r"ragtide docs ([a-z][a-z-]*)", text)
    ]
    assert {"clusters", "alerts", "settings", "interaction"} <= set(named)
    assert [name for name in named if page_name(name) not in pages()] == []
