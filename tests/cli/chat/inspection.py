"""What tests of chats inspect: the log, and a screen without what differs from run to run."""

import json
import os
import re

READY = "/help lists commands and keys"
_VARYING = re.compile(r"\d+ ms|\d+\.\d s|[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] working")


def entries(shell, name="agent_user_1"):
    return [json.loads(line) for line in (shell.store / f"{name}.jsonl").read_bytes().splitlines()]


def kinds(shell, name="agent_user_1"):
    return [entry["type"] for entry in entries(shell, name)]


def prompts(shell, name="agent_user_1"):
    messages = [entry["message"] for entry in entries(shell, name) if entry["type"] == "message"]
    return [message["content"][0]["text"] for message in messages if message["role"] == "user"]


def steady(screen):
    """Return a screen without what differs from run to run."""
    return _VARYING.sub("*", screen).rstrip()


class Gate:
    """A pipe that a tool waits at until it is opened: the agent is busy for exactly as long as a test needs."""

    def __init__(self, path):
        self._path = path
        os.mkfifo(path)

    def call(self, command="cat {gate}"):
        """Return a call of the tool that waits."""
        return {"name": "shell", "input": {"command": command.format(gate=self._path.name)}}

    def open(self):
        self._path.write_text("open\n")
