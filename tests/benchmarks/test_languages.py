"""The languages that the local labeler scores pass the bar of their benchmark, and the docs have their figures."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ragtide import LocalLabeler
from ragtide_consumers.labelers.local.labeler import LANGUAGES
from ragtide_consumers.labelers.local.words import WITH_ENDINGS, stop_words

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def program() -> ModuleType:
    spec = importlib.util.spec_from_file_location("program_languages", ROOT / "benchmarks" / "languages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("language", ["ar", "zh"])
def test_a_language_passes_the_bar_on_real_paragraphs(program: ModuleType, language: str) -> None:
    rows = program.rows_of(program.SAMPLES / f"{language}.json")
    assert len(rows) == program.ROWS
    assert program.passes(*program.figures_of(LocalLabeler(), rows))


@pytest.mark.heavy
@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_language_with_a_sample_passes_the_bar(program: ModuleType, language: str) -> None:
    path = program.SAMPLES / f"{language}.json"
    if path.exists():
        assert program.passes(*program.figures_of(LocalLabeler(), program.rows_of(path)))


def test_a_language_fails_without_its_words(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from ragtide_consumers.labelers.local import words

    monkeypatch.setattr(words, "_unspaced_patterns", lambda _: ())
    monkeypatch.setattr(words, "_known", {})
    rows = program.rows_of(program.SAMPLES / "zh.json")
    assert not program.passes(*program.figures_of(LocalLabeler(), rows))


def test_every_language_has_figures_in_the_docs_and_stop_words() -> None:
    page = (ROOT / "benchmarks/measured/local_labeler.md").read_text(encoding="utf-8")
    for language, name in LANGUAGES.items():
        assert f"| {name} |" in page
        assert language in {*WITH_ENDINGS, "ja"} or len(stop_words(language)) >= 50
