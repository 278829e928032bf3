"""Law 14, LOG-20: known values are replaced wherever they stand, however the text is split; ordinary text stays."""

import json
import string
from random import Random

import pytest

from wakelog.log.content import ContentDelta, Reply, Text, TextDelta, Thinking, ThinkingDelta, ToolCall, ToolCallDelta
from wakelog.log.redaction_marks import differs_in_marks_only
from wakelog.redaction.entries import DeltaRedactor, redact_entry
from wakelog.redaction.known_values import (
    CHARS_MAX,
    KNOWN_VALUE,
    NO_KNOWN_VALUES,
    VALUE_MAX_CHARS,
    VALUES_MAX,
    KnownValues,
    is_distinctive,
    secret_variables,
)
from wakelog.redaction.redactor import Redactor, held_chars_max, redact, redact_value

ALPHANUMERIC = string.ascii_letters + string.digits
SECRET = "q7Zk2Vw9Xr4Tb8Lm3Np6"
SHORT = "x9Kd72Lm"
MARK = "[redacted: known-value]"
LEARNED = "[redacted: assignment]"
# Beginnings of assignments and keys, so that known values meet other secrets at every distance.
BETWEEN = (
    "password=",
    "TOKEN: ",
    "Bearer ",
    "https://user:",
    '"secret": "',
    "\\n",
    "\x1b[32m",
    " ",
    "\n",
    "a word",
    "@",
    ";",
)
ORDINARY = [
    "TestLoadSessionState_WithEndedAt",
    "a.CacheReadTokens",
    "agent:main:telegram:12345",
    "correct-horse-battery-staple-12",
    "password1",
    "hunter2-prod",
    "/usr/lib/python3.11/site",
    "~/.ssh/id_ed25519",
    "./a1/b2/c3/d4/e5",
    "https://example.org/a1b2c3",
    "2026-01-03T10:00:00Z",
    "1234567890123456",
    "my-project-prod-eu1",
    "claude-sonnet-5-20250929",
    "aaaaaaaaaaaaaaaa1",
    "session_state_2",
    "ABCDEFGHIJKLMNOP",
    "abcdefghijklmnop",
    "ReadTimeoutSeconds30",
    "node_modules/lodash-4.17.21",
    "application/x-www-form-urlencoded",
]


def given(*values, kind=KNOWN_VALUE):
    known = KnownValues()
    known.give(dict.fromkeys(values, kind))
    return known


def drawn(chance, size, signs=ALPHANUMERIC):
    return "".join(chance.choices(signs, k=size))


def fed(text, size, known):
    redactor = Redactor("assignments", known)
    limit = held_chars_max("assignments") + known.search.longest
    pieces = []
    for at in range(0, len(text), size):
        pieces.append(redactor.feed(text[at : at + size]))
        assert len(redactor.held) <= limit
    return "".join(pieces) + redactor.end(), tuple(redactor.hits)


@pytest.mark.parametrize("seed", range(300))
def test_pieces_are_redacted_as_the_whole(seed):
    """Law 14, streamed text included: values that begin alike or overlap, keys and assignments, at any split."""
    chance = Random(seed)
    value = drawn(chance, chance.randint(16, 30), ALPHANUMERIC + '+/=&;"\\' if seed % 3 else "ab1Z&.=")
    values = [
        value,
        value[: chance.randint(8, 15)],
        value + drawn(chance, 4),
        value[5:] + drawn(chance, 6),
        drawn(chance, 9),
        f"user:{drawn(chance, 12)}@h",
    ]
    known = given(*values)
    keys = [f"ghp_{drawn(chance, 36)}", f"AKIA{drawn(chance, 16, string.ascii_uppercase)}"]
    parts = [*values, *values, *(each[: chance.randint(1, len(each))] for each in values), *keys, *BETWEEN]
    text = "".join(chance.choices(parts, k=chance.randint(1, 12)))
    # What is learned from the text itself depends on where it was split, so nothing may be learned here.
    known.learn = lambda value, kind: None
    whole = redact(text, "assignments", known)
    for size in (1, 2, 3, 7, chance.randint(1, 40)):
        assert fed(text, size, known) == (whole.text, whole.hits)


def test_a_value_is_replaced_in_any_surroundings():
    """LOG-20: also directly after an escape sequence, and inside a longer run of letters and digits."""
    known = given(SECRET)
    for before, after in (
        ("", ""),
        ("\\n", "\\n"),
        ("\x1b[32m", "\x1b[0m"),
        ("%3D", "&x"),
        ("prefix", "suffix"),
        ("é", "→"),
    ):
        assert redact(f"{before}{SECRET}{after}", "keys", known).text == f"{before}{MARK}{after}"


