"""Finds the endpoint of a judge: in the settings, in the environment, or on the usual ports of this machine."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from ragtide_consumers.labelers.judge.costs import OPENAI_URL
from ragtide_runtime.errors import ConfigurationError
from ragtide_runtime.outside.answers import ForeignAnswerError
from ragtide_runtime.outside.proxies import proxy_of
from ragtide_runtime.redis.url import redact
from ragtide_runtime.settings.labelers import AZURE_KEY, JudgeSettings
from ragtide_runtime.settings.serve import is_loopback
from ragtide_schemas.printable import printable

USUAL_PLACES: Final[Mapping[str, str]] = {
    "Ollama": "http://127.0.0.1:11434/v1",
    "vLLM": "http://127.0.0.1:8000/v1",
    "LiteLLM": "http://127.0.0.1:4000/v1",
}
"""Addresses at which servers of models listen unless they are told otherwise."""

FREE: Final = ("Ollama", "vLLM")
"""Those whose models run on this machine, and cost nothing; a gateway may ask a model that costs money."""

PREFERRED: Final = ("gpt-5-mini", "gpt-4.1-mini", "gpt-4o-mini")
"""Models that are chosen where an endpoint has them: small ones that answer the judge's prompts."""

NO_JUDGES: Final = ("embed", "rerank", "whisper", "tts", "dall-e", "moderation", "image", "audio", "realtime", "bge-")
"""Parts of the names of models that answer no questions."""

LIST_BYTES: Final = 4 * 2**20
LIST_S: Final = 10.0
"""Seconds after which a configured endpoint has not listed its models."""
NEAR_S: Final = 2.0
"""The same for a server on this machine."""

AZURE_DEPLOYMENTS: Final = (
    "AZURE_OPENAI_DEPLOYMENT",
    "AZURE_OPENAI_DEPLOYMENT_NAME",
    "AZURE_OPENAI_CHAT_DEPLOYMENT_NAME",
)
"""Variables with the name of a deployment, which is the model at Azure."""

NONE: Final = (
    "there is no endpoint for a judge: set OPENAI_API_KEY, or AZURE_OPENAI_ENDPOINT with AZURE_OPENAI_API_KEY, or "
    "OPENAI_BASE_URL, or start Ollama, vLLM or LiteLLM on this machine"
)


@dataclass(frozen=True, slots=True)
class JudgeEndpoint:
    """An endpoint with the chat completions protocol."""

    source: str
    """The variable, the setting or the server by which it was found."""
    url: str | None
    """Its address; None for OpenAI's. It may hold a password."""
    key_variable: str | None = None
    """The variable with its key, which stays there; None without a key, or with `judge.api_key`."""
    models: tuple[str, ...] = ()
    """Names of its models; empty if it lists none."""

    @property
    def address(self) -> str:
        """Its address without secrets."""
        return redact(self.url or OPENAI_URL)

    @property
    def has_secret(self) -> bool:
        """Whether its address holds a secret, so that it must stay where it is."""
        return self.url is not None and redact(self.url) != self.url

    @property
    def is_free(self) -> bool:
        """Whether its models run on this machine, so that an answer costs nothing."""
        return self.source in FREE

    @property
    def is_near(self) -> bool:
        """Whether it is on this machine or in a network of one's own: nobody has a list price for it."""
        host = urlsplit(self.url or OPENAI_URL).hostname or ""
        try:
            return ip_address(host).is_private
        except ValueError:
            return is_loopback(host) or "." not in host or host.endswith((".local", ".internal", ".lan"))


async def find_endpoint(judge: JudgeSettings, places: Mapping[str, str] = USUAL_PLACES) -> JudgeEndpoint:
    """Return the endpoint of the settings, else of the environment, else of a server on this machine.

    Args:
        judge: the settings of the judge.
        places: addresses of servers that are tried if nothing else names an endpoint, by their names.

    Raises:
        ConfigurationError: there is none, it refuses the key, or a server on this machine has no model.
    """
    configured = _configured(judge)
    if configured is not None:
        return await _with_models(configured, judge)
    tried = [JudgeEndpoint(name, url) for name, url in places.items()]
    listed = await asyncio.gather(*(_list_models(endpoint, None, NEAR_S) for endpoint in tried))
    answering = [
        (endpoint, models) for endpoint, models in zip(tried, listed, strict=True) if isinstance(models, tuple)
    ]
    for endpoint, models in answering:
        if models:
            return replace(endpoint, models=models)
    for endpoint, status in zip(tried, listed, strict=True):
        if status in (401, 403):
            raise ConfigurationError(
                f"{endpoint.source} at {endpoint.address} needs a key: set OPENAI_BASE_URL={endpoint.address} and "
                "OPENAI_API_KEY"
            )
    if answering:
        endpoint = answering[0][0]
        raise ConfigurationError(
            f"{endpoint.source} at {endpoint.address} has no model: load one, such as with ollama pull qwen3:8b"
        )
    raise ConfigurationError(NONE)


