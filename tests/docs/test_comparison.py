"""The list "Missing in ragtide" of docs/start/comparison.md: each entry names something that does not exist."""

import re
import tomllib
from pathlib import Path

import pytest
from tests.support.cases import for_each
from tests.support.doc_pages import page_text
from tools.pages.settings import settings_table

from ragtide.cli.app import COMMANDS
from ragtide_schemas.metric_definitions import METRICS

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[2]
LIST = page_text("comparison").partition("## Missing in ragtide\n")[2].partition("\n## ")[0]
ENTRIES = re.findall(r"^<!-- missing: (\w+) (.+) -->\n- \*\*", LIST, re.MULTILINE)


def extras() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [line for lines in project["optional-dependencies"].values() for line in lines]
    packages = [re.split(r"[\[<>=; ]", line)[0] for line in [*project["dependencies"], *required]]
    return [*project["optional-dependencies"], *packages]


EXISTING = {
    "command": list(COMMANDS),
    "screen": [
        folder.name
        for page in ("web/ragtide_web/page", "offline/ragtide_offline/pages")
        for folder in (ROOT / page).iterdir()
    ],
    "setting": re.findall(r"^\| `([\w.]+)`", settings_table(), re.MULTILINE),
    "metric": list(METRICS),
    "extra": extras(),
    "file": [path.name for path in ROOT.glob("[a-z]*/*")],
}
"""What ragtide has, by kind."""

CONTROLS = {
    "command": "^score$",
    "screen": "^items$",
    "setting": r"^judge\.model$",
    "metric": r"^trace\.adherence$",
    "extra": "^onnxruntime$",
    "file": "^ragtide$",
}
"""Something that is there, by kind: the search would find a feature of the kind."""


def found(kind: str, pattern: str) -> list[str]:
    """Return what ragtide has of a kind whose name matches a pattern."""
    return [name for name in EXISTING[kind] if re.search(pattern, name)]


@for_each("kind, pattern", ENTRIES)
def test_what_the_page_calls_missing_is_missing(kind: str, pattern: str) -> None:
    assert found(kind, pattern) == [], "the feature exists now: take it off the list of docs/start/comparison.md"


@for_each("kind, pattern", CONTROLS.items())
def test_a_feature_that_exists_would_be_found(kind: str, pattern: str) -> None:
    assert found(kind, pattern)


def test_each_entry_of_the_list_is_checked() -> None:
    assert len(ENTRIES) == len(re.findall(r"^- \*\*", LIST, re.MULTILINE)) > 5
