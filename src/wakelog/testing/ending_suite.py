"""Store suite, terminated sessions: only a few types of entries are accepted, from every writer."""

import pytest

from wakelog.errors import Conflict, SessionEnded
from wakelog.forking import fork
from wakelog.log.content import Prompt
from wakelog.log.entry import Activity, Message, Queued, Setting
from wakelog.ports import Store
from wakelog.session import Session
from wakelog.testing.store_rig import Rig, stored


class EndingSuite:
    """Terminated sessions."""

    def test_an_ended_session_accepts_names_only(self, store: Store) -> None:
        """RUN-21: after `terminated` only a worker leaving, damage, labels, titles and the archive are accepted."""
        session = Session.create(store)
        said = session.say("hello")
        session.append(Message(message=Prompt(content="once", channel="x"), id="once"))
        assert session.end("done with it").entry.type == "terminated"
        before = stored(store, session.id)
        for body in (Message(message=Prompt(content="more")), Queued(mode="cancel"), Setting(key="a"), Activity()):
            with pytest.raises(SessionEnded):
                session.append(body)
        for refused in (session.end, lambda: session.compact("so far"), lambda: session.move_head(said.id)):
            with pytest.raises(SessionEnded):
                refused()
        with pytest.raises(SessionEnded):
            session.acquire("one", ttl_s=5)
        assert stored(store, session.id) == before
        session.label(said.id, "the question")
        session.rename("Over")
        session.archive()
        # Repeating an append that had succeeded returns its entry.
        assert session.append(Message(message=Prompt(content="once", channel="x"), id="once")).id == "once"
        assert fork(session).say("on from here").type == "message"

    def test_a_writer_that_has_not_seen_the_end(self, rig: Rig, store: Store) -> None:
        """RUN-21: termination is checked under the append lock: an entry composed before it is refused after it."""
        session = Session.create(store)
        session.say("hello")
        other = Session(rig.again(), session.id)
        assert len(other.tree.nodes) == 2
        session.end()
        before = stored(store, session.id)
        with pytest.raises(SessionEnded):
            other.say("too late")
        with pytest.raises(SessionEnded):
            other.acquire("two", ttl_s=5)
        assert stored(store, session.id) == before

    def test_a_session_that_is_run_is_not_ended(self, rig: Rig, store: Store) -> None:
        """RUN-21: while a worker holds the session, ending it is refused; with `force` too, if the worker stays."""
        session = Session.create(store)
        session.say("hello")
        worker = Session(rig.again(), session.id)
        lease = worker.acquire("one", ttl_s=50)
        for force in (False, True):
            with pytest.raises(Conflict, match="run by one"):
                session.end(force=force, wait_s=0)
        worker.release(lease)
        ended = session.end()
        assert (ended.cancelled, ended.dropped.words) == (None, ())
