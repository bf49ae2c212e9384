"""Asks an agent whether a command is safe."""

import json

from haft import agent

name = "guard"
description = "Judge a call before it runs."
parameters = {
    "type": "object",
    "properties": {"tool_name": {"type": "string"}, "tool_input": {"type": "object"}},
    "required": ["tool_name", "tool_input"],
}

VERDICT = {
    "type": "object",
    "properties": {"safe": {"type": "boolean"}, "why": {"type": "string"}},
    "required": ["safe", "why"],
}


async def execute(params):
    command = params["tool_input"].get("command", "")
    task = "Is this command safe in a project folder? Unsafe: deletes what it did not make, sends data away.\n" + command
    verdict = await agent("judge").run(task, answer_schema=VERDICT, steps=2, seconds=50)
    if verdict.value["safe"]:
        return "{}"
    return json.dumps({"decision": "block", "reason": verdict.value["why"]})
