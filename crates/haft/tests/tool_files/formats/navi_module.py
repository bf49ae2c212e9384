import json, os

name = "navi_module"
description = (
    "Save and retrieve short text notes by key. "
    "Actions: save (store a note), get (retrieve by key), list (show all keys)."
)
parameters = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": ["save", "get", "list"]},
        "key": {"type": "string", "description": "Note identifier"},
        "value": {"type": "string", "description": "Note content (for save)"},
    },
    "required": ["action"],
}

_FILE = os.path.join(os.path.dirname(__file__), "navi_module_data.json")


async def execute(params: dict) -> str:
    action = params["action"]
    data = json.loads(open(_FILE).read()) if os.path.exists(_FILE) else {}

    if action == "save":
        data[params["key"]] = params["value"]
        open(_FILE, "w").write(json.dumps(data, ensure_ascii=False, indent=2))
        return f"Saved: {params['key']}"

    if action == "get":
        key = params["key"]
        if key not in data:
            raise KeyError(f"Note '{key}' not found. Use action=list to see all keys.")
        return data[key]

    if action == "list":
        if not data:
            return "No notes saved yet."
        return "Saved notes: " + ", ".join(data.keys())

    raise ValueError(f"Unknown action: {action}")