def test_a_short_value_is_replaced_as_a_whole_word_only():
    """LOG-20: a short value may occur in a longer one by chance."""
    known = given(SHORT)
    for text in (f"{SHORT}0", f"a{SHORT}", f"x{SHORT}x", SHORT[:-1]):
        assert redact(text, "assignments", known).hits == ()
        assert fed(text, 1, known)[0] == text
    assert redact(f"({SHORT})", "assignments", known).text == f"({MARK})"


@pytest.mark.parametrize("count", [1, 20])
@pytest.mark.parametrize("size", [10, 5_000, 100_000])
@pytest.mark.parametrize("value", [SECRET, SHORT, "aZ9+bY8/cX7=dW6&eV5%fU4"])
def test_a_value_is_found_in_a_text_of_any_length(size, value, count):
    """LOG-20: many values are searched for in runs of letters and digits; those without such a run are found too."""
    padding = "ordinary words, long_names_of_things and 0123456789abcdef0123 " * (size // 60)
    known = given(value, *(drawn(Random(number), 40) for number in range(count)))
    assert redact(f"{padding}{value}\n{padding}", "keys", known).text == f"{padding}{MARK}\n{padding}"
    assert redact(padding, "keys", known).text == padding


def test_the_longest_value_is_replaced_first():
    """Law 14: nothing is left of a value that begins with another one."""
    known = given(SECRET, f"{SECRET}-{SHORT}")
    assert redact(f"{SECRET}-{SHORT}", "keys", known).text == MARK
    assert fed(f"{SECRET}-{SHORT}.", 1, known)[0] == f"{MARK}."


def test_a_value_with_other_signs_is_replaced_as_a_whole():
    """Law 14: an assignment ends at `&`; a known value that begins at the same place goes on behind it."""
    value = "aZ9bY8cX7&dW6eV5fU4;gT3"
    assert redact(f"password={value}", "assignments", given(value)).text == f"password={MARK}"


def test_a_value_is_replaced_where_json_has_escaped_it():
    """Law 14: with a quote or a backslash in it, it is spelled otherwise inside a JSON string."""
    value = 'aZ9bY8"cX7\\dW6eV5fU4'
    for known in (given(value), given(json.dumps(value)[1:-1])):
        for text in (value, json.dumps(value)[1:-1]):
            assert redact(f"<{text}>", "keys", known).text == f"<{MARK}>"


def test_a_recognised_value_is_replaced_in_what_follows_and_in_the_text_before():
    """LOG-20: the name stands somewhere; before it and after it the value is replaced too, with the same mark."""
    known = KnownValues()
    text = f"{SECRET} and SERVICE_TOKEN={SECRET}\n{SECRET}"
    assert redact(text, "assignments", known).text == f"{LEARNED} and SERVICE_TOKEN={LEARNED}\n{LEARNED}"
    assert redact(f"x {SECRET}", "assignments", known).text == f"x {LEARNED}"
    assert redact(f"x {SECRET}", "keys", known).text == f"x {LEARNED}"
    assert redact(f"x {SECRET}", "off", known).text == f"x {SECRET}"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"service_token": "{SECRET}"}}',
        f"Authorization: Bearer {SECRET}",
        f"https://ada:{SECRET}@example.org",
        f"SERVICE_TOKEN={SECRET}.\n",
        f"SERVICE_TOKEN={SECRET};export SERVICE_TOKEN\n",
    ],
)
def test_every_way_to_recognise_a_value_makes_it_known(text):
    """LOG-20: by a name, in a header, in an address; without the punctuation behind it; in pieces too."""
    for size in (len(text), 1, 5):
        known = KnownValues()
        fed(text, size, known)
        assert SECRET not in redact(f"It is {SECRET}", "keys", known).text


def test_a_member_of_a_json_object_makes_its_value_known():
    """LOG-20: the name and the value are different strings there."""
    known = KnownValues()
    redact_value({"service_token": SECRET}, "assignments", known)
    assert redact(SECRET, "keys", known).text == LEARNED


def test_all_parts_of_an_entry_are_searched_again():
    """LOG-20: a part before the one in which the value was recognised; a signature is dropped with its text."""
    parts = (Thinking(thinking=f"{SECRET}?", signature="s"), Text(text=SECRET), Text(text=f"SERVICE_TOKEN={SECRET}"))
    clean = redact_entry(Reply(content=parts), "assignments", KnownValues())
    assert clean.content == (Text(text=LEARNED), Text(text=f"SERVICE_TOKEN={LEARNED}"))


