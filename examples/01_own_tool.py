"""A tool with receipts: its effect happens once, although the process is killed before the result is written.

The effect and its receipt are one row of one database, under the key of the tool call, which is the same for every
attempt. After the crash the tool is asked what it did, instead of being run again.

    python 01_own_tool.py
"""

import os
import signal
import sqlite3
import subprocess
import sys
from typing import Literal

from wakelog import Agent, Session, ToolInvocation, ToolOutcome, open_store, tool

bank = sqlite3.connect("bank.db", check_same_thread=False, isolation_level=None)  # a tool runs in a thread
bank.execute("CREATE TABLE IF NOT EXISTS charges (reply, call, customer, cents, PRIMARY KEY (reply, call))")
will_be_killed = "--killed" in sys.argv


@tool(replay="receipt")
def charge(customer: str, cents: int, call: ToolInvocation) -> str:
    """Charges a customer."""
    bank.execute("INSERT INTO charges VALUES (?, ?, ?, ?)", (call.reply_id, call.tool_call_id, customer, cents))
    if will_be_killed:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"charged {customer} {cents} cents"


@charge.receipt
def charged(call: ToolInvocation) -> ToolOutcome | Literal["not begun"]:
    key = (call.reply_id, call.tool_call_id)
    row = bank.execute("SELECT customer, cents FROM charges WHERE reply = ? AND call = ?", key).fetchone()
    return ToolOutcome(f"charged {row[0]} {row[1]} cents") if row else "not begun"


store = open_store("sessions")
agent = Agent("demo", tools=[charge])  # a real model, with its key in the environment: Agent("anthropic:NAME", …)

if will_be_killed:
    agent.run_sync(store, 'use charge with {"customer": "Ada", "cents": 500}')
else:
    first = subprocess.run([sys.executable, __file__, "--killed"], check=False)
    print("the first process was killed:", first.returncode == -signal.SIGKILL)
    session = Session.open(store, agent=agent.name)  # the latest session of this agent and the sender "user"
    print("the second process continued its session:", agent.run_sync(store, session=session).text)
    print("charges in the bank:", bank.execute("SELECT count(*) FROM charges").fetchone()[0])
bank.close()
