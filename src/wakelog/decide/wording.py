"""Texts that the runtime writes into entries, for the model and for people, and the clipping of long texts.

Both are stored when an entry is appended and never added on reading, so changing one here changes no log and no digest.
A clipped text keeps its head and its tail, with a mark between them that gives the number of bytes left out. Storing
the whole text elsewhere is up to the caller.
"""

from wakelog.errors import UsageError

SKIPPED_CANCELLED = "Not run: the turn was cancelled before this tool was begun."
SKIPPED_FOREIGN = "Not run: this call was not made by this session."
SKIPPED_NEW_MESSAGE = "Not run: a new message came before this tool was begun."
INTERRUPTED = "Interrupted: this tool was stopped before it finished. It may have had part or all of its effect."
UNKNOWN = (
    "Outcome unknown: the process stopped after this tool was begun and before its result was kept. "
    "It may or may not have run; it was not run again. Check before repeating it."
)
UNKNOWN_DAMAGED = (
    "Outcome unknown: part of the log after this tool call is lost, and may have held the start of the tool or its "
    "result. It may or may not have run; it was not run again. Check before repeating it."
)
UNKNOWN_FORKED = (
    "Outcome unknown: this tool was begun in the session that this one was forked from, and had no result there. "
    "It may or may not have run; it was not run here. Check before repeating it."
)
UNKNOWN_RECORDED = (
    "Outcome unknown: the log has no result of this tool call and does not show whether it ran. "
    "It was not run here. Check before repeating it."
)
UNKNOWN_WITHOUT_RESULT = (
    "Outcome unknown: the program ended this tool run without recording a result. "
    "It may or may not have had its effect. Check before repeating it."
)
UNKNOWN_RECEIPT_FAILED = (
    "Outcome unknown: this tool was begun, and the function that looks up what it did failed ({error}). "
    "It may have had part or all of its effect. Check before repeating it."
)
SKIPPED_FORKED = "Not run: the session was forked before this tool was begun."
OUTCOME_RAN = "A person has checked the tool call {call}, whose outcome was unknown: it ran. Its output is not known."
OUTCOME_DID_NOT_RUN = "A person has checked the tool call {call}, whose outcome was unknown: it did not run."
OUTCOME_SAID = "A person has checked the tool call {call}, whose outcome was unknown, and says:\n{said}"
NOT_BEGUN_BEFORE_STOP = "Not run: the program stopped before this tool was begun."
TOO_MANY_ATTEMPTS = "Given up: this tool was begun {attempts} times and never finished."
DENIED = "Denied: this tool may not be run here."
DENIED_BY_PERSON = "Denied: a person decided that this tool may not be run."
RAN = "A person has checked: this tool ran. What it put out is not known."
DID_NOT_RUN = "A person has checked: this tool did not run, and it was not run again."
REDACTED = (
    "Not run: the call held a secret, which is not written down; what stands in its place would do something else. "
    "Let the tool take it from the environment or from a file."
)
QUOTED_MARK = (
    "Not run: the call holds a redaction mark, which stands for a value that is not written down, and this tool would "
    "take the mark as text. In a file, change the text around the value with edit; or let the tool take the value from "
    "the environment or from a file."
)
UNKNOWN_APPROVALS = "Not run: {fault}"
NO_SUCH_TOOL = "There is no tool {name!r}."
OUTPUT_SO_FAR = "\n\nIt had put out:\n{shown}"
PARTS_LEFT_OUT = "[… reasoning and tool calls of this interrupted reply left out: they do not fit into one entry …]"
TOO_DEEP = "Not run: sub-agents may not go any deeper."
NO_PROMPT = "Not run: a sub-agent needs a prompt."
NO_SUCH_AGENT = "Not run: there is no agent {name!r} to send; there are {names}."
NO_OTHER_AGENTS = "Not run: there is no other agent to send; leave `agent` out."
CHILD_FAILED = "The sub-agent failed: {message}"
CHILD_WITHOUT_REPLY = "The sub-agent finished without a word."
HOOK_FAILED = "[the hook {name} failed: {why}]"
DAMAGE_HOLES = (
    "Part of this session's log can no longer be read (places: {places}). What it held is missing from this "
    "conversation: messages, replies of yours, or tool results."
)
DAMAGE_TOOLS = "These tools were called by a reply of yours that is lost:"
DAMAGE_NO_TRACE = "A reply that is lost may have called tools; the rest of the log does not name any."
DAMAGE_SENT = "Replies of yours that are lost had been delivered: {count}."
DAMAGE_RAN = "A person has checked: what the lost reply called did run. What it put out is not known."
DAMAGE_DID_NOT_RUN = "A person has checked: what the lost reply called did not run, and it was not run again."
DAMAGE_SAID = "A person has checked, and says:\n{said}"
DAMAGE_CHECK = "Check before repeating anything that must not happen twice."
HOOK_REDACTED = "its options held a secret, which is not written down; let it take the secret from the environment"
TOO_MANY_STEPS = "the turn took {steps} replies without coming to an end"
TOO_MANY_FAULTS = "{faults} calls in a row came to nothing"
LAST_FAULT = "; the last: {why}"
SUMMARY_PREFIXES = ("Summary of the conversation so far, which it stands for:\n\n",)
"""Prefixes of a summary. New summaries get the last one; the others are kept so that old logs can be replayed."""
SUMMARY_INSTRUCTIONS = (
    "Summarise the conversation so far, so that the work can go on from your summary alone. Keep the aim, what was "
    "decided and why, what was done, names of files, commands and figures as they are, and what is still open. "
    "Write plain text, without a greeting."
)


