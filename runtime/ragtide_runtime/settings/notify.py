"""Settings of notifications: the tables `[notify]` and `[[notify.destinations]]`."""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, StringConstraints, model_validator

from ragtide_schemas.alert_rule import AlertKind, AlertStatus, Severity
from ragtide_schemas.release import ReleaseEvent

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

DAYS: Final[tuple[Day, ...]] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class QuietSettings(BaseModel):
    """No notification is sent in these hours. Alerts that still fire at their end are sent then."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """Severities whose alerts are also sent in quiet hours; by default `page`. With an empty list none is sent."""

    @model_validator(mode="after")
    def _is_known(self) -> Self:
        try:
            ZoneInfo(self.timezone)
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
        """
        local = at.astimezone(ZoneInfo(self.timezone))
        minute = local.hour * 60 + local.minute
        start, end = self._minutes
        if start < end:
            return start <= minute < end and self._begins_on(local)
        return (minute >= start and self._begins_on(local)) or (
            minute < end and self._begins_on(local - timedelta(days=1))
        )

    def _begins_on(self, local: datetime) -> bool:
        return DAYS[local.weekday()] in self.days


DestinationKind = Literal["webhook", "alertmanager", "pagerduty", "slack", "teams", "email", "apprise"]
"""Kind of a destination of notifications."""


Pattern = Annotated[str, StringConstraints(min_length=1, max_length=500)]
Patterns = Annotated[tuple[Pattern, ...], BeforeValidator(_listed), Field(min_length=1)]
"""One shell-style pattern, or a list of them."""


class MatchSettings(BaseModel):
    """The alerts that a destination gets: an alert must match every field."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pipeline: Patterns = ("*",)
    """Shell-style patterns of pipelines, such as `shop*`; alerts of the whole deployment have the pipeline `*`."""
    rule: Patterns = ("*",)
    """Shell-style patterns of the names of rules."""
    metric: Patterns = ("*",)
    """Shell-style patterns of metrics."""
    segment: Patterns | None = None
    """Shell-style patterns of segment values, such as `lang=*`; None takes alerts with and without a segment."""
    kind: Annotated[tuple[AlertKind, ...], BeforeValidator(_listed), Field(min_length=1)] | None = None
    """Kinds of alerts; None takes all."""
    severity: Annotated[tuple[Severity, ...], BeforeValidator(_listed), Field(min_length=1)] | None = None
    """Severities; None takes all."""
    runs: bool = False
    """Whether alerts of offline runs are sent, too."""


class DestinationSettings(BaseModel):
    """A destination of notifications: a table `[[notify.destinations]]`. Each kind has fields of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
    """Unique name: letters, digits and . _ -"""
    kind: DestinationKind
    """Kind: webhook, alertmanager, pagerduty, slack, teams, email or apprise."""
    url: SecretStr | None = None
    """Address, which may be a secret: of the webhook, of the Alertmanager, of an incoming webhook of Slack, of a Teams
    workflow, of PagerDuty's events API in the EU, or in Apprise's form."""
    secret: SecretStr | None = None
    """For webhook: the key that signs requests, `whsec_` and then 24 to 64 bytes in base64."""
    token: SecretStr | None = None
    """Bearer token of a webhook or an Alertmanager, integration key of PagerDuty, or token of a Slack bot."""
    channel: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = None
    """For slack with a token: the id of the channel."""
    user: Annotated[str, StringConstraints(min_length=1, max_length=500)] | None = None
    """User of an e-mail server or an Alertmanager."""
    password: SecretStr | None = None
    """Password of this user."""
    host: Annotated[str, StringConstraints(pattern=r"^[^\s/]{1,253}$")] | None = None
    """For email: the server."""
    port: Annotated[int, Field(ge=1, le=65_535)] | None = None
    """For email: the port; by default 587 with `starttls`, 465 with `tls` and 25 with `none`."""
    tls: Literal["starttls", "tls", "none"] = "starttls"
    """For email: `starttls` (required, then), `tls` from the first byte, or `none`."""
    sender: Annotated[str, StringConstraints(pattern=r"^[^\s@]{1,64}@[^\s@]{1,255}$")] | None = None
    """For email: address of the sender."""
    to: tuple[Annotated[str, StringConstraints(pattern=r"^[^\s@]{1,64}@[^\s@]{1,255}$")], ...] = ()
    """For email: addresses of the recipients."""
    match: MatchSettings = MatchSettings()
    """The alerts that it gets: a table `[notify.destinations.match]`; by default all alerts of live traffic."""
    on: Annotated[tuple[AlertStatus | ReleaseEvent, ...], BeforeValidator(_listed), Field(min_length=1)] = (
        "firing",
        "explained",
        "resolved",
    )
    """Changes of an alert that are sent: `firing`, `explained` (the cause became known), `resolved`. Of a release
    that is worse, `release.worse` is a firing and `release.ended` a resolving. Further events of releases are sent only
    if they are named here: `release.opened`, `release.not_worse`, and any `release.ended`."""
    questions: bool = False
    """Whether its messages have the questions of the worst answers and the judge's reasons, redacted as they are kept
    (`specimens.redact`)."""
    quiet: QuietSettings | None = None
    """Hours in which nothing is sent to it: a table `[notify.destinations.quiet]`; None for none. Not for alertmanager
    and pagerduty, which have schedules of their own."""

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        needed, optional = _FIELDS[self.kind]
        allowed = {*_COMMON, *needed, *optional}
        surplus = sorted(name for name in self.model_fields_set if name not in allowed)
        if surplus:
            raise ValueError(
                f"{surplus[0]} is no setting of kind {self.kind}: remove it (this kind has "
                f"{', '.join((*needed, *optional))})"
            )
        missing = [name for name in needed if not getattr(self, name)]
        if missing:
            raise ValueError(f"{missing[0]} is missing: kind {self.kind} needs {' and '.join(needed)}")
        if self.quiet is not None and self.kind in {"alertmanager", "pagerduty"}:
            raise ValueError(f"quiet is not for kind {self.kind}, which has schedules of its own: remove it")
        if self.kind == "slack" and (self.url is None) == (self.token is None):
            raise ValueError("kind slack needs either url (an incoming webhook) or token and channel: give one of them")
        if self.kind == "slack" and (self.token is None) != (self.channel is None):
            raise ValueError("channel goes with token: give both, or url alone")
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together: give both or neither")
        if self.token is not None and self.user is not None:
            raise ValueError("token and user exclude each other: keep one")
        if self.url is not None and self.kind != "apprise" and not _is_http(self.url.get_secret_value()):
            raise ValueError("url must begin with http:// or https:// and have no white space: correct it")
        if self.secret is not None and not _is_signing_key(self.secret.get_secret_value()):
            raise ValueError("secret must be whsec_ and then 24 to 64 bytes in base64: correct it")
        return self


