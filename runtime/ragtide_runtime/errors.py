"""Errors of the runtime, and the base of every error that ragtide raises on purpose.

RagtideError
├── ConfigurationError    a setting is unknown or wrong
└── RedisUnavailable      no Redis can be started, reached or used
"""


class RagtideError(Exception):
    """Base of ragtide's named errors; the message is one sentence and ends with what to do."""


class RedisUnavailable(RagtideError):  # noqa: N818  # reads as the state it names
    """No Redis can be started, reached or used: nothing installed, no answer, or a start that failed."""


class ConfigurationError(RagtideError):
    """A setting is unknown or wrong, or the settings cannot be read."""
