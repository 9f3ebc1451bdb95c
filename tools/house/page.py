"""The committed table of measures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from .imports import plans
from .measures import measures

START: Final = {
    "product lines": "140,061",
    "lines of code": "80,980",
    "files": "838",
    "record classes": "919",
    "their fields": "4,941",
    "twins": "134",
    "fields copied one by one": "431",
    "classes with their own `lower` and `upper`": "44",
    "private functions named once": "1,714",
    "words of docs": "227,000",
    "commands": "45",
    "settings": "268",
    "tabs of the page": "10",
}
"""What the tree had when the aims were set, at commit c889f32a."""

AIMS: Final = {
    "product lines": "106,000",
    "lines of code": "66,000",
    "files": "640",
    "record classes": "540",
    "their fields": "3,100",
    "twins": "25",
    "fields copied one by one": "120",
    "classes with their own `lower` and `upper`": "4",
    "private functions named once": "750",
    "words of docs": "120,000",
    "commands": "30",
    "settings": "150",
    "tabs of the page": "6",
}

PAGE: Final = """\
# Measures of the house

`make house` prints these measures beside those of the commit before, CI prints them on every push, and
`make schemas` writes this page. They are a trend, not a limit: a figure that would need a worse house is not chased.

- *Record classes* declare fields. Two are *twins* if they share at least 4 names, and 70% of the smaller one's.
- A field is *copied* in a call with at least three arguments of the form `name=thing.name`.
- A private function is *named once* if its file uses it once.
- *Rooms* are the files and folders of a package, *arrows* the imports between them, and *floors* the longest chain of
  arrows; rooms in a circle share a floor.

"""


def table(columns: Mapping[str, Mapping[str, str]]) -> str:
    """Return measures as a Markdown table, a column each."""
    names = max(columns.values(), key=len)
    lines = [f"| | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    lines += [f"| {name} | {' | '.join(column.get(name, '') for column in columns.values())} |" for name in names]
    return "\n".join(lines) + "\n"


def house_page() -> str:
    """Return the page of the tree's measures."""
    tree = Path(__file__).resolve().parents[2]
    found = table({"c889f32a": START, "now": measures(tree), "aim": AIMS})
    packages = {f"`{name}`": {key: str(value) for key, value in plan.items()} for name, plan in plans(tree).items()}
    return f"{PAGE}{found}\n{table(packages)}"
