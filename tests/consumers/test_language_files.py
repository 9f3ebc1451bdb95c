"""The language model comes with what is built from a tree, or with the distribution that the extra `worker` brings."""

import sys
from importlib import invalidate_caches
from pathlib import Path

import pytest

from ragtide_consumers.labelers.registry import labeler_of
from ragtide_consumers.text import language_files
from ragtide_consumers.text.language_files import APART, INCLUDED, language_folder
from ragtide_consumers.text.language_model import LanguageModel, shipped_model
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

TEXT = "Der Hafen war zwei Tage lang geschlossen."


@pytest.fixture
def nothing_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the package have no arrays, as in the published wheel, and return a folder of modules."""
    monkeypatch.setattr(language_files, "INCLUDED", tmp_path / "nothing")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, APART, raising=False)
    return tmp_path


def test_the_arrays_of_the_tree_are_used_where_they_are() -> None:
    assert language_folder() == INCLUDED


def test_the_arrays_of_the_distribution_give_the_same_answers(nothing_included: Path) -> None:
    package = nothing_included / APART
    package.mkdir()
    (package / "__init__.py").touch()
    for path in INCLUDED.iterdir():
        (package / path.name).symlink_to(path)
    invalidate_caches()
    assert language_folder() == package
    assert LanguageModel.read(language_folder()).shares(TEXT) == shipped_model().shares(TEXT)


@pytest.mark.usefixtures("nothing_included")
async def test_without_arrays_no_labeler_starts_and_the_error_names_what_to_install() -> None:
    with pytest.raises(ConfigurationError, match=r"pip install 'ragtide\[worker\]'"):
        async with labeler_of(Settings(labeler="local"), None):
            pytest.fail("it has no model of languages")
