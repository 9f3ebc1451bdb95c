"""Quiet hours of a destination of notifications: the table `[notify.destinations.quiet]`."""

from datetime import datetime, timedelta, tzinfo
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from ragtide_schemas.alert_rule import Severity

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class QuietSettings(BaseModel):
    """Hours in which a destination is told nothing; what still holds afterwards is told then."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    hours: Annotated[
        str, StringConstraints(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]-(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$")
    ]
    """First minute, and the minute in which the quiet ends, on the clock of the time zone, such as `22:00-07:00`.
    An end that is not after the start is on the next day; `00:00-24:00` is the whole day."""
    days: Annotated[tuple[Day, ...], BeforeValidator(_listed), Field(min_length=1)] = DAYS
    """Days on which quiet hours begin: `mon`, `tue`, `wed`, `thu`, `fri`, `sat`, `sun`; by default each day."""
    timezone: Annotated[str, StringConstraints(min_length=1, max_length=100)] = "UTC"
    """Time zone of the hours, such as `Europe/Berlin`."""
    except_severity: Annotated[tuple[Severity, ...], BeforeValidator(_listed)] = ("page",)
    """Severities that are told in quiet hours, too; by default `page`. An empty list tells none."""

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        try:
            _zone(self.timezone)
        except (OSError, ValueError):  # ZoneInfo also meets folders and files that are no time zones
            raise ValueError(
                f"timezone {self.timezone!r} is unknown here: give a name of the IANA data base such as Europe/Berlin"
            ) from None
        except KeyError:
            raise ValueError(
                f"timezone {self.timezone!r} is unknown here: give a name of the IANA data base such as Europe/Berlin, "
                "or install the package tzdata"
            ) from None
        start, end = self._minutes
        if start == end:
            raise ValueError(f"hours {self.hours!r} have no length: give two times, or 00:00-24:00 for whole days")
        return self

    @property
    def _minutes(self) -> tuple[int, int]:
        start, end = (int(text[:2]) * 60 + int(text[3:]) for text in self.hours.split("-"))
        return start, end

    def holds(self, at: datetime) -> bool:
        """Return whether a time is within the quiet hours.

        The clock on the wall decides. When clocks are put forward, quiet hours that begin in the skipped hour begin
        after it. When they are put back, the repeated hour is quiet twice or not at all.

        Args:
            at: with a time zone.
        """
        local = at.astimezone(_zone(self.timezone))
        minute = local.hour * 60 + local.minute
        start, end = self._minutes
        if start < end:
            return start <= minute < end and self._begins_on(local)
        return (minute >= start and self._begins_on(local)) or (
            minute < end and self._begins_on(local - timedelta(days=1))
        )

    def _begins_on(self, local: datetime) -> bool:
        return DAYS[local.weekday()] in self.days


def _zone(name: str) -> tzinfo:
    return ZoneInfo(name)
