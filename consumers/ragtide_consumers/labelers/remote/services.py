"""Opens the HTTP services that the settings name, for the labelers of a process."""

from pathlib import Path
from typing import TYPE_CHECKING

from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings

from ...metrics.scores import AbsentReason
from .telemetry import EndpointTelemetry

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from .http import HttpService
    from .spend import Spend


class Services:
    """The HTTP services of the settings: the tables `[services.NAME]`.

    Args:
        settings: of the process.
        redis: holds cache, spend and state for all processes; without it each process has its own.
        telemetry: counts calls.
        answers: without Redis, a file that caches answers for later processes; None caches in memory.
        account: counts the dollars of this run, beside the account of the deployment.
    """

    def __init__(
        self,
        settings: Settings,
        redis: "Redis | None",
        telemetry: EndpointTelemetry,
        answers: Path | None = None,
        account: "Spend | None" = None,
    ) -> None:
        self._settings = settings
        self._redis = redis
        self._telemetry = telemetry
        self._answers = answers
        self._account = account

    def open(self, name: str, path: str = "") -> "HttpService":
        """Return a service; the caller closes it.

        Args:
            name: of the labeler that calls it, and of its table in the settings.
            path: added to its address, such as `/predict`.

        Raises:
            ConfigurationError: the settings do not have the service.
        """
        # Most processes open no service, and the HTTP client is slow to import.
        from .access import Access  # noqa: PLC0415
        from .endpoint import EndpointInfo  # noqa: PLC0415
        from .http import HttpService  # noqa: PLC0415

        service = self._settings.services.get(name)
        if service is None:
            raise ConfigurationError(
                f"the service {name} has no address: set url in the table [services.{name}], or "
                f'RAGTIDE_SERVICES=\'{{"{name}": {{"url": "http://..."}}}}\''
            )
        info = EndpointInfo(
            name=name,
            model=name,
            subject=f"the service {name}",
            secret="" if service.api_key is None else service.api_key.get_secret_value(),
            refused=AbsentReason.SERVICE_REFUSED,
            unusable=AbsentReason.SERVICE_UNUSABLE,
        )
        access = Access(
            info,
            service,
            self._settings,
            self._redis,
            self._telemetry,
            answers=self._answers,
            account=self._account,
        )
        return HttpService(service, access, path)
