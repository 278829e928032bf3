"""An MCP server in plain Python, for behaviour that the SDK's server never shows. It starts fast.

    python -I -S plain_server.py [MANNER]

Manners: `old` dies of a greeting it does not know, `ignoring` does not answer one, `mute` never answers, `dead` says
something and ends, `babble` puts a line that is no message before every answer, `endless` lists for ever, `deaf` ends
neither with its input nor when it is asked to, `foreign` is as deaf and speaks an unknown version, `malformed`
lists some things that are no tools, `growing` has one tool more each time it lists them. Its tools do what they are
called; `hang` adds a line to a file and never answers, `stall` answers if it finds one there already, `progress` tells
nonsense on the way.
"""

import json
import os
import signal
import sys

MANNER = sys.argv[1] if len(sys.argv) > 1 else ""
PAGES = [
    ["add", "hang", "stall"],
    ["die", "environment", "flood", "folder"],
    ["garbage", "huge", "pids", "progress", "refuse"],
]
MALFORMED = [
    {"name": "none", "inputSchema": None},
    {"name": "list", "inputSchema": {"type": "array"}},
    {"name": "die", "inputSchema": {"type": "object", "properties": []}},
    {"name": 3, "inputSchema": {"type": "object"}},
    "no tool",
]
READS = ("add", "stall")
DEAF = ("deaf", "foreign")


def listed(name):
    schema = {"type": "object", "properties": {"file": {"type": "string"}}}
    return {"name": name, "inputSchema": schema, "annotations": {"readOnlyHint": name in READS}}


def page(params):
    number = int(params.get("cursor") or 0)
    if MANNER == "endless":
        return {"tools": [listed(f"t{number}")], "nextCursor": str(number + 1)}
    rest = {"nextCursor": str(number + 1)} if number + 1 < len(PAGES) else {}
    if MANNER == "growing" and not rest:
        PAGES[number].append(f"z{len(PAGES[number])}")
    odd = MALFORMED if MANNER == "malformed" and number == 1 else []
    return {"tools": [*odd, *(listed(name) for name in PAGES[number])], **rest}


def touch(arguments):
    with open(arguments["file"], "a", encoding="utf-8") as file:
        file.write(f"{os.getpid()}\n")


def call(name, arguments):
    match name:
        case "add":
            return str(arguments["a"] + arguments["b"])
        case "hang":
            touch(arguments)
        case "stall":
            again = os.path.exists(arguments["file"])
            touch(arguments)
            return "looked" if again else None
        case "die":
            print("I see\x1b[31m the light", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "environment":
            return json.dumps(dict(os.environ))
        case "folder":
            return os.getcwd()
        case "pids":
            return f"{os.getpid()} {os.getppid()}"
        case "garbage":
            say("{this is no JSON")
        case "progress":
            token = {"progressToken": 1, "progress": "far"}
            say(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": token}))
            return "there"
        case "huge":
            return "x" * arguments["size"]
        case "flood":
            while True:
                sys.stdout.write("x" * 65536)
    return None


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if MANNER == "foreign":
        return {"error": {"code": -32022, "message": "What did you say?"}}
    if method == "initialize":
        version = params["protocolVersion"]
        server = {"name": "plain", "version": "1"}
        return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}}
    if method == "tools/list":
        return {"result": page(params)}
    if method == "tools/call" and params["name"] != "refuse":
        text = call(params["name"], params.get("arguments") or {})
        return None if text is None else {"result": {"content": [{"type": "text", "text": text}]}}
    if method == "tools/call":
        return {"error": {"code": -32000, "message": "not\ntoday\x1b[2J"}}
    if MANNER == "old":
        sys.exit(4)
    if MANNER == "ignoring":
        return None
    return {"error": {"code": -32601, "message": "Method not found"}}


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main():
    if MANNER == "dead":
        print("no licence found", file=sys.stderr)
        sys.exit(3)
    if MANNER in DEAF:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or MANNER == "mute":
            if message.get("method") == "notifications/cancelled":
                print("asked to stop", file=sys.stderr, flush=True)
            continue
        if MANNER == "babble":
            say("Starting up... 100 %")
        said = answer(message)
        if said is not None:
            say(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}))
    print("nobody speaks any more", file=sys.stderr, flush=True)
    while MANNER in DEAF:
        signal.pause()


main()
