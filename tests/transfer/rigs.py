"""Stores of every kind to copy between, and stores with replaced methods."""

from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, STEPS, bytes_of, damaged, tell
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore

KEPT_KINDS = ("jsonl", "sqlite", "postgres")
KINDS = ("memory", *KEPT_KINDS)


class Stores:
    """Makes empty stores of any kind, and closes them."""

    def __init__(self, folder, request):
        self._folder = folder
        self._request = request
        self._made = []
        self._drop = []

    def url(self, kind):
        """The URL of an unused store."""
        place = self._folder / f"store-{len(self._made)}"
        self._made.append(None)
        match kind:
            case "jsonl" | "sqlite":
                return f"{kind}:{place}"
            case "postgres":
                server = self._request.getfixturevalue("postgres")
                url = server.new_database()
                self._drop.append((server, url))
                return url
        return "memory:"

    def open(self, url):
        store = open_store(url)
        self._made.append(store)
        return store

    def new(self, kind):
        """An empty store."""
        return self.open(self.url(kind))

    def close(self):
        for store in filter(None, self._made):
            store.close()
        for server, url in self._drop:
            server.drop(url)


class Between:
    """A store that calls other functions instead of some methods, and passes everything else on."""

    def __init__(self, store, *, blobs=None, **calls):
        self._store = store
        self._calls = calls
        if blobs is not None:
            self.blobs = blobs
        self.seen = []

    def __getattr__(self, name):
        real = getattr(self._store, name)
        if name not in self._calls:
            return real

        def call(*given, **more):
            self.seen.append((name, given, more))
            return self._calls[name](real, *given, **more)

        return call


def holding(raw, *, session="s", name="crab_user_1"):
    """A memory store that holds one log of these bytes."""
    store = MemoryStore()
    store.replace(session, name, raw)
    return store


def log_of(store, session="crab_user_1"):
    """The bytes of a log."""
    return b"".join(line.bytes for line in store.load(session))


def first(session="s", **more):
    """A plain first line."""
    return b'{"type":"session","id":"%s"%s}\n' % (session.encode(), b"".join(more.values()))


_HOSTILE = st.sampled_from(
    [
        b"\x00\x00\x00\n",
        b"\x00" * 5,
        b"\n",
        b"\n\n\n",
        b"\r\n",
        b"\xff\xfe\xc3\n",
        b'{"type":"x","id":"a","id":"b","n":NaN,"m":1e999,"t":"\\ud800"}\n',
        b'{"type":"message","id":"f","message":{"role":"user","content":"no seq"}}\n',
        b'{"type":"session_renamed","id":"t","title":"\\u0000"}\n',
        b'{"type":"spawned","id":"u","childSession":"../../x","replyId":"r","toolCallId":"t"}\n',
        b'{"type":"message","id":"cut","messa',
        b"\xef\xbb\xbf{}\n",
    ]
)


@st.composite
def hostile_logs(draw):
    """Random logs, damaged, and with lines of other programs."""
    raw = damaged(bytes_of(tell(draw(st.lists(STEPS, max_size=6)))), draw(DAMAGE))
    lines = raw.splitlines(keepends=True)
    for piece in draw(st.lists(_HOSTILE | st.binary(max_size=30), max_size=4)):
        lines.insert(draw(st.integers(0, len(lines))), piece)
    return b"".join(lines)


def numbered(raw, number):
    """The same log as another session: its id, and its name."""
    return raw.replace(b"01kdwg006g0000000000000001", b"01kdwg006g%016d" % number), f"crab_user_{number}"
