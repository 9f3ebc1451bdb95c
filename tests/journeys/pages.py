"""Journey 9, the pages: a newcomer's questions are answered within two clicks from the README, by following links."""

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[2]
CLICKS: Final = 2
LINK: Final = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)")

FAQ: Final = "docs/faq.md"
"""The page with the questions."""

ANSWER_WORDS: Final = 15
"""Fewest words of an answer."""

MISSING: Final = (
    ("no install line in the README", "one command", "README.md", "pip install 'ragtide[service,embedded,web]'"),
    ("the README's demo takes 1.9 s, the reader's 30 s", "half a minute, said so", "README.md", "half a minute"),
    ("the fields of RagInteraction in no table", "every field with an example", "docs/interaction.md", "`documents`"),
    ("no page for an application", "FastAPI, forking servers, sampling, thumbs", "docs/start-app.md", "fork"),
    ("no tutorial for vLLM, Ollama, Azure", "a tutorial", "docs/tutorial-judge.md", "Ollama"),
    ("AlertSubscriber in no page", "with an example", "docs/subscribing.md", "AlertSubscriber"),
    ("no word on a restart for new rules", "said", "docs/deployment.md", "reads settings and rules when it starts"),
    ("no glossary", "a page", "docs/glossary.md", "labeler"),
    ("no FAQ", "13 questions", "docs/faq.md", "Why is adherence 0.98"),
    ("no comparison with other tools", "dated, with what each does better", "docs/comparison.md", "Ragas"),
    ("no Python API reference", "a generated page", "docs/api.md", "`RagInteraction`"),
    ("no page by error message", "troubleshooting", "docs/troubleshooting.md", "Redis"),
    ("the form of settings in the environment unsaid", "said for each setting", "docs/settings.md", "_JUDGE_MODEL"),
    ("how good the local labeler is, hidden", "a table in the README", "README.md", "finds wrong claims"),
    ("how to choose a threshold, what is good", "a tutorial, and bands", "docs/tutorial-screen.md", "threshold"),
)  # fmt: skip
"""Things that the pages lacked, and how they are now: page and words."""


OPEN: Final = (("the README's relative links are dead on PyPI", "one setting, once the repository has an address"),)
"""Lacks that are still there."""


class Answered(NamedTuple):
    """A question or a former lack, and the way to its answer."""

    was: str
    now: str
    clicks: int | None
    """Clicks from the README; None if no link leads there, or the answer is not there."""


def clicks_to() -> dict[str, int]:
    """Return the clicks from the README to each page that at most two links lead to."""
    found, edge = {"README.md": 0}, ["README.md"]
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
        for was, now, page, words in MISSING
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
        way = f"README, {FAQ}" + (f", then {more}" if more else "")
        found.append(Answered(question, way, clicks[FAQ] + bool(more) if there and FAQ in clicks else None))
    return found


def _is_there(target: str, anchor: str) -> bool:
    page = (ROOT / FAQ).parent / target if target else ROOT / FAQ
    if not page.exists():
        return False
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE) if anchor else []
    return not anchor or anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def _text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def _messages(clicks: dict[str, int]) -> list[Answered]:
    """Return the pages that messages of the program name."""
    code = "\n".join(module.read_text(encoding="utf-8") for module in ROOT.glob("*/ragtide*/**/*.py"))
    named = set(re.findall(r"(?:see |\()ragtide docs ([a-z-]+)", code))
    pages = [f"docs/{name}.md" for name in sorted(named)]
    return [
        Answered(f"a message of ragtide names {page}", "the page is in the wheel", clicks.get(page)) for page in pages
    ]
