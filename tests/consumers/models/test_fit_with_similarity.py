"""`ragtide fit --similarity`: what words do not show, a sentence encoder does; workers need the same encoder."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.consumers.models.small_models import SPECIAL, write_encoder
from typer.testing import CliRunner, Result

from ragtide import RagInteraction
from ragtide.cli.app import cli
from ragtide_consumers.labelers.registry import labeler_of
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

STEMS = ("house", "river", "doctor", "engine", "garden", "letter", "window", "market")
SYNONYMS = ("cottage", "stream", "surgeon", "motor", "orchard", "message", "pane", "bazaar")
OTHERS = ("copper", "violin", "planet", "kitten", "anchor", "pepper", "saddle", "turbine")
FRAME = ["the", "near", "old", "was", "seen", "by", "many", "people", "in", "year", ".", "?", "where", "is"]


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """An encoder for which a synonym is its word, and which reads nothing else."""
    words = [*FRAME, *STEMS, *SYNONYMS, *OTHERS]
    rows = np.zeros((len(SPECIAL) + len(words), 24), dtype=np.float32)
    for place, word in enumerate(words, len(SPECIAL)):
        for first, group in ((0, STEMS), (0, SYNONYMS), (8, OTHERS)):
            if word in group:
                rows[place, first + group.index(word)] = 1
    rows[:, 23] = 0.05
    return write_encoder(tmp_path / "encoder", rows=rows, words=words)


def interactions(n: int) -> list[RagInteraction]:
    """Return interactions in which no word of the response tells whether it is about the document."""
    random = np.random.default_rng(3)
    found = []
    for number in range(n):
        place, right = int(random.integers(len(STEMS))), bool(random.integers(2))
        said = SYNONYMS[place] if right else OTHERS[int(random.integers(len(OTHERS)))]
        scores = {"trace.adherence": float(right), "trace.context_relevance": 0.5, "trace.context_utilization": 0.5}
        found.append(
            RagInteraction(
                pipeline="shop",
                interaction_id=f"{number}",
                question=f"Where is the {STEMS[place]} of year {number}?",
                documents=[f"The old {STEMS[place]} was seen by many people in the year."],
                response=f"The {said} was seen by many people in the year.",
                gold_scores=scores,
            )
        )
    return found


def written(path: Path, rows: Sequence[RagInteraction]) -> Path:
    path.write_text("\n".join(row.model_dump_json() for row in rows))
    return path


def fit(path: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["fit", str(path), *options])


def adherence_of(result: Result) -> dict[str, Any]:
    """Return the result of a fit of adherence; the log may stand before it."""
    assert result.exit_code == 0, result.output + str(result.exception)
    scores = json.loads(result.stdout[result.stdout.index("{") :])["scores"]
    return dict(scores["adherence"])


def adherence(values: dict[str, Any], rows: Sequence[RagInteraction]) -> list[float]:
    async def labeled() -> list[float]:
        async with labeler_of(Settings.model_validate(values), None) as labeler:
            return [(await labeler.label(row)).scores["trace.adherence"] for row in rows]

    return asyncio.run(labeled())


def test_a_fit_with_similarity_is_better_and_workers_use_the_same_encoder(
    encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, model = interactions(300), tmp_path / "model.json"
    path = written(tmp_path / "rows.jsonl", rows[:200])
    monkeypatch.setenv("RAGTIDE_MODELS_SIMILARITY", str(encoder))
    plain = adherence_of(fit(path, "--json", "--dry-run"))
    found = adherence_of(fit(path, "--json", "--output", str(model), "--similarity"))
    assert (plain["similarity"], found["similarity"], found["fitted"]) == (False, True, True)
    assert found["cross_validated"]["fitted"] < 0.7 * plain["cross_validated"]["fitted"]

    given = {"local": {"model": str(model)}, "models": {"similarity": str(encoder)}}
    new = rows[200:]
    truth = np.array([row.gold_scores["trace.adherence"] for row in new])
    monkeypatch.delenv("RAGTIDE_MODELS_SIMILARITY")
    shipped, fitted = (float(np.mean((np.array(adherence(values, new)) - truth) ** 2)) for values in ({}, given))
    assert fitted < 0.7 * shipped

    with pytest.raises(ConfigurationError, match=r"was fitted with a sentence encoder: set models\.similarity to the"):
        adherence({"local": {"model": str(model)}}, new)
    other = {**given, "models": {"similarity": str(write_encoder(tmp_path / "other"))}}
    with pytest.raises(ConfigurationError, match=r"was fitted with the sentence encoder [0-9a-f]{16}, and models\.sim"):
        adherence(other, new)


def test_without_an_encoder_the_option_is_refused(tmp_path: Path) -> None:
    found = fit(written(tmp_path / "rows.jsonl", interactions(30)), "--dry-run", "--similarity")
    assert "no sentence encoder is named: set similarity in the table [models]" in str(found.exception)
