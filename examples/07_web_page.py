"""Streaming into a web page: a follower of the log, with nothing but the standard library.

A page (07_web_page.html) is no channel: it follows the log, and the journal of a reply under way. So it may come late,
be reloaded or lose its connection and still sees everything, and the agent knows nothing of it.

    python 07_web_page.py     and open the address that is printed
"""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from wakelog import Agent, open_store

Path("play.jsonl").write_text('{"text": "One wave, one <wave> more, and a third.", "deltaChars": 4, "delayMs": 60}\n')
agent = Agent(model="scripted:play.jsonl")  # a real one, with its key in the environment: model="anthropic:NAME"
session = agent.begin(open_store("sessions"))
opened, over = threading.Event(), threading.Event()


class Follower(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        is_stream, is_ours = self.path == "/events", self.headers["Host"] == f"127.0.0.1:{server.server_port}"
        self.send_response(200 if is_ours else 403)  # else: another site's page that was told our address
        self.send_header("Content-Type", "text/event-stream" if is_stream else "text/html")
        self.end_headers()
        if is_ours:
            self.follow() if is_stream else self.wfile.write(Path(__file__).with_suffix(".html").read_bytes())

    def follow(self) -> None:
        store, seq, is_last = open_store("sessions"), -1, False
        had: dict[str, int] = {}  # of each reply under way, how many pieces the page has
        opened.set()
        while not is_last:
            is_last = over.is_set()
            news = store.follow(session.name, after=seq, pieces=had, timeout_s=0.1)
            for piece in news.pieces:
                had[piece.reply_id] = piece.offset + 1
                self.tell("piece", {"replyId": piece.reply_id} | json.loads(piece.raw))
            for entry in [json.loads(line.raw) for line in news.lines]:
                seq = entry["seq"]
                had.pop(entry["replyId"] if entry["type"] == "partial" else "", None)  # cut off: it begins anew
                self.tell("entry", entry)
        self.tell("end", {})

    def tell(self, kind: str, what: dict[str, object]) -> None:
        self.wfile.write(f"event: {kind}\ndata: {json.dumps(what)}\n\n".encode())


server = ThreadingHTTPServer(("127.0.0.1", 0), Follower)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"open http://127.0.0.1:{server.server_port}/", flush=True)
opened.wait()
asyncio.run(agent.run(session.store, "Tell me of the sea.", session=session))
over.set()
input("All is said. Reload the page, or end this with Enter. ")
