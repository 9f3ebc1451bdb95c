"""Quiet hours: the clock on the wall of a time zone decides, on every day of the year."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.support.cases import for_each

from ragtide_runtime.settings.notify import DAYS, QuietSettings

pytestmark = pytest.mark.pure

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia")
MINUTES = st.integers(min_value=0, max_value=24 * 60 - 1)


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@given(
    at=st.integers(min_value=946_684_800, max_value=2_051_222_400).map(lambda s: datetime.fromtimestamp(s, UTC)),
    zone=st.sampled_from(ZONES),
    start=MINUTES,
    length=st.integers(min_value=1, max_value=24 * 60 - 1),
    days=st.sets(st.sampled_from(DAYS), min_size=1),
)
def test_a_time_is_quiet_if_quiet_hours_of_today_or_yesterday_have_it(
    at: datetime, zone: str, start: int, length: int, days: set[str]
) -> None:
    hours = f"{clock(start)}-{clock((start + length) % (24 * 60))}"
    quiet = QuietSettings.model_validate({"hours": hours, "days": sorted(days), "timezone": zone})
    wall = at.astimezone(ZoneInfo(zone)).replace(tzinfo=None)

    def had_by(day: date) -> bool:
        begins = datetime.combine(day, time(start // 60, start % 60))
        return DAYS[day.weekday()] in days and begins <= wall < begins + timedelta(minutes=length)

    assert quiet.holds(at) == (had_by(wall.date()) or had_by(wall.date() - timedelta(days=1)))


@for_each(
    "local, expected",
    [
        ("2026-11-20T21:59:59", False),
        ("2026-11-20T22:00:00", True),  # Friday
        ("2026-11-21T06:59:59", True),
        ("2026-11-21T07:00:00", False),
        ("2026-11-21T23:00:00", False),  # Saturday
        ("2026-11-22T02:00:00", False),
        ("2026-11-23T02:00:00", False),  # the night that began on Sunday
    ],
)
def test_a_night_belongs_to_the_day_on_which_it_begins(local: str, expected: bool) -> None:
    quiet = QuietSettings(hours="22:00-07:00", days=("mon", "tue", "wed", "thu", "fri"), timezone="Europe/Berlin")
    assert quiet.holds(datetime.fromisoformat(local).replace(tzinfo=ZoneInfo("Europe/Berlin"))) is expected


def test_whole_days_may_be_quiet() -> None:
    quiet = QuietSettings.model_validate({"hours": "00:00-24:00", "days": ["sat", "sun"]})
    friday = datetime(2026, 11, 20, tzinfo=UTC)
    assert [quiet.holds(friday + timedelta(hours=12 * n)) for n in range(8)] == [False] * 2 + [True] * 4 + [False] * 2


@for_each(
    "fields, message",
    [
        ({"hours": "22-7"}, "hours"),
        ({"hours": "24:00-07:00"}, "hours"),
        ({"hours": "07:00-07:00"}, "have no length"),
        ({"hours": "22:00-07:00", "timezone": "Mars/Olympus"}, "timezone 'Mars/Olympus' is unknown here"),
        ({"hours": "22:00-07:00", "timezone": "../etc/passwd"}, "is unknown here"),
        ({"hours": "22:00-07:00", "timezone": "Europe"}, "is unknown here"),
        ({"hours": "22:00-07:00", "days": ["monday"]}, "days"),
        ({"hours": "22:00-07:00", "days": []}, "days"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        QuietSettings.model_validate(fields)