def with_summary_prefix(summary: str) -> str:
    """Return a summary with its prefix, as the user message it becomes."""
    return SUMMARY_PREFIXES[-1] + summary.strip()


def without_summary_prefix(summary: str) -> str:
    """Return a summary without its prefix."""
    for frame in SUMMARY_PREFIXES:
        if summary.startswith(frame):
            return summary.removeprefix(frame)
    return summary


CLIP_BYTES = 16 * 1024
KEPT_TEXT_BYTES = 32 * 1024 * 1024
"""How much text of an interrupted reply or tool output is kept. Every store can hold a blob of this size."""
CLIP_MIN_BYTES = 128
# Head and tail give up at most 1/4 of their size to end at a line boundary; longer lines are cut inside.
_LINE_SHARE = 4


def clip(text: str, limit_bytes: int = CLIP_BYTES) -> tuple[str, bool]:
    """Return the text in at most `limit_bytes` of UTF-8, and whether anything was left out.

    Raises `UsageError` for a limit below `CLIP_MIN_BYTES`.
    """
    if limit_bytes < CLIP_MIN_BYTES:
        raise UsageError(f"cannot clip to {limit_bytes} bytes", hint=f"allow at least {CLIP_MIN_BYTES}")
    whole = text.encode()
    if len(whole) <= limit_bytes:
        return text, False
    room = limit_bytes - len(clip_mark(len(whole)).encode())
    head = _head(whole, room - room // 2)
    tail = _tail(whole, room // 2)
    return head.decode() + clip_mark(len(whole) - len(head) - len(tail)) + tail.decode(), True


class ClippedText:
    """Buffer for text that arrives in pieces; of text longer than `limit_bytes` it keeps only the two ends.

    `text` is never longer than the limit, so adding it to another `ClippedText` of that limit leaves it unchanged.
    """

    def __init__(self, limit_bytes: int = KEPT_TEXT_BYTES) -> None:
        self._limit = limit_bytes
        self._half = limit_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, text: str) -> None:
        """Append a piece."""
        raw = text.encode("utf-8", "backslashreplace")
        room = max(0, self._half - len(self._head))
        self._head += raw[:room]
        self._tail += raw[room:]
        self._total += len(raw)
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    @property
    def text(self) -> str:
        """The whole text, or its two ends with a mark between them."""
        if self._total <= self._limit:
            return (self._head + self._tail).decode()
        room = self._half - len(clip_mark(self._total).encode())
        # Incomplete characters at the edges are dropped.
        head, tail = self._head.decode(errors="ignore"), self._tail[-room:].decode(errors="ignore")
        return head + clip_mark(self._total - len(head.encode()) - len(tail.encode())) + tail


def clip_mark(omitted_bytes: int) -> str:
    """Return the line that replaces bytes left out."""
    return f"\n[… {omitted_bytes:,} bytes left out …]\n"


def valid_utf8(text: str) -> str:
    """Return the text as valid UTF-8: a lone surrogate, as in undecodable file names, is escaped with a backslash."""
    return text.encode("utf-8", "backslashreplace").decode()


def _head(whole: bytes, size: int) -> bytes:
    """Return at most `size` bytes from the front, ending at a line end if one is near, else between characters."""
    while size > 0 and _inside_character(whole, size):
        size -= 1
    line_end = whole.rfind(b"\n", size - size // _LINE_SHARE, size)
    return whole[: size if line_end < 0 else line_end]


def _tail(whole: bytes, size: int) -> bytes:
    """Return at most `size` bytes from the back, starting at a line start if one is near, else between characters."""
    start = len(whole) - size
    while start < len(whole) and _inside_character(whole, start):
        start += 1
    line_end = whole.find(b"\n", start - 1, start + size // _LINE_SHARE)
    return whole[start if line_end < 0 else line_end + 1 :]


def _inside_character(whole: bytes, at: int) -> bool:
    """Whether the byte at this position is a UTF-8 continuation byte."""
    return whole[at] & 0xC0 == 0x80
