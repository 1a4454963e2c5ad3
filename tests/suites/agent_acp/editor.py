"""An editor built with the package `agent-client-protocol`: starts an agent, runs one prompt, allows every
permission request, and prints what it received as JSON."""

import asyncio
import json
import os
import sys

import acp
from acp import schema


class Editor:
    """Requests of an agent to its editor."""

    def __init__(self):
        self.text = ""
        self.updates = []
        self.asked = 0

    def on_connect(self, conn):
        pass

    async def session_update(self, session_id, update, **kwargs):
        self.updates.append(update.session_update)
        if isinstance(update, schema.AgentMessageChunk):
            self.text += getattr(update.content, "text", "")

    async def request_permission(self, session_id, tool_call, options, **kwargs):
        self.asked += 1
        option = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)


async def main(folder, program, *args):
    editor = Editor()
    # By default the package passes hardly any environment variables.
    env = dict(os.environ)
    # Its default limit on lines is 64 KiB; qwen writes one of half a megabyte. By default it kills the
    # agent after four seconds, which is too short for a busy machine.
    pipes = {"limit": 32 * 1024 * 1024, "shutdown_timeout": 60.0}
    started = acp.spawn_agent_process(editor, program, *args, env=env, transport_kwargs=pipes)
    async with started as (agent, process):
        info = schema.Implementation(name="editor.py", version="1")
        told = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_info=info)
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        prompt = [acp.text_block("Please do as the script says.")]
        end = await agent.prompt(session_id=session.session_id, prompt=prompt)
    seen = {
        "version": told.protocol_version,
        "text": editor.text,
        "asked": editor.asked,
        "updates": sorted(set(editor.updates)),
        "stop_reason": end.stop_reason,
        "exit_code": await process.wait(),
    }
    print(json.dumps(seen))


asyncio.run(main(*sys.argv[1:]))
