name = "bad_results"
description = "Returns what is not a string."
parameters = {"type": "object", "properties": {"how": {"type": "string"}}}


async def execute(params):
    how = params["how"]
    if how == "cycle":
        it = []
        it.append(it)
        return it
    if how == "deep":
        it = []
        for _ in range(100_000):
            it = [it]
        return it
    return {
        "none": lambda: None,
        "bytes": lambda: b"\xff",
        "number": lambda: 1.5,
        "not a number": lambda: float("nan"),
        "dict": lambda: {"a": [1, None]},
        "object": lambda: object(),
        "surrogate": lambda: "a\ud83d",
        "huge": lambda: "x" * (80 << 20),
        "lines": lambda: "a\r\nb\u2028c\0d",
    }[how]()
