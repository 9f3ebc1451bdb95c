"""Builds the site: `python -m tools.site` writes it to build/site, strictly, and checks every link of it.

The pages are those of `docs/`, in the order of `nav` in `zensical.toml`. A link that leaves `docs/` leads to the
changelog, which is copied, or to the repository, once `tool.ragtide` in `pyproject.toml` has its address.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from os.path import normpath, relpath
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
BUILD: Final = ROOT / "build"
CHANGELOG: Final = "reference/changelog.md"
"""Page of the site that is a copy of CHANGELOG.md."""

_FENCED: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK: Final = re.compile(r"(!?)\[([^\[\]]{1,300})\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_EMPTY_HEAD: Final = re.compile(r"<th( [^>]*)?></th>")
_RAW: Final = re.compile(r"^(?:```|- |\* |\d+\. |\|)", re.MULTILINE)
"""A line of Markdown that a page shows as it is: a block of code, a list or a table."""
_TAG: Final = re.compile(r"^<!-- test: [^\n]+ -->\n", re.MULTILINE)
_TITLE: Final = re.compile(r"\A# (.*)\n+((?:[^\n#|`!<-][^\n]*\n)*)")


class NavigatedPage(NamedTuple):
    """A page in the navigation."""

    sections: tuple[str, ...]
    """Titles of the sections around it, the outermost first."""
    title: str
    path: str
    """Path in `docs/`."""


def navigation() -> list[NavigatedPage]:
    """Return the pages of `nav` in `zensical.toml`, in order."""

    def below(entries: list[dict[str, object]], sections: tuple[str, ...]) -> Iterator[NavigatedPage]:
        for entry in entries:
            for title, target in entry.items():
                if isinstance(target, list):
                    yield from below(target, (*sections, title))
                else:
                    yield NavigatedPage(sections, title, str(target))

    return list(below(tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]["nav"], ()))


def addresses() -> tuple[str, str]:
    """Return the address of the repository and that of the site from `tool.ragtide`; empty if there is none yet."""
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ragtide"]
    return found["repository"].rstrip("/"), found["site"].rstrip("/")


def on_site(text: str, path: str, repository: str) -> str:
    """Return a page for the site: without the tags of tests, and with links that lead somewhere outside of the tree.

    Args:
        text: the page, in Markdown.
        path: of the page in `docs/`.
        repository: address of the repository; empty if there is none, and then a link out of `docs/` becomes words.
    """

    def link(found: re.Match[str]) -> str:
        picture, words, target, anchor = found.groups()
        file = normpath(DOCS / Path(path).parent / target)
        if file == str(ROOT / "CHANGELOG.md"):
            return f"[{words}]({relpath(CHANGELOG, Path(path).parent)}{anchor or ''})"
        if file.startswith(f"{DOCS}/"):
            return found[0]
        place = relpath(file, ROOT)
        if repository:
            return f"{picture}[{words}]({repository}/blob/main/{place}{anchor or ''})"
        return f"{words} (`{place}`, in the source)"

    parts = _FENCED.split(_TAG.sub("", text))
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def summary_of(text: str) -> tuple[str, str]:
    """Return the title and the first paragraph of a page, without links."""
    found = _TITLE.match(text)
    if found is None:
        return "", ""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", found[2])
    return found[1].replace("`", ""), " ".join(plain.split())


def copy_pages(repository: str) -> None:
    """Write the pages, pictures and schemas to build/pages, as the site shows them."""
    pages = BUILD / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS, pages)
    shutil.copy(ROOT / "CHANGELOG.md", pages / CHANGELOG)
    for file in pages.rglob("*.md"):
        path = file.relative_to(pages).as_posix()
        file.write_text(on_site(file.read_text(encoding="utf-8"), path, repository), encoding="utf-8")


def write_config(repository: str, site: str) -> Path:
    """Write the configuration with the folders and addresses of this build, and return its file."""
    own = ['docs_dir = "pages"', 'site_dir = "site"']
    own += [f'repo_url = "{repository}"'] * bool(repository) + [f'site_url = "{site}/"'] * bool(site)
    text = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    file = BUILD / "zensical.toml"
    file.write_text(text.replace("[project]\n", "[project]\n" + "\n".join(own) + "\n", 1), encoding="utf-8")
    return file


def mend_tables(site: Path) -> None:
    """Make each empty head of a column a plain cell, which a screen reader does not read as a head without words."""
    for file in site.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        file.write_text(_EMPTY_HEAD.sub(r"<td\1></td>", text), encoding="utf-8")


def write_llms(site: str) -> None:
    """Write llms.txt, a list of the pages for language models, and llms-full.txt, their texts."""
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    lines, texts = [f"# {config['site_name']}", "", f"> {config['site_description']}"], []
    section: tuple[str, ...] = ()
    for page in navigation():
        text = (BUILD / "pages" / page.path).read_text(encoding="utf-8")
        if page.sections != section:
            lines += ["", f"## {': '.join(page.sections)}", ""]
            section = page.sections
        elif not section:
            lines.append("")
        address = page.path.removesuffix(".md") + ".html"
        title, first = summary_of(text)
        lines.append(f"- [{title or page.title}]({site + '/' if site else ''}{address}): {first}")
        texts.append(text)
    (BUILD / "site" / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (BUILD / "site" / "llms-full.txt").write_text("\n\n".join(texts), encoding="utf-8")


class _PageReader(HTMLParser):
    """Collects the links, anchors and paragraphs of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.paragraphs: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"p", "code"}:
            self._open.append(tag)
        if tag == "p":
            self.paragraphs.append("")
        for name, value in attrs:
            if name in {"href", "src"} and value and (tag != "link" or ("rel", "canonical") not in attrs):
                self.links.append(value)
            elif name in {"id", "name"} and value:
                self.anchors.add(value)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, data: str) -> None:
        if "p" in self._open:
            self.paragraphs[-1] += "code" if "code" in self._open else data