_COMMON: Final = ("name", "kind", "match", "on", "questions", "quiet")

_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "webhook": (("url",), ("secret", "token")),
    "alertmanager": (("url",), ("token", "user", "password")),
    "pagerduty": (("token",), ("url",)),
    "slack": ((), ("url", "token", "channel")),
    "teams": (("url",), ()),
    "email": (("host", "sender", "to"), ("port", "user", "password", "tls")),
    "apprise": (("url",), ()),
}
"""Fields that each kind needs, and fields that it may have."""


def _is_http(url: str) -> bool:
    return (
        url.startswith(("http://", "https://"))
        and len(url) <= 2000
        and not any(character.isspace() for character in url)
    )


def _is_signing_key(secret: str) -> bool:
    if not secret.startswith("whsec_") or len(secret) > 200:
        return False
    try:
        return 24 <= len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) <= 64
    except binascii.Error:
        return False


class NotifySettings(BaseModel):
    """Notifications of alerts: what is sent, when, and where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    allow_private: bool = False
    """Whether a destination may have an address of this machine or of a private network."""
    group_wait_s: Annotated[float, Field(ge=0, le=3600)] = 30.0
    """Seconds that the first alert of a pipeline waits for others, so that people get one message."""
    repeat_s: Annotated[float, Field(ge=0)] = 14_400.0
    """Seconds after which an alert that still fires is sent again, unless it is acknowledged; 0 never repeats."""
    give_up_s: Annotated[float, Field(gt=0)] = 21_600.0
    """Seconds for which a message is tried; then it becomes a dead letter, and an alert goes to the other
    destinations."""
    storm_messages: Annotated[int, Field(ge=1)] = 20
    """Maximum number of messages to one destination in ten minutes; further messages become one summary."""
    timeout_s: Annotated[float, Field(gt=0, le=300)] = 10.0
    """Seconds that one delivery may take."""
    public_url: Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]+$", max_length=2000)] | None = None
    """Address at which people reach `ragtide serve`, for links in messages, such as `https://example.com/ragtide`; None
    sends no links."""
    destinations: tuple[DestinationSettings, ...] = ()
    """Destinations: `[[notify.destinations]]` in the TOML file, or JSON in `RAGTIDE_NOTIFY_DESTINATIONS`."""

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [destination.name for destination in self.destinations]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"destinations has two destinations named {name!r}: give each destination a name of its own"
                )
        return self