def test_known_values_in_streamed_deltas():
    """LOG-20: text, thinking with its signature, and the whole input of a tool call."""
    sieve = DeltaRedactor("assignments", given(SECRET))
    deltas: list[ContentDelta] = [
        ThinkingDelta(SECRET[:7]),
        ThinkingDelta(SECRET[7:], "signature"),
        TextDelta(f"a {SECRET[:3]}"),
    ]
    deltas += [TextDelta(SECRET[3:]), ToolCallDelta("c", "t", {"a": [f"-p {SECRET}"]}, None)]
    taken = [safe for delta in deltas for safe in sieve.take(delta)] + sieve.end()
    assert taken == [
        ThinkingDelta(MARK),
        TextDelta("a "),
        TextDelta(MARK),
        ToolCallDelta("c", "t", {"a": [f"-p {MARK}"]}, None, redacted=True),
    ]


def test_a_value_is_replaced_in_fields_that_programs_use():
    """LOG-20: tool inputs without exception; assignments of other values stay there."""
    call = ToolCall(id="c", name="t", input={"text": f"password = hunter2hunter2 {SECRET}"})
    clean = redact_entry(Reply(content=(call,)), "assignments", given(SECRET))
    assert clean.content[0].input == {"text": f"password = hunter2hunter2 {MARK}"}


@pytest.mark.parametrize("text", ORDINARY)
def test_words_paths_numbers_and_identifiers_are_never_known(text):
    """LOG-20: the value of a secret-named variable may be an ordinary word; replacing it would change ordinary text."""
    assert not is_distinctive(text)
    assert secret_variables({"SERVICE_TOKEN": text}) == {}


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "GH_TOKEN",
        "DB_PASSWORD",
        "PGPASSWORD",
        "SECRET_KEY_BASE",
        "MYSQL_PWD",
        "aws_secret_access_key",
    ],
)
def test_variables_with_the_name_of_a_secret(name):
    """LOG-20: the name decides, and the value is 8 characters or more."""
    assert secret_variables({name: SHORT, "PATH": SECRET}) == {SHORT: KNOWN_VALUE}
    assert secret_variables({name: SHORT[:7]}) == {}


@pytest.mark.parametrize(
    "name", ["PWD_HASH", "TOKEN_URL", "GPG_KEY", "SSH_PUBLIC_KEY", "KEYBOARD", "COMPASS", "AUTHOR"]
)
def test_variables_with_other_names(name):
    """LOG-20: names of something else that contain such a word."""
    assert secret_variables({name: SECRET}) == {}


def test_most_random_values_are_recognised_as_random():
    """LOG-20: counted over made-up values of the usual alphabets."""
    chance = Random(7)
    alphabets = {
        ALPHANUMERIC: 0.97,
        ALPHANUMERIC + "-_": 0.97,
        "0123456789abcdef": 0.97,
        string.ascii_lowercase + string.digits: 0.97,
    }
    for signs, share in alphabets.items():
        found = [is_distinctive(drawn(chance, size, signs)) for size in (20, 24, 32, 40, 64) for _ in range(200)]
        assert sum(found) / len(found) >= share


def test_the_number_of_values_is_bounded():
    """LOG-20: beyond the limits the oldest are forgotten; a value that is too long is never known."""
    chance, known = Random(2), KnownValues()
    values = [drawn(chance, 20) for _ in range(VALUES_MAX + 50)]
    for value in values:
        known.learn(value, "assignment")
    assert not known.search.is_in(values[0])
    assert known.search.is_in(values[-1])
    for _ in range(CHARS_MAX // VALUE_MAX_CHARS + 2):
        known.learn(drawn(chance, VALUE_MAX_CHARS), "assignment")
    assert not known.search.is_in(values[-1])
    before = known.search
    known.learn(drawn(chance, VALUE_MAX_CHARS + 1), "assignment")
    assert known.search is before
    assert known.search.longest == VALUE_MAX_CHARS


def test_without_known_values_nothing_is_learned_or_found():
    """Law 11: replay knows no values, whatever this process knows."""
    NO_KNOWN_VALUES.give({SECRET: KNOWN_VALUE})
    NO_KNOWN_VALUES.learn(SECRET, "assignment")
    assert redact(SECRET, "assignments").text == SECRET
    assert not NO_KNOWN_VALUES.search


@pytest.mark.parametrize(
    ("marked", "other", "same"),
    [
        (b"a [redacted: x] b", b"a VALUE b", True),
        (b"[redacted: x][redacted: y]", b"ab", True),
        (b"a [redacted: x] b [redacted: y] c", b"a 1 b 2 b c", True),
        (b"a [redacted: x] b", b"a VALUE c", False),
        (b"a [redacted: x] a", b"a a", False),
        (b"a", b"b", False),
        (b"a", b"a", True),
    ],
)
def test_texts_that_differ_in_marks_only(marked, other, same):
    assert differs_in_marks_only(marked, other) == same
