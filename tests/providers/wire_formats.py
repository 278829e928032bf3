"""All doors to the network beside each other: the same thing happens at each, and is called by the same word."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.loopback import events
from tests.loopback.server import Act
from tests.patience import PATIENCE_S
from tests.providers.anthropic import speaking
from tests.providers.asking import deltas, request
from tests.providers.openai import wire
from wakelog.providers.anthropic.messages import MESSAGES
from wakelog.providers.http_provider import HttpProvider, WireFormat
from wakelog.providers.openai.chat import CHAT
from wakelog.providers.openai.responses import RESPONSES

KEY = "xk-not-a-key"


class Rig(NamedTuple):
    """A door, and what a server behind it says: the acts of half a reply, those of a whole one, and an error."""

    way: WireFormat
    path: str
    half: Sequence[Act]
    whole: Sequence[Act]
    error: dict[str, Any]

    def open(self, **more):
        """The door, with a key."""
        environ = {self.way.vendor.key_variables[0]: KEY, **more.pop("environ", {})}
        return HttpProvider(self.way, environ=environ, **more)

    def ask(self, url, *, environ=None, idle_timeout_s=PATIENCE_S, **params):
        """All that is heard from a server at a URL."""
        door = self.open(environ=environ or {}, idle_timeout_s=idle_timeout_s)
        return deltas(door, request(params={"endpoint": f"{url}{self.path}", **params}))


_ERROR = {
    "type": "error",
    "error": {"type": "invalid_request_error", "code": "invalid_x", "message": f"you sent {KEY}"},
}
RIGS = {
    "anthropic": Rig(
        MESSAGES,
        "",
        events(speaking.started(), *speaking.text(0, "So ", "far")[:-1]),
        events(*speaking.reply(speaking.text(0, "Hi"))),
        _ERROR,
    ),
    "openai": Rig(
        RESPONSES,
        "/v1",
        events(*wire.response_events(wire.message("msg_1", "So farther"))[:5]),
        events(*wire.response_events(wire.message("msg_1", "Hi"))),
        _ERROR,
    ),
    "openai-chat": Rig(
        CHAT,
        "/v1",
        wire.chat_acts(wire.chunk({"content": "So far"}), done=False),
        wire.chat_acts(wire.chunk({"content": "Hi"}, "stop"), wire.chunk(usage=wire.CHAT_USAGE)),
        _ERROR,
    ),
}
