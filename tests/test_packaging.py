"""The extras of the package, as pyproject.toml and the README state them."""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def test_the_extra_all_unites_every_extra_for_users() -> None:
    (united,) = EXTRAS["all"]
    found = re.fullmatch(r"ragtide\[([a-z,]+)\]", united)
    assert found is not None
    assert sorted(found[1].split(",")) == sorted(EXTRAS.keys() - {"all", "dev"})


def test_one_setting_gives_every_link_of_the_readme_an_address() -> None:
    (change,) = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.sub(change["pattern"], change["replacement"], text) == text  # until there is an address
    placed = re.sub(change["pattern"], r"](https://example.org/\1)", text)
    assert "](https://example.org/docs/settings.md)" in placed
    assert re.findall(r"\]\((?!https://|#)", placed) == []


@pytest.mark.parametrize("page", ["README.md", "docs/deployment.md"])
def test_a_page_about_the_installation_names_every_extra(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert [extra for extra in EXTRAS if extra != "dev" and not re.search(rf"[`\[]{extra}[\]`,]", text)] == []
