"""Providers are found by name, and loaded only when needed."""

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
def test_a_model_name_is_split(text, parts):
    """`--model PROVIDER:MODEL`."""
    assert split_model(text) == parts


@pytest.mark.parametrize("text", ["", ":", ":x", "scripted:"])
def test_an_incomplete_model_name_is_refused(text):
    with pytest.raises(UsageError) as error:
        split_model(text)
    assert "scripted:FILE" in error.value.hint


def test_both_offline_models_open_by_name(tmp_path):
    """`open_provider` accepts their names."""
    script = tmp_path / "script.jsonl"
    script.write_text('{"text":"Hello"}\n')
    assert open_provider("scripted", str(script)).name == "scripted"
    assert open_provider("demo", "demo").name == "demo"


def test_the_error_for_an_unknown_provider_lists_all_providers():
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


def test_an_unused_provider_is_not_imported():
    """Splitting a name imports no provider."""
    code = (
        "import sys; from wakelog.providers import split_model; split_model('demo');"
        "print([n for n in sys.modules if n.startswith('wakelog.providers.')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
