"""Many sessions in one process: a web server that streams the replies of an agent, one session for each user.

`POST /USER` with a prompt as its body; the answer is a stream of server-sent events. All requests share one event loop.
When the server starts, it continues what an earlier process left unfinished; a run whose client is gone is continued by
the next request of that user.

    python 10_web_server.py     and, in another terminal: curl -N -d 'Hello!' ADDRESS/ada
"""

import asyncio
import json

from wakelog import Agent, Conflict, RunResult, Session, TextDelta, ToolStarted, open_store

store = open_store("sessions")
agent = Agent("demo", name="web")  # a real model: "anthropic:NAME"


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        length = next(line.split(":")[1] for line in head if line.lower().startswith("content-length:"))
        prompt = (await reader.readexactly(int(length))).decode()
        session = Session.open(store, agent="web", sender=head[0].split()[1].strip("/"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        await answer(session, prompt, writer)
    except (ConnectionError, ValueError, StopIteration, asyncio.IncompleteReadError) as error:
        print(f"request not answered: {error!r}")
    finally:
        writer.close()


async def answer(session: Session, prompt: str, writer: asyncio.StreamWriter) -> None:
    try:
        async for event in agent.stream(store, prompt, session=session):
            match event:
                case TextDelta(text=text):
                    await send(writer, "text", text)
                case ToolStarted(call=call):
                    await send(writer, "tool", call.name)
                case RunResult(state=state, error=error):
                    await send(writer, "done", error.message if error else state)
    except Conflict:  # another request of this user is being answered
        await send(writer, "queued", "the message waits until the current reply is complete")


async def send(writer: asyncio.StreamWriter, kind: str, text: str) -> None:
    writer.write(f"event: {kind}\ndata: {json.dumps(text)}\n\n".encode())
    await writer.drain()


async def main() -> None:
    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        await asyncio.gather(*[agent.wake(store, stat.name) for stat in store.sessions()])
        await server.serve_forever()


asyncio.run(main())
