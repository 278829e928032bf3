"""`anthropic:NAME` is opened by name: a missing key, or a missing HTTP client, is said in one line."""

import subprocess
import sys

import pytest

from tests.loopback import Loopback
from tests.providers.anthropic.speaking import answer, heard, reply, text
from tests.providers.asking import request
from wakelog.errors import UsageError
from wakelog.log.content import Finished
from wakelog.providers import open_provider


@pytest.fixture(autouse=True)
def _bare(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"):
        monkeypatch.delenv(name, raising=False)


def test_no_key():
    """RUN-8: one line that says which variable to set, and that the demo needs none."""
    with pytest.raises(UsageError) as error:
        open_provider("anthropic", "claude-x").stream(request())
    said = f"{error.value.message}; {error.value.hint}"
    assert ("ANTHROPIC_API_KEY" in said, "--model demo" in said, "\n" in said) == (True, True, False)


def test_a_model_has_a_name(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    with pytest.raises(UsageError) as error:
        open_provider("anthropic", "anthropic")
    assert error.value.hint == "write anthropic:NAME"


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_what_the_environment_gives(monkeypatch, variable):
    """Keys and addresses come from the SDK's usual variables."""
    with Loopback() as server:
        monkeypatch.setenv(variable, " the-word\n")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        server.play(answer(*reply(text(0, "x"))))
        opened = open_provider("anthropic", "claude-x")
        assert isinstance(heard(opened, request())[1], Finished)
        assert [value for value in server.asked[0].headers.values() if "the-word" in value] == ["Bearer the-word"]
    assert (opened.name, opened.can_resume) == ("anthropic", False)


def test_a_missing_http_client():
    """Network providers are extras: without the HTTP client there is one line that says how to get it."""
    code = (
        "import sys; sys.modules['httpx2'] = None\n"
        "from wakelog.errors import UsageError\n"
        "from wakelog.providers import open_provider\n"
        "try: open_provider('anthropic', 'claude-x')\n"
        "except UsageError as error: print(error.message, error.hint, sep='; ')"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        shown.stdout
        == "anthropic models need packages that are not installed: httpx2; pip install 'wakelog[anthropic]'\n"
    )
