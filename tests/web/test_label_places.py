"""Labels of charts: no two overlap, and each is inside, for any points."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragtide_web.look.label_places import PLACED_MAX, Box, LabelSize, place_labels

pytestmark = pytest.mark.pure

INSIDE = Box(0.0, 0.0, 640.0, 300.0)
ACROSS = st.floats(INSIDE.left, INSIDE.right)
DOWN = st.floats(INSIDE.top, INSIDE.bottom)
WIDTHS = st.floats(6.0, 60.0)


@settings(max_examples=40)
@given(st.lists(st.tuples(ACROSS, DOWN, WIDTHS), max_size=50))
def test_no_two_labels_overlap_and_each_is_inside(drawn: list[tuple[float, float, float]]) -> None:
    places = place_labels([(x, y) for x, y, _ in drawn], [LabelSize(width, 12.0) for _, _, width in drawn], INSIDE)
    boxes = [place.box for place in places if place is not None]
    assert all(INSIDE.contains(box) for box in boxes)
    assert not any(one.overlaps(other) for at, one in enumerate(boxes) for other in boxes[:at])
    for place, (_, _, width) in zip(places, drawn, strict=True):
        assert place is None or place.box.right - place.box.left == pytest.approx(width, abs=0.2)


@settings(max_examples=15)
@given(st.tuples(ACROSS, DOWN))
def test_many_points_at_one_place_all_have_their_label(point: tuple[float, float]) -> None:
    places = place_labels([point] * 16, [LabelSize(20.0, 12.0)] * 16, INSIDE)
    assert None not in places


def test_a_label_stands_beside_its_point_and_covers_no_other() -> None:
    (first, second) = place_labels([(100, 100), (120, 100)], [LabelSize(20.0, 12.0)] * 2, INSIDE)
    assert first is not None
    assert second is not None
    assert (second.leader, second.box.left) == (None, 127)
    assert not first.box.overlaps(Box(115, 95, 125, 105))


def test_labels_without_room_are_left_out() -> None:
    tiny = Box(0.0, 0.0, 10.0, 10.0)
    assert place_labels([(5, 5)], [LabelSize(20.0, 12.0)], tiny) == [None]
    many = place_labels([(320, 150)] * 100, [LabelSize(20.0, 12.0)] * 100, INSIDE)
    assert sum(place is not None for place in many) == PLACED_MAX
