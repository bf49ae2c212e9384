from agent.tools.hyper_bash import tool_function as bash


def tool_info():
    return {
        "name": "hyper_lines",
        "description": "Counts the lines that a command prints.",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    }


def tool_function(command: str) -> str:
    return str(len(bash(command).splitlines()))