def choose_model(endpoint: JudgeEndpoint, wanted: str | None) -> str:
    """Return the model that is asked.

    Args:
        endpoint: has it.
        wanted: name of the model; None chooses.

    Raises:
        ConfigurationError: no model is named, and the endpoint lists none that can be chosen.
    """
    if wanted is not None:
        return wanted
    deployment = next(filter(None, map(os.environ.get, AZURE_DEPLOYMENTS)), None)
    if endpoint.key_variable == AZURE_KEY and deployment:
        return deployment
    preferred = [name for name in PREFERRED if name in endpoint.models]
    answering = [name for name in endpoint.models if not any(part in name.lower() for part in NO_JUDGES)]
    is_large_list = endpoint.url is None or endpoint.key_variable == AZURE_KEY  # of models of every kind and price
    if preferred and endpoint.key_variable != AZURE_KEY:
        return preferred[0]
    if answering and not is_large_list:
        return answering[0]
    listed = f", such as {', '.join(answering[:3])}" if answering and not is_large_list else ""
    raise ConfigurationError(
        f"no model is named, and {endpoint.address} does not say which to ask: give --model{listed}"
    )


def _configured(judge: JudgeSettings) -> JudgeEndpoint | None:
    environment = {name: value for name, value in os.environ.items() if value}
    openai_key = "OPENAI_API_KEY" if "OPENAI_API_KEY" in environment else None
    own_key = None if judge.api_key is not None else openai_key
    azure, azure_key = environment.get("AZURE_OPENAI_ENDPOINT"), AZURE_KEY in environment
    if judge.base_url is not None:
        return JudgeEndpoint("judge.base_url", judge.base_url, judge.key_variable)
    if "OPENAI_BASE_URL" in environment:
        return JudgeEndpoint("OPENAI_BASE_URL", environment["OPENAI_BASE_URL"], own_key)
    if judge.api_key is not None:
        return JudgeEndpoint("judge.api_key", None)
    if openai_key:
        return JudgeEndpoint(openai_key, None, openai_key)
    if azure and azure_key:
        path = "" if "/openai/" in f"{azure}/" else "/openai/v1"
        return JudgeEndpoint("AZURE_OPENAI_ENDPOINT", f"{azure.rstrip('/')}{path}", AZURE_KEY)
    if azure or azure_key:
        missing = AZURE_KEY if azure else "AZURE_OPENAI_ENDPOINT"
        raise ConfigurationError(f"{missing} is not set, and the other variable of Azure OpenAI is: set both")
    return None


async def _with_models(endpoint: JudgeEndpoint, judge: JudgeSettings) -> JudgeEndpoint:
    if endpoint.key_variable == AZURE_KEY:  # its list is of all models, and not of the deployments
        return endpoint
    listed = await _list_models(endpoint, judge.model_copy(update={"base_url": endpoint.url}).key, LIST_S)
    if listed in (401, 403):
        named = endpoint.key_variable or "judge.api_key"
        raise ConfigurationError(f"{endpoint.address} refuses the key of {named}: correct it, or set OPENAI_API_KEY")
    return replace(endpoint, models=listed) if isinstance(listed, tuple) else endpoint


async def _list_models(endpoint: JudgeEndpoint, key: str | None, timeout_s: float) -> tuple[str, ...] | int | None:
    """Return the names of the models; the status of a refusal; None if there is no list."""
    import httpx2  # noqa: PLC0415 - takes longer to import than most commands run

    from ragtide_runtime.outside.httpx_transport import bounded_transport  # noqa: PLC0415 - the same

    url = endpoint.url or OPENAI_URL
    parts = urlsplit(url)
    proxy = None if is_loopback(parts.hostname or "") else proxy_of(url)
    headers = {"Authorization": f"Bearer {key}"} if key and not parts.username else {}
    transport = bounded_transport(proxy, lambda _: LIST_BYTES)
    try:
        async with (
            asyncio.timeout(timeout_s),
            httpx2.AsyncClient(headers=headers, transport=transport, trust_env=False) as client,
        ):
            reply = await client.get(f"{url.rstrip('/')}/models")
            if reply.status_code != 200:
                return reply.status_code
            names = [model["id"] for model in json.loads(reply.content)["data"]]
    except (
        TimeoutError,
        httpx2.HTTPError,
        httpx2.InvalidURL,
        OSError,
        ForeignAnswerError,
        ValueError,
        KeyError,
        TypeError,
    ):
        return None
    return tuple(printable(name)[:200] for name in names if isinstance(name, str) and name)
