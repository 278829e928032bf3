"""Output of a command: shown as it comes, kept completely up to a limit, and the rest is counted (law 5)."""

from hypothesis import given
from hypothesis import strategies as st

from wakelog.processes.command import CommandOutput

pieces_of_bytes = st.lists(st.binary(max_size=40) | st.text("a€𝄞\n", max_size=10).map(str.encode), max_size=12)


def played(pieces, limit):
    output = CommandOutput(limit)
    shown = "".join([output.add(piece) for piece in pieces])
    return shown + output.final_text(), output.text()


@given(pieces_of_bytes)
def test_live_text_equals_the_returned_text(pieces):
    """Law 5: wherever the bytes are split."""
    shown, text = played(pieces, 1_000)
    assert shown == text == b"".join(pieces).decode("utf-8", "replace")


@given(st.lists(st.text("abc", max_size=30).map(str.encode), max_size=30), st.integers(2, 60))
def test_above_the_limit_the_omitted_middle_is_counted(pieces, limit):
    whole = b"".join(pieces).decode()
    _, text = played(pieces, limit)
    if text == whole:
        return
    head, _, rest = text.partition("\n[… ")
    left_out, _, tail = rest.partition(" bytes left out …]\n")
    assert (head, tail) == (whole[: limit // 2], whole[len(whole) - limit // 2 :])
    assert len(head) + int(left_out) + len(tail) == len(whole)


def test_up_to_the_limit_nothing_is_omitted():
    assert played([b"abc", b"def"], 6)[1] == "abcdef"


def test_live_output_ends_with_a_notice_at_the_limit():
    shown, _ = played([b"abcd", b"efgh", b"ijkl", b"mnop"], 4)
    assert shown == "abcd\n[the output is too long to be shown live]\n"
