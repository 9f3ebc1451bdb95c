"""The metadata of the package: extras, classifiers, addresses, and the README as PyPI shows it."""

import re
import shutil
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hatch_build import packed_pages
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from trove_classifiers import classifiers

from ragtide.cli.printing.pages import unpacked
from ragtide_runtime import __version__

pytestmark = pytest.mark.pure

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
TARGET = re.compile(r'\]\(([^)\s]+)|(?:src|srcset|href)="([^"]+)"')
README = """\
# Name
[![badge](docs/badge.svg)](docs/help/faq.md) ![wide](docs/wide.png)
<picture><source srcset="docs/dark.png"><img src="docs/light.png" alt="light"></picture>
See [`name[all]`](docs/all.md "title"), [far](https://example.com/x), <a href="docs/a.md">this page</a>, [below](#name).
```text
[a](b.md)
```
"""


def built(tmp_path: Path, *, repository: str, site: str = "", readme: str | None = None) -> Any:
    """Return the core metadata as the build of a tree with these addresses computes it."""
    for name in ("pyproject.toml", "README.md", "hatch_build.py", "runtime/ragtide_runtime/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    settings = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    for name, address in (("repository", repository), ("site", site)):
        settings, n = re.subn(rf'^{name} = ".*"$', f'{name} = "{address}"', settings, flags=re.MULTILINE)
        assert n == 1
    (tmp_path / "pyproject.toml").write_text(settings, encoding="utf-8")
    if readme is not None:
        (tmp_path / "README.md").write_text(readme, encoding="utf-8")
    return ProjectMetadata(str(tmp_path), PluginManager()).core


def targets(markdown: str) -> list[str]:
    outside = re.sub(r"^```.*?^```$", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return [first or second for first, second in TARGET.findall(outside)]


def test_the_extra_all_unites_every_extra_for_users() -> None:
    (united,) = EXTRAS["all"]
    found = re.fullmatch(r"ragtide\[([a-z,]+)\]", united)
    assert found is not None
    assert sorted(found[1].split(",")) == sorted(EXTRAS.keys() - {"all", "dev"})


def test_with_an_address_every_link_of_the_readme_leads_to_the_tag_of_the_version(tmp_path: Path) -> None:
    metadata = built(tmp_path, repository="https://example.org/us/ragtide/", site="https://ragtide.example.org")
    assert metadata.readme_content_type == "text/markdown"
    found = targets(metadata.readme)
    assert found
    assert [target for target in found if not target.startswith("https://")] == []
    of_us = f"https://example.org/us/ragtide/blob/v{metadata.version}/"
    paths = [target.removeprefix(of_us).partition("#")[0] for target in found if target.startswith(of_us)]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert metadata.urls["Documentation"] == "https://ragtide.example.org"
    assert metadata.urls["Source"] == "https://example.org/us/ragtide"


def test_without_an_address_the_readme_has_no_link_to_a_file_and_no_picture_of_one(tmp_path: Path) -> None:
    metadata = built(tmp_path, repository="")
    assert metadata.urls == {}
    assert [target for target in targets(metadata.readme) if not target.startswith("https://")] == []
    links = re.findall(r"(?<!!)\[(\w[\w .-]*)\]\(docs/", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert links
    assert [text for text in links if text not in metadata.readme] == []


def test_every_form_of_a_link_gets_the_address_and_code_stays(tmp_path: Path) -> None:
    text = built(tmp_path, repository="https://example.org/r", readme=README).readme
    blob, raw = (f"https://example.org/r/{kind}/v{__version__}" for kind in ("blob", "raw"))
    assert f"[![badge]({raw}/docs/badge.svg)]({blob}/docs/help/faq.md) ![wide]({raw}/docs/wide.png)" in text
    assert f'<source srcset="{raw}/docs/dark.png"><img src="{raw}/docs/light.png" alt="light">' in text
    assert f'[`name[all]`]({blob}/docs/all.md "title"), [far](https://example.com/x)' in text
    assert f'<a href="{blob}/docs/a.md">this page</a>, [below]({blob}/README.md#name)' in text
    assert "[a](b.md)" in text


def test_every_form_of_a_link_becomes_its_text_without_an_address(tmp_path: Path) -> None:
    text = built(tmp_path, repository="", readme=README).readme
    assert targets(text) == ["https://example.com/x"]
    assert "See `name[all]`, [far](https://example.com/x), this page, below." in text
    assert "badge" not in text
    assert "[a](b.md)" in text


def test_an_address_that_is_none_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"repository in pyproject\.toml is 'example\.org/r': write https://"):
        built(tmp_path, repository="example.org/r")


def test_a_wheel_without_its_data_requires_them_in_its_version_where_commands_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAGTIDE_DATA_APART", raising=False)
    assert built(tmp_path, repository="").optional_dependencies["worker"] == sorted(EXTRAS["worker"])
    monkeypatch.setenv("RAGTIDE_DATA_APART", "1")
    metadata = built(tmp_path, repository="")
    (data,) = set(metadata.optional_dependencies["worker"]) - set(EXTRAS["worker"])
    apart = ProjectMetadata(str(ROOT / "data"), PluginManager())
    requirement = Requirement(data)
    assert requirement.name == apart.core.name
    assert str(requirement.specifier) == f"=={apart.version}" == f"=={__version__}"
    assert data in metadata.optional_dependencies["service"]
    assert not [line for line in metadata.dependencies if "ragtide" in line]


def test_the_packed_pages_are_those_of_the_tree_and_have_the_same_bytes_at_each_build(tmp_path: Path) -> None:
    packed = packed_pages(ROOT / "docs")
    assert packed == packed_pages(ROOT / "docs")
    (tmp_path / "docs.tar.xz").write_bytes(packed)
    folder = unpacked(tmp_path / "docs.tar.xz")
    texts = {path.relative_to(folder): path.read_text(encoding="utf-8") for path in folder.rglob("*.md")}
    docs = ROOT / "docs"
    assert texts == {path.relative_to(docs): path.read_text(encoding="utf-8") for path in docs.rglob("*.md")}


def test_every_classifier_is_one_that_pypi_knows() -> None:
    assert [name for name in PROJECT["project"]["classifiers"] if name not in classifiers] == []


def test_every_package_says_that_it_is_typed() -> None:
    packages = PROJECT["tool"]["importlinter"]["root_packages"]
    folders = [Path(import_module(name).__path__[0]) for name in packages]
    assert len(folders) == len(PROJECT["tool"]["hatch"]["build"]["dev-mode-dirs"])
    assert [folder.name for folder in folders if not (folder / "py.typed").is_file()] == []


def test_the_page_about_the_installation_names_every_extra() -> None:
    text = (ROOT / "docs" / "operate" / "deployment.md").read_text(encoding="utf-8")
    assert [extra for extra in EXTRAS if extra != "dev" and not re.search(rf"[`\[]{extra}[\]`,]", text)] == []
