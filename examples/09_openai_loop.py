"""The same loop with the OpenAI SDK and the Responses API; nothing is stored on the server (`store=False`).

Encrypted reasoning is kept in the log and sent back as it came. Kill this program at any point and start it again.
"""

import os

import openai

from wakelog import Session, open_store

MODEL = "gpt-5"
TOOLS: list[openai.types.responses.ToolParam] = [
    {
        "type": "function",
        "name": "balance",
        "description": "Returns the balance of an account in euros.",
        "parameters": {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]},
        "strict": False,
    },
    {
        "type": "function",
        "name": "pay",
        "description": "Pays an invoice.",
        "parameters": {"type": "object", "properties": {"euros": {"type": "integer"}}, "required": ["euros"]},
        "strict": False,
    },
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
        response = client.responses.create(
            model=MODEL,
            store=False,
            include=["reasoning.encrypted_content"],
            tools=TOOLS,
            input=session.to_openai_responses(model=MODEL),
        )
        reply = session.assistant(response)
        if not reply.tool_calls:
            return reply.text
        for call in reply.tool_calls:
            with session.tool(call, replay="safe" if call.name == "balance" else "never") as run:
                run.result = balance(**call.input) if call.name == "balance" else pay(**call.input)


def main() -> None:
    store = open_store("sessions")
    with Session.open(store, agent="clerk", sender="ada") as session:
        recovered = session.recover()
        for result in recovered.tool_results:
            print(f"after a crash: {result.tool_name} is {result.status}")
        if not session.needs_reply:
            session.user("Pay the invoice of 30 euros if the account has enough.")
        client = openai.OpenAI(api_key=os.environ.get("OPENAI_API_KEY", "none"))
        print(answer(session, client))


if __name__ == "__main__":
    main()
