"""A server on the loopback interface that sends scripted answers byte by byte, and records its requests.

It speaks HTTP/1.1 over a real socket and knows nothing of any provider: what it sends is made by whoever uses it. A
reply is a list of acts, so that a test can hold a stream in the middle, cut it, or let it go wrong in any way a
network can. `models.py` has a scripted model on top of it, which speaks the formats of all providers.

    with Loopback() as server:
        server.play(Answer([event("one"), Hold(gate), event("two"), CUT]))
        ... a client at server.url ...
        server.asked[0].json
"""

from tests.loopback.model_answers import Call, Pause, Say, Shell
from tests.loopback.models import ModelRequest, ModelServer
from tests.loopback.rows import Row
from tests.loopback.server import CERTIFICATE, CUT, Answer, Asked, Hold, Loopback, events

__all__ = [
    "CERTIFICATE",
    "CUT",
    "Answer",
    "Asked",
    "Call",
    "Hold",
    "Loopback",
    "ModelRequest",
    "ModelServer",
    "Pause",
    "Row",
    "Say",
    "Shell",
    "events",
]
