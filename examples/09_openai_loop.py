"""The same loop with the OpenAI SDK and the Responses API; nothing is stored on the server (`store=False`).

Encrypted reasoning is kept in the log and sent back as it came. Kill this program at any point and start it again.

    OPENAI_API_KEY=... python 09_openai_loop.py
"""

import openai

from wakelog import Session, open_store

MODEL = "gpt-5"
ACCOUNT: dict[str, object] = {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]}
EUROS: dict[str, object] = {"type": "object", "properties": {"euros": {"type": "integer"}}, "required": ["euros"]}
TOOLS: list[openai.types.responses.FunctionToolParam] = [
    {"type": "function", "name": "balance", "parameters": ACCOUNT, "strict": False},
    {"type": "function", "name": "pay", "parameters": EUROS, "strict": False},
]


def balance(account: str) -> str:
    return f"{account} has 100 euros"


def pay(euros: int) -> str:
    with open("payments.txt", "a") as file:
        file.write(f"{euros}\n")
    return f"paid {euros} euros"


def answer(session: Session, client: openai.OpenAI) -> str:
    """Call the model until it has nothing more to run; return its last words."""
    while True:
        messages = session.to_openai_responses(model=MODEL)
        include: list[openai.types.responses.ResponseIncludable] = ["reasoning.encrypted_content"]
        response = client.responses.create(model=MODEL, store=False, include=include, tools=TOOLS, input=messages)
        reply = session.assistant(response)
        if not reply.tool_calls:
            return reply.text
        for call in reply.tool_calls:
            with session.tool(call, replay="safe" if call.name == "balance" else "never") as run:
                run.result = balance(**call.input) if call.name == "balance" else pay(**call.input)


def main() -> None:
    store = open_store("sessions")
    with Session.open(store, agent="clerk", sender="ada") as session, openai.OpenAI() as client:
        for result in session.recover().tool_results:
            print(f"after a crash: {result.tool_name} is {result.status}")
        if not session.needs_reply:
            session.user("Pay the invoice of 30 euros if the account has enough.")
        print(answer(session, client))


if __name__ == "__main__":
    main()
