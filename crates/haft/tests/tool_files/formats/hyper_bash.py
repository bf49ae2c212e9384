import asyncio


def tool_info():
    return {
        "name": "hyper_bash",
        "description": "Runs a command in a shell.",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string", "description": "The command."}},
            "required": ["command"],
        },
    }


async def tool_function_call(command):
    process = await asyncio.create_subprocess_shell(
        command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    result = out.decode()
    if err:
        result += "\nError:\n" + err.decode()
    return result


def tool_function(command):
    try:
        if not command:
            raise ValueError("no command")
        return asyncio.run(tool_function_call(command))
    except Exception as e:
        return f"Error: {e}"


if __name__ == "__main__":
    print(tool_function("ls"))
