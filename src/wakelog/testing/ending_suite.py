"""Part of the store suite: a session that was ended for good accepts next to nothing, whoever writes."""

import pytest

from wakelog.errors import Conflict, SessionEnded
from wakelog.forking import fork
from wakelog.log.content import Prompt
from wakelog.log.entry import Activity, Message, Queued, Setting
from wakelog.ports import Store
from wakelog.session import Session
from wakelog.testing.store_rig import Rig, stored


class EndingSuite:
    """The end of a session."""

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
        # An append that had got through is told so again.
        assert session.append(Message(message=Prompt(content="once", channel="x"), id="once")).id == "once"
        assert fork(session).say("on from here").type == "message"

    def test_a_writer_that_has_not_seen_the_end(self, rig: Rig, store: Store) -> None:
        """RUN-21: the end is checked under the append lock: what was composed before it is refused behind it."""
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
        """RUN-21: while a worker has it the end is refused, also by force if the worker does not leave in time."""
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
