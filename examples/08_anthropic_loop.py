"""An agent loop of your own with the Anthropic SDK. Kill this program at any point and start it again: it goes on.

The loop is ordinary code. Four calls make it durable: `recover`, `user`, `assistant` and `tool`. `pay` must not happen
twice: after a crash in the middle of it the model is told that it was interrupted, and nothing is paid again.

    ANTHROPIC_API_KEY=... python 08_anthropic_loop.py
"""

import anthropic

from wakelog import Session, open_store

MODEL = "claude-sonnet-5"
ACCOUNT: dict[str, object] = {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]}
EUROS: dict[str, object] = {"type": "object", "properties": {"euros": {"type": "integer"}}, "required": ["euros"]}
TOOLS: list[anthropic.types.ToolParam] = [
    {"name": "balance", "description": "Returns the balance of an account.", "input_schema": ACCOUNT},
    {"name": "pay", "description": "Pays an invoice.", "input_schema": EUROS},
]


def balance(account: str) -> str:
    return f"{account} has 100 euros"


def pay(euros: int) -> str:
    with open("payments.txt", "a") as file:
        file.write(f"{euros}\n")
    return f"paid {euros} euros"


def answer(session: Session, client: anthropic.Anthropic) -> str:
    """Call the model until it has nothing more to run; return its last words."""
    while True:
        response = client.messages.create(
            model=MODEL, max_tokens=1024, tools=TOOLS, messages=session.to_anthropic(model=MODEL)
        )
        reply = session.assistant(response)
        if not reply.tool_calls:
            return reply.text
        for call in reply.tool_calls:
            with session.tool(call, replay="safe" if call.name == "balance" else "never") as run:
                run.result = balance(**call.input) if call.name == "balance" else pay(**call.input)


def main() -> None:
    store = open_store("sessions")
    with Session.open(store, agent="clerk", sender="ada") as session, anthropic.Anthropic() as client:
        for result in session.recover().tool_results:
            print(f"after a crash: {result.tool_name} is {result.status}")
        if not session.needs_reply:
            session.user("Pay the invoice of 30 euros if the account has enough.")
        print(answer(session, client))


if __name__ == "__main__":
    main()
