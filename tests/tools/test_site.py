"""The site: its navigation is whole, its copies have links that lead somewhere, and a broken site is noticed."""

import re
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.support.doc_pages import doc_page
from tools.site import CHANGELOG, navigation, on_site, problems, summary_of

from ragtide.cli.printing.pages import folder, pages

pytestmark = pytest.mark.pure

LONGEST_TITLE = 30


def test_the_navigation_has_every_page_once() -> None:
    listed = [page.path for page in navigation()]
    assert len(listed) == len(set(listed))
    schemas = doc_page("schemas")
    wanted = {path for name, path in pages().items() if "/" not in name and path != schemas}
    assert {folder() / path for path in listed} == wanted | {folder() / CHANGELOG}


def test_a_title_fits_into_a_side_bar() -> None:
    titles = [title for page in navigation() for title in (*page.sections, page.title)]
    files = [folder() / page.path for page in navigation() if page.path != CHANGELOG]
    titles += [summary_of(file.read_text(encoding="utf-8"))[0] for file in files]
    assert [title for title in titles if not 0 < len(title) <= LONGEST_TITLE] == []


@for_each(
    "text, shown",
    [
        ("[log](../../CHANGELOG.md)", "[log](../reference/changelog.md)"),
        ("[log](../../CHANGELOG.md#010)", "[log](../reference/changelog.md#010)"),
        ("[alerts](../live/alerts.md#rules)", "[alerts](../live/alerts.md#rules)"),
        ("![shop](../screens/fleet-light-1400.png)", "![shop](../screens/fleet-light-1400.png)"),
        ("[code](../../examples/bm25_rag)", "[code](https://example.org/r/blob/main/examples/bm25_rag)"),
        ("[far](https://example.org)", "[far](https://example.org)"),
        ("[below](#below)", "[below](#below)"),
        ("<!-- test: chain -->\n```python\na[0](../../x)\n```", "```python\na[0](../../x)\n```"),
    ],
)
def test_a_page_of_the_site_has_links_that_lead_somewhere(text: str, shown: str) -> None:
    assert on_site(text, "start/app.md", "https://example.org/r") == shown


def test_without_an_address_of_the_repository_a_link_to_code_is_words() -> None:
    assert on_site("[code](../../examples/x.py)", "start/app.md", "") == "code (`examples/x.py`, in the source)"


@for_each(
    "body, found",
    [
        ('<a href="b.html">b</a>', []),
        ('<a href="b.html#here">b</a>', []),
        ('<a href="#own">own</a><p id="own">', []),
        ('<a href="https://example.org/x">far</a>', []),
        ("<p><code>```</code></p><pre>- a</pre>", []),
        ('<a href="c.html">c</a>', ["a.html: c.html leads nowhere"]),
        ('<img src="c.png">', ["a.html: c.png leads nowhere"]),
        ('<a href="b.html#there">b</a>', ["a.html: b.html#there: the page has no such heading"]),
        ("<p>A\n```python</p>", ["a.html: a list, a table or a block of code is shown as text: '```python'"]),
        ("<p>A\n- b</p>", ["a.html: a list, a table or a block of code is shown as text: '- b'"]),
    ],
)
def test_a_broken_site_is_noticed(tmp_path_factory: pytest.TempPathFactory, body: str, found: list[str]) -> None:
    site = tmp_path_factory.mktemp("site")
    (site / "a.html").write_text(body, encoding="utf-8")
    (site / "b.html").write_text('<h1 id="here">b</h1>', encoding="utf-8")
    assert problems(site) == found


def test_no_link_text_is_the_name_of_a_file() -> None:
    files = [Path(__file__).parents[2] / "README.md", *(path for name, path in pages().items() if "/" not in name)]
    assert [
        (file.name, words)
        for file in files
        for words in re.findall(r"\[([\w./-]+\.md)\]\(", file.read_text(encoding="utf-8"))
    ] == []
