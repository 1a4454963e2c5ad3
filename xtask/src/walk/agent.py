"""An agent with ACP: answers, and asks for permission to edit if the prompt begins with 'Edit'."""
import json
import sys


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(event, **fields):
    fields["sessionUpdate"] = event
    send(method="session/update", params={"sessionId": "s", "update": fields})


def text(words):
    update("agent_message_chunk", content={"type": "text", "text": words})


def tool(**fields):
    return {"toolCallId": "call-1", "title": "Edit notes.md", "kind": "edit",
            "locations": [{"path": "/home/me/project/notes.md"}], **fields}


def prompt(words):
    if not words.startswith("Edit"):
        text("First I look around.")
        update("tool_call", **tool(title="Read agent.py", kind="read", status="completed"))
        text("It has one file.")
        return "end_turn"
    text("I edit the notes.")
    update("tool_call", **tool(status="pending"))
    options = [{"optionId": "yes", "name": "Allow", "kind": "allow_once"},
               {"optionId": "no", "name": "Reject", "kind": "reject_once"}]
    send(id=1, method="session/request_permission",
         params={"sessionId": "s", "toolCall": tool(), "options": options})
    answer = json.loads(sys.stdin.readline())["result"]["outcome"]
    if answer.get("optionId") != "yes":
        update("tool_call_update", toolCallId="call-1", status="failed")
        return "cancelled"
    update("tool_call_update", toolCallId="call-1", status="completed")
    text("Done.")
    return "end_turn"


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params", {})
    results = {"initialize": lambda: {"protocolVersion": 1, "agentCapabilities": {}},
               "session/new": lambda: {"sessionId": "s"},
               "session/prompt": lambda: {"stopReason": prompt(params["prompt"][0]["text"])}}
    if method in results:
        send(id=message["id"], result=results[method]())
