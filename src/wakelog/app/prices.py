"""Prices of models for display: those of the configuration, then those of the package genai-prices, if it is installed.

The log has the cost of a call only if the policy had a price or the provider reported one. Costs found here are
applied when usage is displayed and never written. The package brings its own table: nothing is downloaded.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import cached_property
from importlib import import_module, metadata
from types import ModuleType
from typing import Any

from wakelog.config import load_config
from wakelog.decide.policy import Price
from wakelog.log.content import Usage
from wakelog.log.timestamps import parse_ms
from wakelog.projections.usage import PricedCall

_PACKAGE = "genai_prices"
_MICROS = Decimal(1_000_000)
# Names of providers in logs that the package calls otherwise. With any other name, the model alone is looked up.
_PROVIDER_IDS: Mapping[str, str] = {
    "amazon-bedrock": "aws",
    "gemini": "google",
    "google-vertex": "google",
    "openai-responses": "openai",
    "xai": "x-ai",
}


class PriceTable:
    """Finds the cost of model calls."""

    def __init__(self, configured: Mapping[str, Price]) -> None:
        self._configured = configured
        # Models without a price: looking one up again takes as long as the first time.
        self._unknown: set[tuple[str | None, str]] = set()
        self.was_asked = False

    @classmethod
    def from_config(cls) -> "PriceTable":
        """Return a table with the prices of the user's configuration. Mistakes in it do not matter here."""
        config = load_config("", os.environ).config
        return cls({model: price.exact for model, price in config.prices.items()})

    def find_cost(self, call: PricedCall) -> int | None:
        """Return the cost of a call in millionths of a dollar; None if the price of its model is not known."""
        self.was_asked = True
        if not call.model:
            return None
        configured = self._configured.get(f"{call.provider}:{call.model}")
        if configured is not None:
            return configured.add_cost(call.usage).cost_micros
        if self._package is None or (call.provider, call.model) in self._unknown:
            return None
        return self._from_package(self._package, call)

    def _from_package(self, package: ModuleType, call: PricedCall) -> int | None:
        used = package.Usage(**_as_package_usage(call.usage))
        provider = _PROVIDER_IDS.get(call.provider or "", call.provider)
        when = datetime.fromtimestamp((parse_ms(call.timestamp) or 0) / 1000, UTC) if call.timestamp else None
        known = provider if provider in self._provider_ids else None
        try:
            found = package.calc_price(used, call.model, provider_id=known, genai_request_timestamp=when)
        except (LookupError, ValueError):
            self._unknown.add((call.provider, call.model or ""))
            return None
        return int((found.total_price * _MICROS).quantize(Decimal(1), ROUND_HALF_UP))

    @cached_property
    def _package(self) -> ModuleType | None:
        """The package, loaded on first use: it is large, and optional."""
        try:
            return import_module(_PACKAGE)
        except ImportError:
            return None

    @cached_property
    def _providers(self) -> list[Any]:
        return list(import_module(f"{_PACKAGE}.data").providers)

    @cached_property
    def _provider_ids(self) -> frozenset[str]:
        return frozenset(provider.id for provider in self._providers)

    @property
    def description(self) -> str:
        """Where prices come from: the package, its version and its newest price, or how to install it."""
        if self._package is None:
            return "no price table is installed: pip install 'wakelog[prices]', or set prices in the configuration"
        return f"prices of genai-prices {metadata.version('genai-prices')}, the newest from {self._newest_price_date()}"

    def _newest_price_date(self) -> str:
        """Return the newest date, up to today, from which a price of the table holds: the package has no other date."""
        models = [model for provider in self._providers for model in provider.models]
        prices = [price for model in models if isinstance(model.prices, list) for price in model.prices]
        dates = [getattr(price.constraint, "start_date", None) for price in prices]
        return str(max((date for date in dates if date is not None and date <= datetime.now(UTC).date()), default="?"))


def _as_package_usage(usage: Usage) -> dict[str, int]:
    """Return the counts by the names of the package, which counts cached tokens as input tokens too."""
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "input_tokens": usage.input_tokens + cached,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
    }
