"""The data come with what is built from a tree, or with the distribution that the extra `worker` brings."""

import sys
from collections.abc import Iterator
from importlib import invalidate_caches
from pathlib import Path

import pytest
from hatch_build import FILES, packed_pages

from ragtide.cli.printing import pages
from ragtide_consumers.labelers import registry
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.text import ARRAYS, language_model
from ragtide_consumers.text.language_model import LanguageModel, shipped_model
from ragtide_offline import demo
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.bundled_data import APART, bundled
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

ROOT = Path(__file__).parents[2]
TEXT = "Der Hafen war zwei Tage lang geschlossen."


@pytest.fixture
def nothing_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let the packages have no data, as in the published wheel, and return a folder of modules."""
    nothing = tmp_path / "nothing"
    monkeypatch.setattr(registry, "ARRAYS", nothing / ARRAYS.name)
    monkeypatch.setattr(language_model, "ARRAYS", nothing / ARRAYS.name)
    monkeypatch.setattr(demo, "__file__", str(nothing / "demo.py"))
    monkeypatch.setattr(pages, "_OF_THE_TREE", nothing / "docs")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, APART, raising=False)
    pages.folder.cache_clear()
    yield tmp_path
    pages.folder.cache_clear()


def test_the_data_of_the_tree_are_used_where_they_are() -> None:
    assert bundled(ARRAYS) == ARRAYS
    assert all(bundled(ROOT / name) == ROOT / name for name in FILES)


def test_the_data_of_the_distribution_are_the_same(nothing_included: Path) -> None:
    package = nothing_included / APART
    package.mkdir()
    (package / "__init__.py").touch()
    for name in FILES:
        (package / Path(name).name).symlink_to(ROOT / name)
    (package / "docs.tar.xz").write_bytes(packed_pages(ROOT / "docs"))
    invalidate_caches()
    arrays = bundled(nothing_included / "nothing" / ARRAYS.name)
    assert arrays == package / ARRAYS.name
    assert LanguageModel.read(arrays).shares(TEXT) == shipped_model().shares(TEXT)
    rows = (ROOT / FILES[1]).read_text(encoding="utf-8").splitlines()
    assert len(demo_interactions()) == len(rows)
    assert {*pages.pages()} >= {"index", "settings", "troubleshooting"}


@pytest.mark.usefixtures("nothing_included")
async def test_without_data_nothing_starts_that_needs_them_and_the_error_names_what_to_install() -> None:
    with pytest.raises(ConfigurationError, match=r"pip install 'ragtide\[worker\]'"):
        async with labeler_of(Settings(labeler="local"), None):
            pytest.fail("it has no model of languages")
    for reader in (demo_interactions, pages.pages):
        with pytest.raises(ConfigurationError, match=r"ragtide-data"):
            reader()
