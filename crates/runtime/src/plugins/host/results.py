"""What is said of what a tool returned?

    {"ok": true, "parts": […], "structured", "exit", "notes"}  or  {"ok": false, "error", "traceback", "parts"}

    A part is {"type": "text", "text"}, {"type": "image", "mime", "data"} or {"type": "link", "uri", "name"}.

A tool returns a string. Of other things, those that are read easily are given with a note (numbers, and what is made
of lists and dicts, as JSON); None and bytes fail, since what was meant to be said is not in them.
"""

# What a file that is given as a part may hold.
MOST_FILE_BYTES = 24 * 1024 * 1024
MAGIC = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
)


def succeeded(parts, structured=None, exit=None, notes=()):
    return {"ok": True, "parts": parts, "structured": structured, "exit": exit, "notes": list(notes)}


def failed(error, traceback="", parts=()):
    return {"ok": False, "error": error, "traceback": traceback, "parts": list(parts)}


def text_part(text):
    return {"type": "text", "text": text}


def outcome(value):
    """Of any format's result: a string, a ToolResult, or what should have been one."""
    if isinstance(value, str):
        bounded(value)
        return succeeded([text_part(value)])
    if hasattr(value, "output") and hasattr(value, "error"):
        return of_tool_result(value)
    if value is None:
        return failed("it returned None: a tool returns a string (is a `return` missing?)")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return failed("it returned bytes: a tool returns a string (`.decode()` makes one)")
    if is_mcp_result(value):
        return of_mcp_result(value)
    text, note = as_json(value)
    return succeeded([text_part(text)], value if type(value) is dict else None, notes=[note])


def is_mcp_result(value):
    content = value.get("content") if type(value) is dict else None
    kinds = ("text", "image", "resource_link")
    return type(content) is list and content and all(type(it) is dict and it.get("type") in kinds for it in content)


def of_mcp_result(value):
    """Of what a tool of an MCP server would answer."""
    parts = []
    for it in value["content"]:
        if it["type"] == "text":
            text = str(it.get("text", ""))
            bounded(text)
            parts.append(text_part(text))
        elif it["type"] == "image":
            parts.append(image_part(it.get("data", ""), it.get("mimeType")))
        else:
            parts.append({"type": "link", "uri": str(it.get("uri", "")), "name": str(it.get("name", ""))})
    if value.get("isError"):
        texts = [it["text"] for it in parts if it["type"] == "text"]
        error = texts[0] if texts else "it says that it failed, not why"
        return failed(cut(clean(error), LONGEST_ERROR), parts=[it for it in parts if it.get("text") != error])
    structured = value.get("structuredContent")
    return succeeded(parts, structured if type(structured) is dict else None)


def outcome_of_function(value):
    """Of a function of KohakuTerrarium: any may be a tool, also one that returns nothing, or a number."""
    if value is None:
        return succeeded([])
    return outcome(str(value) if isinstance(value, (int, float)) else value)


def outcome_of_hyperagents(value):
    """HyperAgents' tools say that they failed by a string that begins so."""
    if not isinstance(value, str) or not value.startswith("Error"):
        return outcome(value)
    bounded(value)
    first, _, rest = value.partition("\n")
    if len(first) > LONGEST_ERROR:
        first, rest = cut(first, LONGEST_ERROR), value
    return failed(first, parts=[text_part(rest)] if rest.strip() else [])


def bounded(text):
    if len(text) > MOST_BYTES:
        raise Unfit("it has %d million characters; %d million is the most" % (len(text) >> 20, MOST_BYTES >> 20))


def as_json(value):
    note = "it returned %s, not a string; this is that as JSON" % kind_of(value)
    return encode(value), note


def kind_of(value):
    name = type(value).__name__
    return ("an " if name[:1] in "aeiou" else "a ") + name


def of_tool_result(value):
    """Of navi's ToolResult, of KohakuTerrarium's, and of what looks like them."""
    parts, notes = parts_of(value.output)
    metadata = getattr(value, "metadata", None)
    metadata = metadata if isinstance(metadata, dict) else {}
    if metadata.get("is_image") and metadata.get("base64"):
        parts.append(image_part(metadata["base64"], named_kind(metadata)))
    exit = getattr(value, "exit_code", None)
    exit = exit if isinstance(exit, int) else None
    if value.error:
        return dict(failed(cut(clean(str(value.error)), LONGEST_ERROR), parts=parts), exit=exit)
    if exit is None and getattr(value, "success", True) is False:
        texts = [it["text"] for it in parts if it["type"] == "text" and it["text"]]
        if len(texts) == 1 and len(texts[0]) <= LONGEST_ERROR:
            return failed(texts[0], parts=[it for it in parts if it["type"] != "text"])
        return failed("it says that it failed, not why", parts=parts)
    return succeeded(parts, exit=exit, notes=notes)


