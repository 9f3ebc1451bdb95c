from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtide_consumers.labelers.local.features import extract
from ragtide_consumers.labelers.local.model import LABELS, SUMMARY_FEATURES, LocalModel, moved, shipped, summarized
from ragtide_consumers.labelers.local.trees import BoostedTrees
from ragtide_consumers.text.sentences import cut
from ragtide_offline.demo import demo_interactions

pytestmark = pytest.mark.pure

SHARES = st.floats(0, 1)
STUMP = {
    "features": [["a", "b", "b", "a", "a", "a", "a"]],
    "thresholds": [[0.5, 0.25, 0.75, None, None, None, None]],
    "values": [[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0]],
}


@pytest.mark.parametrize(
    ("a", "b", "value"), [(0.5, 0.25, 1.0), (0.5, 0.3, 2.0), (0.6, 0.75, 3.0), (0.6, 0.8, 4.0), (0.5 + 1e-12, 0, 1.0)]
)
def test_a_tree_goes_left_up_to_its_threshold(a: float, b: float, value: float) -> None:
    assert BoostedTrees.read(STUMP, ("a", "b")).predict(np.array([a, b])) == value


def test_trees_of_other_features_or_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown feature 'b'"):
        BoostedTrees.read(STUMP, ("a",))
    with pytest.raises(ValueError, match="8 leaves"):
        BoostedTrees.read({**STUMP, "values": [[1.0]]}, ("a", "b"))


@given(st.lists(SHARES, min_size=1, max_size=30), st.floats(-1, 2))
def test_moved_probabilities_have_the_mean_and_their_old_order(before: list[float], mean: float) -> None:
    after = moved(np.array(before), mean)
    assert ((after >= 0) & (after <= 1)).all()
    if fmean(before) > 0:
        assert after.mean() == pytest.approx(min(max(mean, 0), 1), abs=1e-9)
    order = np.argsort(before)
    assert (np.diff(after[order]) >= -1e-12).all()


def test_the_summary_has_a_number_for_every_name_and_the_shares_that_are_corrected() -> None:
    row = cut(demo_interactions()[0])
    features = extract(row.question, row.documents, row.response)
    model = shipped()
    relevant, utilized = (model.sentences(label, features.documents) for label in ("relevant", "utilized"))
    named = dict(
        zip(
            SUMMARY_FEATURES,
            summarized(features, relevant, utilized, model.sentences("supported", features.response)),
            strict=True,
        )
    )
    assert named["mean relevant"] == relevant.mean()
    assert named["mean utilized"] == utilized.mean()
    assert named["most document question"] == features.documents[1].max()
    assert named["least response best"] == features.response[1].min()
    labels = model.predict(features)
    assert fmean(labels.relevant) == pytest.approx(
        min(max(named["mean relevant"] + model.relevance.predict(np.array(list(named.values()))), 0), 1)
    )


def test_a_model_of_another_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="no feature 'smell'"):
        LocalModel.read({label: {"smell": 1.0} for label in LABELS})
