"""Prices of models that have no price in the settings: the table of the package `genai-prices`.

The table comes with the installed package. Nothing is fetched from a network, so the same call costs the same in every
process that has the same version. The table has no date of its own: its version identifies it, and each price in it
holds from a day on.
"""

import logging
from dataclasses import dataclass
from datetime import datetime
from decimal import DecimalException
from functools import cache, lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from ragtide_schemas.limits import COST_MAX_USD, REPLY_TOKENS_MAX

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

NAME_MAX_CHARS: Final = 200
"""Longest name of a model or provider that is looked up."""
PACKAGE: Final = "genai-prices"
REMEMBERED: Final = 2048
"""Names whose price is remembered, known or not."""
FRAMEWORKS: Final = frozenset(
    {"", "langchain", "langgraph", "llama_index", "llamaindex", "haystack", "litellm", "unknown"}
)
"""Names that instrumentations write as the provider, and that are no provider."""
OTHER_NAMES: Final = {
    "gcp.gen_ai": "google",
    "azure.ai.openai": "azure",
    "az.ai.openai": "azure",
    "azure.ai.inference": "azure",
    "az.ai.inference": "azure",
    "azure_openai": "azure",
    "x_ai": "x-ai",
    "together": "together",
    "together_ai": "together",
}
"""Names of OpenTelemetry's conventions that the table does not know, or takes for another provider."""
CLOSED_MAKERS: Final = frozenset({"anthropic", "google", "openai"})
"""Vendors with one list price everywhere: the model name is enough to find it."""
OPEN_MODELS: Final = ("gpt-oss",)
"""Models of these makers that everybody may serve."""

log = logging.getLogger("ragtide.prices")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTokens:
    """Tokens of one call of a model."""

    prompt: int
    """Tokens sent, those of the cache included."""
    completion: int
    """Tokens answered."""
    cache_read: int = 0
    """Tokens sent that the endpoint had cached."""
    cache_write: int = 0
    """Tokens sent that the endpoint has put into its cache."""

    @property
    def are_possible(self) -> bool:
        """Whether the numbers can be those of one call."""
        numbers = (self.prompt, self.completion, self.cache_read, self.cache_write)
        return all(0 <= number <= REPLY_TOKENS_MAX for number in numbers) and (
            self.cache_read + self.cache_write <= self.prompt
        )


@dataclass(frozen=True, slots=True, eq=False)
class TablePrice:
    """The price of one model of one provider."""

    _provider: "Provider"
    _model: "ModelInfo"

    def cost_usd(self, tokens: CallTokens, at: datetime) -> float | None:
        """Return the cost of one call in US dollars, at the list price of that time.

        Discounts, and prices of a service tier or of a batch, are not known.

        Args:
            at: time of the call.

        Returns:
            None if the table has no price for these tokens, or the tokens are impossible.
        """
        from genai_prices import Usage  # noqa: PLC0415 - an extra, and slow to import

        if not tokens.are_possible:
            return None
        price = self._model.get_prices(at)
        if (price.input_mtok is None and tokens.prompt) or (price.output_mtok is None and tokens.completion):
            return None
        usage = Usage(
            input_tokens=tokens.prompt,
            output_tokens=tokens.completion,
            cache_read_tokens=tokens.cache_read or None,
            cache_write_tokens=tokens.cache_write or None,
        )
        try:
            usd = float(self._model.calc_price(usage, self._provider, genai_request_timestamp=at).total_price)
        except (ValueError, DecimalException):  # prices by units that a call does not report
            return None
        return usd if 0 <= usd <= COST_MAX_USD else None


class PriceTable:
    """The list prices of an installed package.

    Args:
        name: name and version of the table, such as `genai-prices 0.2.3`.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._remembered = lru_cache(REMEMBERED)(_find_price)

    def price(self, model: str, *, provider: str = "", address: str = "") -> TablePrice | None:
        """Return the price of a model; None if the table does not know it for certain.

        An address that the table knows names the provider, because instrumentations and clients write `openai` for
        every endpoint with OpenAI's protocol. A provider that is given must be known. Without one, the price is that of
        the maker, if no other provider may serve the model.

        Args:
            model: name, as the endpoint calls it.
            provider: name of the provider, in the words of any convention; empty if it is not known.
            address: URL or host name of the endpoint; empty if it is not known.
        """
        if not model or max(len(model), len(provider), len(address)) > NAME_MAX_CHARS:
            return None
        url = address if not address or "://" in address else f"https://{address}"
        return self._remembered(_plain(model), provider.strip().lower(), url)

    def price_at(self, model: str, url: str) -> TablePrice | None:
        """Return the price of a model at an endpoint; None if the table does not know both.

        Args:
            model: name, as the endpoint calls it.
            url: address of the endpoint.
        """
        if max(len(model), len(url)) > NAME_MAX_CHARS:
            return None
        named = _provider(url)
        return None if named is None else _model_of(_plain(model), named)


def _plain(model: str) -> str:
    return model.strip().lower().removeprefix("models/")


def _find_price(model: str, provider: str, url: str) -> TablePrice | None:
    by_url = _provider(url) if url else None
    if by_url is not None:
        return _model_of(model, by_url)
    named = OTHER_NAMES.get(provider, provider)
    if named in FRAMEWORKS or (url and named == "openai"):
        price = _model_of(model, None)
        is_sure = price is not None and price._provider.id in CLOSED_MAKERS
        return price if is_sure and not model.startswith(OPEN_MODELS) else None
    return _model_of(model, named)


def _provider(url: str) -> str | None:
    from genai_prices.data import providers  # noqa: PLC0415 - an extra, and slow to import
    from genai_prices.data_snapshot import DataSnapshot  # noqa: PLC0415

    try:
        return DataSnapshot(providers, from_auto_update=False).find_provider(None, None, url).id
    except LookupError:
        return None


def _model_of(model: str, provider: str | None) -> TablePrice | None:
    from genai_prices.data import providers  # noqa: PLC0415 - an extra, and slow to import
    from genai_prices.data_snapshot import DataSnapshot  # noqa: PLC0415

    # A snapshot remembers every name that it was asked for, so a foreign name gets a snapshot of its own.
    snapshot = DataSnapshot(providers, from_auto_update=False)
    try:
        return TablePrice(*snapshot.find_provider_model(model, None, provider, None))
    except LookupError:
        return None


@cache
def price_table() -> PriceTable | None:
    """Return the table of the installed package; None without the package, which is logged at the first call."""
    try:
        import genai_prices  # noqa: F401, PLC0415 - an extra, and slow to import
    except ImportError:
        log.warning(
            "%s is not installed: models without a price in the settings have no cost; "
            "install it with pip install 'ragtide[worker]'",
            PACKAGE,
        )
        return None
    return PriceTable(f"{PACKAGE} {version(PACKAGE)}")
