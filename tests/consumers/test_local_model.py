import math
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_consumers.labelers.local.adjustment import log_adherence, move_to_mean
from ragtide_consumers.labelers.local.features import extract
from ragtide_consumers.labelers.local.model import (
    LOGISTIC,
    SUMMARY_FEATURES,
    LocalModel,
    shipped_model,
    summary_features,
)
from ragtide_consumers.labelers.local.trees import DECIMALS, BoostedTrees
from ragtide_consumers.text.sentences import cut
from ragtide_offline.demo import demo_interactions

pytestmark = pytest.mark.pure

SHARES = st.floats(0, 1)
STUMP: dict[str, Any] = {
    "features": [["a", "b", "b", "a", "a", "a", "a"]],
    "thresholds": [[0.5, 0.25, 0.75, None, None, None, None]],
    "values": [[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]],
}
TWICE: dict[str, Any] = {part: trees * 2 for part, trees in STUMP.items()}


@pytest.mark.parametrize(
    ("a", "b", "value"), [(0.5, 0.25, 1.0), (0.5, 0.3, 2.0), (0.6, 0.75, 3.0), (0.6, 0.8, 4.0), (0.5 + 1e-12, 0, 1.0)]
)
def test_a_tree_goes_left_up_to_its_threshold(a: float, b: float, value: float) -> None:
    trees = BoostedTrees.read([STUMP, STUMP, TWICE], ("a", "b"))
    assert trees.predict(np.array([a, b]).round(DECIMALS)).tolist() == [value, value, 2 * value]


def test_trees_of_other_features_or_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown feature 'b'"):
        BoostedTrees.read([STUMP], ("a",))
    with pytest.raises(ValueError, match="8 leaves"):
        BoostedTrees.read([{**STUMP, "values": [[1.0]]}], ("a", "b"))


@given(st.lists(SHARES, min_size=1, max_size=30), st.floats(-1, 2))
def test_moved_probabilities_have_the_mean_and_their_old_order(before: list[float], mean: float) -> None:
    after = np.array(move_to_mean(before, mean))
    assert ((after >= 0) & (after <= 1)).all()
    if fmean(before) > 0:
        assert after.mean() == pytest.approx(min(max(mean, 0), 1), abs=1e-9)
    order = np.argsort(before)
    assert (np.diff(after[order]) >= -1e-12).all()


def test_the_summary_has_a_number_for_every_name_and_the_scores_follow_from_it() -> None:
    row = cut(demo_interactions()[0])
    features = extract(row.question, row.documents, row.response)
    model = shipped_model()
    assert features.topics is not None
    topics = np.repeat(model.probabilities("topic", features.topics), features.lengths)
    relevant = model.probabilities("relevant", features.documents) * topics
    utilized = model.probabilities("utilized", features.documents)
    supported = model.probabilities("supported", features.response)
    summary = summary_features(features, relevant, utilized, supported)
    named = dict(zip(SUMMARY_FEATURES, summary.tolist(), strict=True))
    assert named["mean document relevant"] == pytest.approx(fmean(relevant), abs=1e-9)
    assert named["least document utilized"] == pytest.approx(min(utilized), abs=1e-9)
    assert named["most document question"] == pytest.approx(features.documents[1].max(), abs=1e-9)
    assert named["least response best"] == pytest.approx(features.response[1].min(), abs=1e-9)
    labels = model.predict(features)
    for before, after, more in zip(
        (relevant, utilized), (labels.relevant, labels.utilized), model.shares.predict(summary).tolist(), strict=True
    ):
        assert fmean(after) == pytest.approx(min(max(fmean(before) + more, 0), 1))
    logit = model.adherence_constant + sum(
        term.coefficient * min(max(summary[term.place], term.lowest), term.highest) for term in model.adherence
    )
    assert math.exp(log_adherence(labels.supported)) == pytest.approx(1 / (1 + math.exp(-logit)))


def test_a_model_of_another_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="no feature 'smell'"):
        LocalModel.read({label: {"smell": 1.0} for label in LOGISTIC})
    with pytest.raises(ValueError, match="adherence: there is no feature 'taste'"):
        LocalModel.read({**{label: {} for label in LOGISTIC}, "adherence": {"constant": 0, "taste": [1.0, 0.0, 1.0]}})
