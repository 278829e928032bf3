"""The floor of a first request: the HTTP client alone sends the same bytes to the same address and reads the reply.

Arguments: the address, and a file with the headers and the body as JSON. As in `wakelog run`, no certificates are read
for an address without TLS.
"""

import asyncio
import json
import ssl
import sys

import httpx2


async def send(address: str, headers: dict[str, str], body: str) -> None:
    async with (
        httpx2.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust_env=False) as client,
        client.stream("POST", address, headers=headers, content=body.encode()) as response,
    ):
        async for chunk in response.aiter_bytes():
            sys.stdout.buffer.write(chunk)


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        asyncio.run(send(sys.argv[1], **json.load(file)))
