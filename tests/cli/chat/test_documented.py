"""`docs/chat.md` is true: its commands are those that exist, and its picture is drawn as a chat draws."""

import re
from pathlib import Path

from wakelog.cli.chat.commands import COMMANDS, command_usage

PAGE = (Path(__file__).parents[3] / "docs" / "chat.md").read_text()


def test_every_command_is_described_and_no_other():
    rows = re.findall(r"^\| `(/[^`]+)` \| (.+) \|$", PAGE, re.MULTILINE)
    assert rows == [(command_usage(command), command.help) for command in COMMANDS.values()]
