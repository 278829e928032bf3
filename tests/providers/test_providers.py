"""Providers are found by name, and only when asked for."""

import subprocess
import sys

import pytest

from wakelog.errors import UsageError
from wakelog.providers import open_provider, split_model


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("demo", ("demo", "demo")),
        ("scripted:FILE", ("scripted", "FILE")),
        ("scripted:./a:b.jsonl", ("scripted", "./a:b.jsonl")),
        ("other:model-1", ("other", "model-1")),
    ],
)
def test_a_model_is_split(text, parts):
    """Issue 3, item 2: `--model PROVIDER:MODEL`."""
    assert split_model(text) == parts


@pytest.mark.parametrize("text", ["", ":", ":x", "scripted:"])
def test_a_model_that_names_nothing(text):
    with pytest.raises(UsageError) as error:
        split_model(text)
    assert "scripted:FILE" in error.value.hint


def test_opening(tmp_path):
    """Issue 3, item 2: both offline models open by name."""
    script = tmp_path / "script.jsonl"
    script.write_text('{"text":"Hello"}\n')
    assert open_provider("scripted", str(script)).name == "scripted"
    assert open_provider("demo", "demo").name == "demo"


def test_an_unknown_provider_lists_what_there_is():
    with pytest.raises(UsageError) as error:
        open_provider("scriptd", "x")
    assert "'scriptd'" in error.value.message
    spellings = "anthropic:NAME, openai:NAME, openai-chat:NAME, scripted:FILE, demo"
    assert error.value.hint == f"did you mean scripted? use one of {spellings}"
    with pytest.raises(UsageError) as error:
        open_provider("zzz", "x")
    assert error.value.hint == f"use one of {spellings}"


def test_the_demo_is_one_model():
    with pytest.raises(UsageError):
        open_provider("demo", "large")


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat"])
@pytest.mark.parametrize("params", [{}, {"endpoint": "nowhere"}, {"effort": "huge"}], ids=["key", "address", "setting"])
def test_what_is_wrong_is_said_before_a_client_is_opened(provider, params):
    """RUN-8: the parts that connect are loaded last: a missing key is reported without waiting for them."""
    code = (
        "import sys; from wakelog.errors import UsageError; from wakelog.ports.runtime import ModelRequest\n"
        "from wakelog.providers import open_provider\n"
        f"try: open_provider({provider!r}, 'm', {{}}).stream(ModelRequest(model='m', messages=(), params={params!r}))\n"
        "except UsageError: print([name for name in ('anthropic', 'openai', 'httpcore2') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"


def test_a_checked_model_is_loaded_in_the_background():
    """Start-up: the parts that connect are imported while a session is written, not before its first request."""
    code = (
        "import sys, threading; from wakelog.providers import open_provider\n"
        "opened = open_provider('anthropic', 'm', {'ANTHROPIC_API_KEY': 'k'})\n"
        "before = 'httpcore2' in sys.modules; opened.check('m', {})\n"
        "[thread.join() for thread in threading.enumerate() if thread is not threading.main_thread()]\n"
        "print(before, 'httpcore2' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "False True\n"


def test_a_provider_nobody_asked_for_is_not_loaded():
    """DESIGN 9, start-up: splitting a name loads no provider."""
    code = (
        "import sys; from wakelog.providers import split_model; split_model('demo');"
        "print([n for n in sys.modules if n.startswith('wakelog.providers.')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
