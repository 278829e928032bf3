"""docs/scripted.md is run: every script opens, every sentence makes the call beside it, every key is described."""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from tests.providers.asking import deltas, request
from wakelog.errors import UsageError
from wakelog.log.content import Faulted, Finished
from wakelog.providers.demo import parse_prompt
from wakelog.providers.scripted import DELTA_CHARS, ScriptedCall, ScriptedFault, ScriptedProvider, ScriptedReply

TEXT = (Path(__file__).parents[2] / "docs" / "scripted.md").read_text()
FENCES = re.findall(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
SCRIPTS = [text for _, kind, text in FENCES if kind == "script"]
ROWS = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\| `.*\|$", TEXT, re.MULTILINE)]
SENTENCES = [(row[0].strip("`"), row[1], json.loads(row[2].strip("`"))) for row in ROWS if row[2].startswith("`{")]


def keys(shape):
    return [field.encode_name for field in msgspec.structs.fields(shape)]


def test_there_are_examples():
    assert (len(SCRIPTS), len(SENTENCES) > 7) == (2, True)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_played(tmp_path, script):
    path = tmp_path / "script.jsonl"
    path.write_text(script)
    provider = ScriptedProvider.from_file(str(path))
    assert provider.can_resume is ("canResume" in script)
    lines = [line for line in script.splitlines() if "options" not in line]
    for place, line in enumerate(lines):
        assert isinstance(deltas(provider, request(answers=place))[-1], Faulted if "error" in line else Finished)
    assert deltas(provider, request(answers=len(lines)))[-1].kind == "script_ended"


def test_a_refused_script(tmp_path):
    ((script, says),) = [(text, says) for (_, kind, text), (_, _, says) in pairwise(FENCES) if kind == "refused"]
    path = tmp_path / "script.jsonl"
    path.write_text(script)
    with pytest.raises(UsageError) as error:
        ScriptedProvider.from_file(str(path))
    assert f"{error.value.message}; {error.value.hint}" == f"{path}, {says.strip()}"


def test_the_program():
    (program,) = [text for language, _, text in FENCES if language == "python"]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert [line.strip() for line in done.stdout.splitlines()] == re.findall(r"^# (.*)$", program, re.MULTILINE)


def test_every_key_is_described():
    """The table lists the keys of the code."""
    rows = {row[0].strip("`"): row for row in ROWS if not row[2].startswith("`{")}
    assert list(rows) == keys(ScriptedReply)
    assert re.findall(r"`(\w+)`", rows["toolCalls"][1]) == keys(ScriptedCall)
    assert re.findall(r"`(\w+)`", rows["error"][1]) == keys(ScriptedFault)
    assert rows["deltaChars"][2] == str(DELTA_CHARS)


@pytest.mark.parametrize(("sentence", "tool", "given"), SENTENCES)
def test_sentences_make_calls(sentence, tool, given):
    ((wish,),) = parse_prompt(sentence) or ()
    assert (wish.tool, wish.input) == (tool, given)


def test_joined_sentences():
    (sentence,) = re.findall(r"joined: `(.*?)`", TEXT)
    assert [len(step) for step in parse_prompt(sentence)] == [2, 1]
