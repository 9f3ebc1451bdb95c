"""The service beside other work of the same process, such as the demo."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ragtide_roles.running import in_background
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.settings.model import Settings
from ragtide_runtime.settings.serve import ServeSettings
from ragtide_runtime.telemetry.health import Health, ProcessTelemetry
from ragtide_runtime.telemetry.role_endpoints import observing

from .server import address_of, listen, serve_http
from .telemetry import ROLE


@asynccontextmanager
async def page_beside(settings: Settings, url: str) -> AsyncIterator[str]:
    """Serve the page for the body of an `async with`, and yield its address.

    The port is that of the settings; a free one where it is taken.

    Args:
        settings: of the deployment.
        url: of its Redis.
    """
    try:
        listening = listen(settings.serve)
    except ConfigurationError:
        listening = listen(ServeSettings(port=0))
    process, stop = ProcessTelemetry(Health(ROLE)), asyncio.Event()
    async with observing(settings, url, process) as endpoints:
        served = serve_http(settings, url, stop, endpoints=endpoints, process=process, listening=listening)
        async with in_background(served, stop=stop):
            yield address_of(listening, settings.serve.root_path)
