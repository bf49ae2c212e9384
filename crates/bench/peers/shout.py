name = "shout"
description = "Say a text louder. Use it when somebody does not hear."
parameters = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "What to say"}},
    "required": ["text"],
}

async def execute(params: dict) -> str:
    return params["text"].upper() + "!"