def problems(site: Path) -> list[str]:
    """Return each link of the site that leads nowhere, and each paragraph that shows Markdown as it is.

    Args:
        site: folder of the built site.
    """
    read = {}
    for file in sorted(site.rglob("*.html")):
        read[file] = _PageReader()
        read[file].feed(file.read_text(encoding="utf-8"))
    found = []
    for file, page in read.items():
        name = file.relative_to(site)
        shown = (raw.string[raw.start() :][:60] for raw in map(_RAW.search, page.paragraphs) if raw)
        found += [f"{name}: a list, a table or a block of code is shown as text: {text!r}" for text in shown]
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or name.name == "404.html":
                continue  # the addresses of other sites; the page of a wrong address has absolute links
            path = unquote(parts.path)
            target = Path(normpath(site / path.lstrip("/") if path.startswith("/") else file.parent / path))
            target = file if not path else target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target in read and unquote(parts.fragment) not in read[target].anchors:
                found.append(f"{name}: {link}: the page has no such heading")
    return found


def main() -> None:
    """Build the site, and end with 1 if a link of it is broken."""
    repository, site = addresses()
    BUILD.mkdir(exist_ok=True)
    copy_pages(repository)
    config = write_config(repository, site)
    zensical = Path(sys.executable).parent / "zensical"
    command = [str(zensical), "build", "--clean", "--strict", "--config-file", str(config)]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit("the site was not built: the warnings above name the page and the line")
    mend_tables(BUILD / "site")
    write_llms(site)
    found = problems(BUILD / "site")
    for problem in found:
        print(problem)
    pages = len(list((BUILD / "site").rglob("*.html")))
    print(f"build/site: {pages} pages, {len(found)} problems; python -m http.server --directory build/site shows it")
    raise SystemExit(bool(found))


if __name__ == "__main__":
    main()
