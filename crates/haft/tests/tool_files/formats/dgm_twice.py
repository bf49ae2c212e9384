from tools._repeat import repeated


def tool_info():
    return {
        "name": "dgm_twice",
        "description": "Says a text twice.",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    }


def tool_function(text):
    return repeated(text, 2)
