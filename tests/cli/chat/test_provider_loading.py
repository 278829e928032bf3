"""An SDK takes seconds to load: the input is there at once, and only messages wait for it."""

import os

import pytest

from tests.cli.chat.inspection import READY

_CLIENT = """
import os
if not os.path.exists({gate!r} + ".open"):
    open({gate!r}).read()
raise ImportError("it is broken")
"""


@pytest.fixture
def slow(shell, gate):
    """The environment of a chat whose HTTP client waits at a gate while it is loaded, and then fails."""
    folder = shell.folder / "slow" / "httpx2"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(_CLIENT.format(gate=str(shell.folder / "gate")))
    path = os.pathsep.join(filter(None, (str(folder.parent), os.environ.get("PYTHONPATH"))))
    return {"PYTHONPATH": path, "ANTHROPIC_API_KEY": "sk-none"}


def test_a_message_waits_and_comes_back(shell, chat, slow):
    """A provider that fails is reported in a line, the text is in the input again, and nothing is written."""
    pane = chat("--model", "anthropic:m", columns=160, env=slow)
    pane.expect(READY, "a new session · anthropic:m")
    pane.say("precious words")
    pane.expect("connecting to anthropic:m")
    pane.say("and more")
    pane.expect("» queued: precious words", "» queued: and more")
    with open(shell.folder / "gate", "w") as opened:
        # The HTTP client waits at the gate by now; a later opener finds it open.
        (shell.folder / "gate.open").touch()
        opened.write("open\n")
    pane.expect("anthropic models need packages that cannot be loaded (it is broken)", "› precious words\n  and more")
    pane.until(lambda seen: "connecting" not in seen)
    assert pane.scrolled().count("it is broken") == 1
    assert not list(shell.store.glob("*.jsonl"))
    pane.press("C-c")
    pane.say("/model demo")
    pane.expect("a new session · demo")
    pane.say("hello")
    pane.expect("I am the demo model")


def test_leaving_does_not_wait_for_loading(chat, slow):
    """However long it would take."""
    pane = chat("--model", "anthropic:m", env=slow)
    pane.expect(READY)
    pane.say("hello")
    pane.expect("connecting to anthropic:m")
    pane.press("C-d")
    pane.ended(0)
