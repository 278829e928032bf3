"""A program that cancels leaving the pool again and again while a server is still ending.

python -m tests.tools.mcp.hasty MANNER
"""

import asyncio
import os
import sys

from tests.kernel.watching import until
from tests.tools.mcp.serving import plain, running_servers
from wakelog.tools.mcp import ServerPool

_MOMENT_S = 0.2


async def main(manner):
    loop, here = asyncio.get_running_loop(), asyncio.current_task()

    def leave():
        here.cancel()
        loop.call_later(_MOMENT_S, leave)

    async with ServerPool() as servers:
        asking = asyncio.create_task(servers.call(plain(manner), "add", {"a": 1, "b": 1}))
        (server,) = await asyncio.to_thread(until, lambda: running_servers(os.getpid()))
        print(server, flush=True)
        if manner == "foreign":
            # It was found wanting, and is being ended.
            await asyncio.to_thread(until, lambda: "nobody speaks any more" in servers._started[0]._stderr.text())
        else:
            await asking
        leave()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except asyncio.CancelledError:
        sys.exit(0)
