"""RUN-8, LOG-12: images and audio at every door: sent where the wire takes them, named in words where it does not."""

import json

import msgspec
import pytest

from tests.loopback import Answer, Loopback
from tests.providers.asking import assistant, deltas, user
from tests.providers.asking import request as asking
from tests.providers.wire_formats import RIGS
from wakelog.log.content import Audio, Image, Text, ToolCallDelta
from wakelog.projections.context import ContextMessage

PNG = Image(mime_type="image/png", data="iVBORw==")
WAV = Audio(mime_type="audio/wav", data="UklGRg==")
SVG = Image(mime_type="image/svg+xml", data="PHN2Zy8+")
CALL = ToolCallDelta("c1", "look", {})


@pytest.fixture(params=RIGS)
def rig(request):
    return RIGS[request.param]


def _sent(rig, *parts, is_error=False, model="m", **params):
    """The body of a request with these parts in the result of a tool, as a server got it."""
    result = ContextMessage(role="toolResult", content=parts, tool_call_id="c1", tool_name="look", is_error=is_error)
    with Loopback() as server:
        server.play(Answer(rig.whole))
        params = {"endpoint": f"{server.url}{rig.path}", **params}
        said = asking(user("Go."), assistant("", CALL), result, params=params)
        deltas(rig.open(), msgspec.structs.replace(said, model=model))
        return json.dumps(server.asked[0].json)


def test_what_a_tool_shows_is_seen(rig):
    """LOG-12: every wire has a place for the picture of a result."""
    sent = _sent(rig, Text(text="Here."), PNG)
    assert PNG.data in sent
    assert "cannot be shown" not in sent


def test_what_no_model_takes_is_named(rig):
    """RUN-8: a conversation that was refused once is refused for ever."""
    sent = _sent(rig, Text(text="Here."), SVG, WAV)
    assert SVG.data not in sent
    assert WAV.data not in sent
    assert "(a picture that cannot be shown here: image/svg+xml)" in sent
    assert "(audio that cannot be played here: audio/wav)" in sent


def test_a_model_that_hears():
    """RUN-8: on the one wire that takes audio, by the model's own name."""
    sent = _sent(RIGS["openai-chat"], WAV, model="some-audio-preview")
    assert json.dumps({"type": "input_audio", "input_audio": {"data": WAV.data, "format": "wav"}}) in sent


def test_a_model_that_takes_no_media(rig):
    """RUN-8: a setting has words stand in their place; the log keeps them for the next model."""
    sent = _sent(rig, Text(text="Here."), PNG, media="note")
    assert PNG.data not in sent
    assert "(a picture that cannot be shown here: image/png)" in sent


def test_the_picture_of_a_failure_is_named():
    """RUN-8: one wire takes nothing but words in a failed result."""
    sent = _sent(RIGS["anthropic"], PNG, is_error=True)
    assert PNG.data not in sent
    assert "(a picture that cannot be shown here: image/png)" in sent
