"""A tool of your own that is never done twice: the effect and its receipt are one row of one database.

A process is killed right behind the effect, before anybody could note the result. Whoever wakes the session asks the
tool what became of the call, by a key that is the same at every attempt, and the customer is charged once.

    python 01_own_tool.py
"""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys

from wakelog import Agent, LiveRuntime, latest, open_store, tool, wake
from wakelog.ports.runtime import ReceiptAnswer, ToolInvocation, ToolOutcome

bank = sqlite3.connect("bank.db", check_same_thread=False, isolation_level=None)  # a tool runs in a thread
bank.execute("CREATE TABLE IF NOT EXISTS charges (reply, call, customer, cents, PRIMARY KEY (reply, call))")
is_doomed = "--doomed" in sys.argv


@tool(replay="receipt")
def charge(customer: str, cents: int, call: ToolInvocation) -> str:
    """Charges a customer."""
    bank.execute("INSERT INTO charges VALUES (?, ?, ?, ?)", (call.reply_id, call.tool_call_id, customer, cents))
    if is_doomed:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"charged {customer} {cents} cents"


@charge.receipt
def charged(call: ToolInvocation) -> ReceiptAnswer:
    key = (call.reply_id, call.tool_call_id)
    row = bank.execute("SELECT customer, cents FROM charges WHERE reply = ? AND call = ?", key).fetchone()
    return ToolOutcome(f"charged {row[0]} {row[1]} cents") if row else "not begun"


store = open_store("sessions")
agent = Agent(model="demo", tools=(charge,))  # a real one, with its key in the environment: model="anthropic:NAME"

if is_doomed:
    asyncio.run(agent.run(store, 'use charge with {"customer": "Ada", "cents": 500}'))
else:
    first = subprocess.run([sys.executable, __file__, "--doomed"], check=False)
    print("the first process was killed:", first.returncode == -signal.SIGKILL)
    left = latest(store, agent.name, "user")  # `wakelog wake --all` would find it too, but not know the tool
    assert left is not None
    report = asyncio.run(wake(LiveRuntime(store, tools=agent.tools), left))
    print("the second one woke its session:", report.text)
    print("charges in the bank:", bank.execute("SELECT count(*) FROM charges").fetchone()[0])
bank.close()
