"""Checks the profiles of the settings: the variants of the formulas that turn labels into scores."""

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_schemas.suggestions import unknown

from ..metrics.ragchecker import PROFILES as CLAIM_PROFILES
from ..metrics.trace import PROFILES as TRACE_PROFILES


def check_profiles(settings: Settings) -> None:
    """Check that both profiles of the settings are known.

    Raises:
        ConfigurationError: a profile is unknown.
    """
    for name, profile, known in (
        ("profile", settings.profile, TRACE_PROFILES),
        ("claim_profile", settings.claim_profile, CLAIM_PROFILES),
    ):
        if profile not in known:
            raise ConfigurationError(f"{name}: {unknown('profile', profile, list(known))}")
