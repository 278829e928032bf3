"""OpenAI's address, environment variables and SDK, shared by both providers."""

from functools import cache

from wakelog.providers.conversing import Sdk
from wakelog.providers.endpoints import Owner
from wakelog.providers.extras import OPENAI
from wakelog.providers.openai.faults import refused

OWNER = Owner(
    "OpenAI",
    address="https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    base_url="OPENAI_BASE_URL",
    headers=("OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
)


@cache
def sdk() -> Sdk:
    """Load the SDK."""
    found = OPENAI.load()
    return Sdk(found.AsyncOpenAI, found.DefaultAsyncHttpxClient, found.OpenAIError, found.APIStatusError, refused)
