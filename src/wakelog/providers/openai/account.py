"""What both ways of asking OpenAI share: whose models they are, and the SDK."""

import openai

from wakelog.providers.conversing import Sdk
from wakelog.providers.endpoints import Owner
from wakelog.providers.openai.faults import refused

OWNER = Owner(
    "OpenAI",
    address="https://api.openai.com/v1",
    keys=("OPENAI_API_KEY",),
    base_url="OPENAI_BASE_URL",
    headers=("OPENAI_CUSTOM_HEADERS", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"),
)
SDK = Sdk(openai.AsyncOpenAI, openai.DefaultAsyncHttpxClient, openai.OpenAIError, openai.APIStatusError, refused)