def named_kind(metadata):
    for name in ("mime", "mime_type", "media_type", "content_type"):
        if isinstance(metadata.get(name), str):
            return metadata[name]
    return None


def parts_of(output):
    """The parts of a ToolResult's output, and notes on them."""
    if isinstance(output, str):
        bounded(output)
        return [text_part(output)] if output else [], []
    if output is None:
        return [], []
    if isinstance(output, (list, tuple)) and output and all(is_part(it) for it in output):
        return [part_of(it) for it in output], []
    text, note = as_json(output)
    return [text_part(text)], [note]


def is_part(it):
    return isinstance(it, str) or field_of(it, "type") in ("text", "image_url", "file")


def field_of(it, name):
    return it.get(name) if isinstance(it, dict) else getattr(it, name, None)


def part_of(it):
    if isinstance(it, str):
        return text_part(it)
    kind = field_of(it, "type")
    if kind == "text":
        return text_part(str(field_of(it, "text")))
    if kind == "image_url":
        inner = field_of(it, "image_url") or it
        return of_url(str(field_of(inner, "url")), field_of(it, "source_name"))
    return of_file(field_of(it, "file") or it)


def of_url(url, name):
    """An image that is in the address itself, in a file, or elsewhere."""
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        if not head.endswith(";base64"):
            raise Unfit("an image's data URL is not in base64")
        return image_part(data, head[:-7] or None)
    if "://" in url and not url.startswith("file://"):
        return {"type": "link", "uri": url, "name": name or url.rpartition("/")[2] or url}
    return of_path(url[7:] if url.startswith("file://") else url, name)


def of_path(path, name, mime=None):
    """The image in a file, or a link to a file that is none."""
    path = path if path.startswith("/") else "%s/%s" % (Loaded.workspace, path)
    try:
        size = stat(path).st_size
        with open(path, "rb") as file:
            head = file.read(16)
            mime = mime_of(head) or mime
            if mime and mime.startswith("image/") and size <= MOST_FILE_BYTES:
                return {"type": "image", "mime": mime, "data": in_base64(head + file.read())}
    except OSError as error:
        raise Unfit("the file that it gives can't be read: %s" % clean(str(error))) from None
    return {"type": "link", "uri": "file://" + path, "name": name or path.rpartition("/")[2]}


def of_file(it):
    name, mime, content = field_of(it, "name"), field_of(it, "mime"), field_of(it, "content")
    data, path = field_of(it, "data_base64"), field_of(it, "path")
    if data is None and field_of(it, "encoding") == "base64":
        data, content = content, None
    if data is not None:
        kind = mime_of(from_base64(str(data)[:24])) or mime
        if kind and kind.startswith("image/"):
            return image_part(data, kind)
        if path is None:
            return text_part("(file %s, %s, %d bytes)" % (name, mime, len(data) * 3 // 4))
    if content is not None:
        return text_part(str(content))
    if path is None:
        raise Unfit("a file part has neither content nor path")
    return of_path(str(path), name, mime)


def image_part(data, mime=None):
    """An image that is given in base64, perhaps as a whole data URL."""
    if isinstance(data, (bytes, bytearray)):
        data = bytes(data).decode("ascii", "replace")
    if data.startswith("data:"):
        head, _, data = data[5:].partition(",")
        mime = mime or head.partition(";")[0]
    bounded(data)
    data = "".join(data.split())
    found = mime_of(from_base64(data[:24]))
    return {"type": "image", "mime": found or mime or "image/png", "data": data}


def mime_of(head):
    for magic, mime in MAGIC:
        if head.startswith(magic):
            return mime
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


def from_base64(text):
    from binascii import a2b_base64

    try:
        return a2b_base64(text)
    except ValueError:
        raise Unfit("an image that it gives is not base64") from None


def in_base64(data):
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode()
