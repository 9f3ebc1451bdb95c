"""Journey 9, the pages: a newcomer's questions are answered within two clicks from the site's home or the README."""

import re
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.doc_pages import doc_page

ROOT: Final = Path(__file__).parents[2]
CLICKS: Final = 2
LINK: Final = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")

HOME: Final = "docs/index.md"

FAQ: Final = "docs/help/faq.md"
"""The page with the questions."""

ANSWER_WORDS: Final = 15
"""Fewest words of an answer."""

MISSING: Final = (
    ("no install line in the README", "one command", "README.md", "pip install 'ragtide[service,embedded,web]'"),
    ("the fields of RagInteraction in no table", "every field with an example", "interaction", "`documents`"),
    ("no page for an application", "FastAPI, forking servers, sampling, thumbs", "app", "fork"),
    ("no tutorial for vLLM, Ollama, Azure", "a tutorial", "better-judge", "Ollama"),
    ("AlertSubscriber in no page", "with an example", "notify", "AlertSubscriber"),
    ("no word on a restart for new rules", "said", "deployment", "those that wait for a restart"),
    ("no glossary", "a page", "glossary", "labeler"),
    ("no FAQ", "13 questions", "faq", "Why is adherence 0.98"),
    ("no comparison with other tools", "dated, with what each does better", "comparison", "Ragas"),
    ("no Python API reference", "a generated page", "api", "`RagInteraction`"),
    ("no page by error message", "troubleshooting", "troubleshooting", "Redis"),
    ("the form of settings in the environment unsaid", "said for each setting", "settings", "_JUDGE_MODEL"),
    ("how good the local labeler is, hidden", "a table in the README", "README.md", "finds the unsupported response"),
    ("how to choose a threshold, what is good", "a tutorial, and bands", "screen", "threshold"),
)  # fmt: skip
"""Things that the pages lacked, and how they are now: page and words."""


class Answered(NamedTuple):
    """A question or a former lack, and the way to its answer."""

    was: str
    now: str
    clicks: int | None
    """Clicks from a front door; None if no link leads there, or the answer is not there."""


def clicks_to() -> dict[str, int]:
    """Return the clicks from the front doors, the site's home and the README, to each page within two clicks."""
    edge = ["README.md", HOME]
    found = dict.fromkeys(edge, 0)
    for click in range(1, CLICKS + 1):
        pages = [target for page in edge for target in links_of(page) if target not in found]
        edge = list(dict.fromkeys(pages))
        found |= dict.fromkeys(edge, click)
    return found


def links_of(page: str) -> list[str]:
    """Return the pages that a page links to."""
    file = ROOT / page
    if file.suffix != ".md":
        return []
    targets = (file.parent / target for target, _ in LINK.findall(file.read_text(encoding="utf-8")) if target)
    return [str(target.resolve().relative_to(ROOT)) for target in targets if target.is_file()]


def read_pages() -> list[Answered]:
    """Return the ways to all answers: the questions of the FAQ, former lacks, and the pages that messages name."""
    clicks = clicks_to()
    found = [
        Answered(was, f"{now}: {page}", clicks.get(page) if words in _text(page) else None)
        for was, now, page, words in ((was, now, _path(name), words) for was, now, name, words in MISSING)
    ]
    return [*questions(clicks), *found, *_messages(clicks)]


def questions(clicks: dict[str, int]) -> list[Answered]:
    """Return the way to the answer of each question: the first click opens the FAQ, the second a page with more."""
    found = []
    for section in re.split(r"^## ", _text(FAQ), flags=re.MULTILINE)[1:]:
        question, _, answer = section.partition("\n")
        links = LINK.findall(answer)
        there = all(_is_there(target, anchor) for target, anchor in links) and len(answer.split()) >= ANSWER_WORDS
        more = ", ".join(dict.fromkeys(target for target, _ in links if target))
        way = f"home, {FAQ}" + (f", then {more}" if more else "")
        found.append(Answered(question, way, clicks[FAQ] + bool(more) if there and FAQ in clicks else None))
    return found


def _is_there(target: str, anchor: str) -> bool:
    page = (ROOT / FAQ).parent / target if target else ROOT / FAQ
    if not page.exists():
        return False
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
    return not anchor or anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def _path(name: str) -> str:
    """Return the path of a page by its name, such as `settings`; `README.md` is its own."""
    return name if name == "README.md" else doc_page(name).relative_to(ROOT).as_posix()


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _messages(clicks: dict[str, int]) -> list[Answered]:
    """Return the pages that messages of the program name."""
    code = "\n".join(module.read_text(encoding="utf-8") for module in ROOT.glob("*/ragtide*/**/*.py"))
    named = set(re.findall(r"(?:see |\()ragtide docs ([a-z][a-z-]*)", code))
    pages = [_path(name) for name in sorted(named)]
    return [
        Answered(f"a message of ragtide names {page}", "the page is in the wheel", clicks.get(page)) for page in pages
    ]
