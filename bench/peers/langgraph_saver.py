"""LangGraph: a graph of `MessagesState` with a saver, and `update_state`, the cheapest call that adds a message.

`invoke` would run a node as well. State, saver and connection have the library's defaults.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph

from bench.peers.floors import pragmas

_NODE = "said"
_THREAD = {"configurable": {"thread_id": "bench"}}


class _Saver:
    call = "`graph.update_state`"
    objects = "`HumanMessage` (`graph.get_state`)"
    forks = "`update_state` on an older checkpoint, within the thread"

    def __init__(self) -> None:
        self._opened = ExitStack()
        self._checkpoints: list[dict[str, Any]] = []

    def _compile(self, saver: SqliteSaver | PostgresSaver) -> None:
        graph = StateGraph(MessagesState)
        graph.add_node(_NODE, lambda _: {})
        graph.add_edge(START, _NODE)
        self._saver = saver
        self._graph = graph.compile(checkpointer=saver)

    def append(self, text: str) -> None:
        self._checkpoints.append(self._say(_THREAD, text))

    def load(self) -> list[BaseMessage]:
        messages: list[BaseMessage] = self._graph.get_state(_THREAD).values["messages"]
        return messages

    def texts(self, loaded: Sequence[object]) -> list[str]:
        return [message.content for message in loaded if isinstance(message, BaseMessage)]

    def fork(self, text: str) -> None:
        self._say(self._checkpoints[len(self._checkpoints) // 2], text)

    def close(self) -> None:
        self._opened.close()

    def _say(self, config: dict[str, Any], text: str) -> dict[str, Any]:
        checkpoint: dict[str, Any] = self._graph.update_state(config, {"messages": [HumanMessage(text)]}, as_node=_NODE)
        return checkpoint


class OnSqlite(_Saver):
    packages = ("langgraph", "langgraph-checkpoint-sqlite")

    def open(self, place: str) -> None:
        path = os.path.join(place, "checkpoints.sqlite")
        self._compile(self._opened.enter_context(SqliteSaver.from_conn_string(path)))

    def settings(self) -> str:
        return pragmas(self._saver.conn)


class OnPostgres(_Saver):
    packages = ("langgraph", "langgraph-checkpoint-postgres")

    def open(self, place: str) -> None:
        saver = self._opened.enter_context(PostgresSaver.from_conn_string(place))
        saver.setup()
        self._compile(saver)

    def settings(self) -> str:
        # The saver's connection returns rows as dictionaries.
        found = self._saver.conn.execute("SHOW synchronous_commit").fetchone()
        return f"synchronous_commit={found['synchronous_commit']}"
