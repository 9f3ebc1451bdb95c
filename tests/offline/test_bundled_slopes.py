"""A model is measured on the bundled rows before it scores traffic: rate and slopes, and none of a failure unseen."""

from pathlib import Path

import pytest
from tests.consumers.models.small_models import write

from ragtide_offline.benchmark.bundled_slopes import ADHERENCE, HARMFUL, BundledSlopes
from ragtide_offline.demo import demo_interactions
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.slopes import UNSUPPORTED


def words_of_rows() -> list[str]:
    texts = [text for row in demo_interactions() for text in (row.response, *(one.text for one in row.documents))]
    return sorted({word for text in texts for word in text.lower().split()})


async def test_a_model_of_words_follows_wrong_answers_and_not_names(tmp_path: Path) -> None:
    models = {"support": str(write(tmp_path / "model", words=words_of_rows()))}
    measured = BundledSlopes(Settings.model_validate({"labeler": "model", "models": models}))
    left = [following async for following in measured.run()]
    assert len(left) == measured.labeled
    assert left[-1] == 0
    known = [following for following in left if following is not None]
    assert known == list(range(len(known)))[::-1], "how many rows follow is known from the second part on"
    assert measured.rate is not None
    assert measured.rate > 0
    assert measured.labeler.name == "model"
    assert measured.problems == []
    by_failure = {slope.failure: slope for slope in measured.slopes[ADHERENCE]}
    assert by_failure.keys() <= {*HARMFUL, UNSUPPORTED}
    assert by_failure["wrong answer"].is_seen
    assert by_failure["wrong documents"].is_seen
    assert not by_failure["swapped entity"].is_seen
    rated = [row for row in demo_interactions() if ADHERENCE in row.gold_scores]
    assert 20 < by_failure[UNSUPPORTED].rows <= len(rated)
    assert (len(rated), sum(row.gold_scores[ADHERENCE] == 0 for row in rated)) == (68, 8), (
        "as docs/scores/models.md says"
    )


async def test_the_same_rows_give_the_same_slopes_and_fewer_rows_wider_ends(tmp_path: Path) -> None:
    models = {"support": str(write(tmp_path / "model", words=words_of_rows()))}
    settings = Settings.model_validate({"labeler": "model", "models": models})

    async def slopes(rows: int) -> BundledSlopes:
        measured = BundledSlopes(settings, rows=rows)
        async for _ in measured.run():
            pass
        return measured

    first, again, few = await slopes(60), await slopes(60), await slopes(20)
    assert first.slopes == again.slopes
    wide, narrow = (
        next(slope for slope in measured.slopes[ADHERENCE] if slope.failure == "foreign sentence")
        for measured in (few, first)
    )
    assert wide.upper - wide.lower > narrow.upper - narrow.lower


@pytest.mark.parametrize("rows", [0])
async def test_too_few_rows_give_no_slope_of_a_corruption(rows: int, tmp_path: Path) -> None:
    models = {"support": str(write(tmp_path / "model"))}
    measured = BundledSlopes(Settings.model_validate({"labeler": "model", "models": models}), rows=rows)
    async for _ in measured.run():
        pass
    assert {slope.failure for of_metric in measured.slopes.values() for slope in of_metric} <= {UNSUPPORTED}
