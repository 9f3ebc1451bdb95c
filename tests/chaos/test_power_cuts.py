from pathlib import Path

import pytest
from tests.chaos.power_cuts import run


@pytest.mark.parametrize(
    ("fsync", "resend"),
    [
        ("everysec", False),
        pytest.param("everysec", True, marks=pytest.mark.heavy),
        pytest.param("always", False, marks=pytest.mark.heavy),
    ],
)
def test_a_power_cut_loses_a_second_at_most_and_counts_nothing_twice(tmp_path: Path, fsync: str, resend: bool) -> None:
    found = run(tmp_path, fsync=fsync, count=1500, cuts=3, resend=resend)
    assert found.twice == 0
    assert found.counted == found.events == found.confirmed - found.lost
    if fsync == "always" or resend:
        assert found.lost == 0
    else:
        assert 0 < found.lost < 1500
