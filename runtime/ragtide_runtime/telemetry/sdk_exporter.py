"""The span exporter of OpenTelemetry's SDK, with the proxy and the certificates of ragtide's other clients.

Import this module only where OpenTelemetry is installed.
"""

import ssl
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from requests.adapters import HTTPAdapter

from ..outside.certificates import tls_context
from ..outside.proxies import proxy_of


def sdk_exporter() -> OTLPSpanExporter:
    """Return the exporter. The SDK reads its `OTEL_EXPORTER_*` variables itself, among them own certificates.

    Raises:
        ConfigurationError: a variable of the environment names no proxy, or no certificates.
    """
    session = _Session()
    session.mount("https://", _CheckedAdapter(tls_context()))
    return OTLPSpanExporter(session=session)


class _Session(requests.Session):
    """A session that decides the proxy of each request by ragtide's rules."""

    def request(self, method: Any, url: Any, *arguments: Any, **options: Any) -> requests.Response:
        proxy = proxy_of(str(url))
        self.trust_env = False  # or the library would decide by rules of its own
        options["proxies"] = {} if proxy is None else {"http": proxy.url, "https": proxy.url}
        return super().request(method, url, *arguments, **options)


class _CheckedAdapter(HTTPAdapter):
    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context
        super().__init__()

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, ssl_context=self._context, **options)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return super().proxy_manager_for(proxy, ssl_context=self._context, **options)
