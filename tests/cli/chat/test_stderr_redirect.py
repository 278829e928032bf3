"""Lines on stderr while a chat has the terminal are printed on lines of their own."""

import asyncio
import contextlib
import sys

from wakelog.cli.chat.terminal import StderrRedirect
from wakelog.cli.ui.errors import note


def test_lines_are_handed_over_from_any_thread():
    async def main():
        told: list[str] = []
        with contextlib.redirect_stderr(StderrRedirect(told.append)):
            sys.stderr.write("half")
            sys.stderr.write(" a line\n\nand more")
            await asyncio.to_thread(note, "from a thread")
        await asyncio.sleep(0)
        return told

    assert asyncio.run(main()) == ["half a line", "and morewakelog: from a thread"]


def test_a_notice_of_the_configuration(shell, chat):
    """An ignored file is reported above the input, in the words of the command line."""
    (shell.folder / ".wakelog.toml").write_text(
        "[agents.agent]\ntools = ['read']\nmcp = ['x']\n[mcp.x]\ncommand = ['false']\n"
    )
    run = shell.process("run", "list .", typed=b"")
    said = [line.removeprefix("wakelog: ") for line in run.err.splitlines() if line.startswith("wakelog: ")]
    pane = chat(columns=200)
    pane.expect("/help lists commands and keys")
    pane.say("list .")
    seen = pane.expect("is not trusted; settings left out")
    assert said
    assert all(" ".join(words.split()) in " ".join(seen.split()) for words in said)
