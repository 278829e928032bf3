"""Law 14: a key goes where its owner sends it, never where a log does."""

import pytest

from wakelog.errors import UsageError
from wakelog.ports import Request
from wakelog.providers import open_provider
from wakelog.providers.endpoints import check_trusted

OWN = "https://api.example.com/v1"


def check(endpoint, named=None):
    check_trusted(endpoint, own=OWN, named=named, variable="X_BASE_URL")


@pytest.mark.parametrize(
    "endpoint",
    [
        OWN,
        "https://api.example.com:443/other",
        "https://eu.api.example.com/v1",
        "http://127.0.0.1:8000/v1",
        "http://localhost:1234/v1",
        "http://[::1]:8080",
        "http://ollama.localhost/v1",
    ],
)
def test_the_provider_itself_and_this_machine(endpoint):
    """Its regions too."""
    check(endpoint)


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://evil.example.net/v1",
        "http://api.example.com/v1",
        "https://api.example.com.evil.net/v1",
        "https://api.example.com@evil.net/v1",
        "https://127.0.0.1.evil.net/",
        "https://localhost.evil.net/",
        "https://api.example.com:8443/v1",
        "https://evilapi.example.com/v1",
    ],
)
def test_where_only_a_log_says_so(endpoint):
    """Law 13: names that look alike, other ports and plain text are other addresses."""
    with pytest.raises(UsageError, match="only a log says so") as refused:
        check(endpoint)
    assert f"X_BASE_URL={endpoint}" in refused.value.hint
    check(endpoint, named=endpoint)


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat"])
def test_no_provider_sends_its_key_there(provider, monkeypatch):
    """Law 14: refused before anybody is asked."""
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(variable, "a-key")
    for variable in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    model = open_provider(provider, "m")
    with pytest.raises(UsageError, match="only a log says so"):
        model.stream(Request(model="m", messages=(), params={"endpoint": "https://evil.example.net/v1"}))
