"""Keys typed before a chat has started count as typed into it, and the terminal is restored when a chat is over."""

import sys

import pytest

from tests.cli.chat.inspection import READY, kinds, prompts
from tests.tools.mcp.serving import PLAIN
from wakelog.cli.chat.terminal import decode_line_mode


@pytest.mark.parametrize(
    ("line", "keys"), [(b"hello\n", "hello\r"), (b"a\nb", "a\rb"), (b"bye\0", "bye\x04"), ("é\n".encode(), "é\r")]
)
def test_lines_become_keys_again(line, keys):
    """In line mode a terminal turns Enter into a line feed, and Ctrl-D into nothing."""
    assert decode_line_mode(line) == keys


def test_a_message_typed_too_early_is_sent(shell, chat):
    """Each line is a message of its own, and text without an Enter stays in the input."""
    pane = chat("--model", "demo", ahead=("hello there", "Enter", "list .", "Enter", "half a li"))
    pane.expect(READY, "✓ list .", "› half a li")
    assert prompts(shell) == ["hello there", "list ."]


def test_half_a_line_is_in_the_input(shell, chat):
    pane = chat("--model", "demo", ahead=("li",))
    seen = pane.expect(READY, "› li")
    assert seen.splitlines()[0].startswith("wakelog/")
    pane.say("st .")
    pane.expect("✓ list .")
    assert prompts(shell) == ["list ."]


def test_ctrl_d_typed_too_early_leaves(shell, chat):
    """The terminal echoes, edits lines and knows Enter as before."""
    pane = chat("--model", "demo", ahead=("C-d",))
    pane.ended(0)
    pane.say("a line")
    pane.until(lambda seen: seen.count("a line") == 2)
    assert not list(shell.store.glob("*.jsonl"))


def test_keys_typed_before_a_question_do_not_answer_it(shell, script, chat):
    """RUN-13: a letter that was typed before the question was on the screen is a message."""
    call = {"name": "shell", "input": {"command": "touch ran"}}
    model = script({"toolCalls": [call]}, {"text": "Finished."})
    assert shell.process("run", "--model", model, "go", typed=b"").code == 6
    pane = chat("agent_user_1", ahead=("y", "Enter"))
    pane.expect("command: touch ran", "» queued: y")
    assert "attention_resolved" not in kinds(shell)
    assert not (shell.folder / "ran").exists()


def test_messages_typed_while_the_model_loads_are_sent(shell, chat, gate, mcp_servers):
    """Two lines before the model is loaded: both are sent, in order, and half of a third one stays."""
    mcp_servers(slow=f"cat {shell.folder}/gate >&2; exec {sys.executable} -I -S {PLAIN}")
    pane = chat("--model", "demo", ahead=("hello there", "Enter", "list .", "Enter", "half a li"))
    pane.expect("connecting to slow", "» queued: hello there", "» queued: list .", "› half a li")
    gate.open()
    pane.expect("✓ list .", "› half a li")
    assert prompts(shell) == ["hello there", "list ."]


def test_text_after_the_choice_of_a_session_is_sent_in_it(shell, script, chat):
    """Also before there is a list to choose from, and in one burst after the key that chooses."""
    model = script(*({"text": f"Answer {number}."} for number in range(9)))
    for prompt in ("the parser", "the lexer"):
        assert shell.process("run", "--model", model, prompt, typed=b"").code == 0
    early = chat("--pick", ahead=("pars", "Enter", "one", "Enter", "two", "Enter"))
    early.expect("› the parser", "› one", "› two")
    early.until(early.rests)
    late = chat("--pick")
    late.expect("the parser", "the lexer")
    late.press("lex", "Enter", "three", "Enter", "four", "Enter")
    late.expect("› the lexer", "› three", "› four")
    late.until(late.rests)
    assert prompts(shell) == ["the parser", "one", "two"]
    assert prompts(shell, "agent_user_2") == ["the lexer", "three", "four"]
    assert len(list(shell.store.glob("*.jsonl"))) == 2


def test_keys_typed_too_early_filter_the_list(shell, script, chat):
    model = script({"text": "An answer."})
    for prompt in ("the parser", "the lexer"):
        assert shell.process("run", "--model", model, prompt, typed=b"").code == 0
    pane = chat("--pick", ahead=("pars", "Enter"))
    pane.expect(READY, "› the parser")
