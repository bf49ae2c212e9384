"""What is the JSON schema of a Python function's arguments?

Of its signature, the hints of types in it, and what its docstring says of each argument.
"""


def signature_schema(function, signature, doc):
    """The JSON schema of a function's arguments."""
    import typing

    try:
        hints = typing.get_type_hints(function, **({"include_extras": True} if sys.version_info >= (3, 9) else {}))
    except Exception:
        # A hint that is a name which means nothing when it is looked up.
        hints = getattr(function, "__annotations__", {})
    said = documented_arguments(doc)
    properties, required, others = {}, [], False
    for name, it in signature.parameters.items():
        if it.kind is it.VAR_KEYWORD:
            others = True
        if name == "context" or it.kind in (it.VAR_KEYWORD, it.VAR_POSITIONAL):
            continue
        schema = hint_schema(hints.get(name, str))
        if name in said:
            schema.setdefault("description", said[name])
        if it.default is it.empty:
            required.append(name)
        elif isinstance(it.default, (str, int, float, bool, list, dict)):
            schema["default"] = it.default
        properties[name] = schema
    whole = {"type": "object", "properties": properties, "required": required}
    return dict(whole, additionalProperties=True) if others else whole


PLAIN_HINTS = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
    dict: {"type": "object"},
    type(None): {"type": "null"},
}


def hint_schema(hint):
    """The schema of a type hint; one that says nothing we know is a string, as in the original."""
    import typing

    if hint is typing.Any or hint is object:
        return {}
    if hint in PLAIN_HINTS:
        return dict(PLAIN_HINTS[hint])
    origin, inner = getattr(hint, "__origin__", None), getattr(hint, "__args__", ())
    if hasattr(hint, "__metadata__"):
        schema = hint_schema(origin)
        texts = [it for it in hint.__metadata__ if isinstance(it, str)]
        return dict(schema, description=texts[0]) if texts else schema
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        rest = [it for it in inner if it is not type(None)]
        return hint_schema(rest[0]) if len(rest) == 1 else {"anyOf": [hint_schema(it) for it in rest]}
    if str(origin).endswith("Literal"):
        kinds = {type(it) for it in inner}
        plain = dict(PLAIN_HINTS.get(kinds.pop(), {})) if len(kinds) == 1 else {}
        return dict(plain, enum=list(inner))
    if isinstance(origin, type) and issubclass(origin, dict):
        return {"type": "object"}
    if isinstance(origin, type) and issubclass(origin, (list, tuple, set, frozenset)) or origin in abstract_lists():
        one = inner and not isinstance(inner[0], typing.TypeVar)
        return {"type": "array", "items": hint_schema(inner[0])} if one else {"type": "array"}
    if hasattr(hint, "__members__"):
        return {"enum": [it.value for it in hint]}
    return {"type": "string"}


def abstract_lists():
    import collections.abc as abc

    return (abc.Sequence, abc.Iterable, abc.Collection, abc.Set, abc.MutableSequence)


def documented_arguments(doc):
    """What a docstring says of each argument: `name: …` below `Args:`, or `:param name: …`."""
    said, below = {}, False
    for line in doc.splitlines():
        text = line.strip()
        if text.startswith(":param "):
            name, _, rest = text[7:].partition(":")
            said[name.split()[-1] if name.split() else ""] = rest.strip()
        elif text in ("Args:", "Arguments:", "Parameters:"):
            below = True
        elif text and not line[:1].isspace():
            below = False
        elif below and ":" in text:
            name, _, rest = text.partition(":")
            said[name.partition("(")[0].strip().lstrip("*")] = rest.strip()
    return said
