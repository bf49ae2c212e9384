"""Validates every line that an ACP agent wrote against the protocol's JSON Schema.

    validate.py SCHEMA LOG...

A log has one message per line. The schema is `schema.unstable.json` of the npm package @agentclientprotocol/sdk: it has
`session/fork`, which `schema.json` lacks.
"""

import json
import sys

import jsonschema


def validators(schema):
    """By method: the definition of its params, and that of its result."""
    params, results = {}, {}
    for name, definition in schema["$defs"].items():
        method = definition.get("x-method")
        if not method:
            continue
        if name.endswith("Response"):
            results[method] = name
        else:
            params[method] = name

    def validator(name):
        return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]})

    return (
        {method: validator(name) for method, name in params.items()},
        {method: validator(name) for method, name in results.items()},
        validator("Error"),
    )


def check(schema, lines, asked=None):
    """What is wrong with these lines of an agent; `asked` maps the ids of requests to it to their methods."""
    params, results, error = validators(schema)
    wrong = []
    for number, line in enumerate(lines, 1):
        def fails(why):
            wrong.append(f"line {number}: {why}: {line[:300]!r}")

        try:
            message = json.loads(line)
        except ValueError as why:
            fails(f"not JSON: {why}")
            continue
        if message.get("jsonrpc") != "2.0":
            fails("`jsonrpc` is not 2.0")
        if "method" in message:
            validator = params.get(message["method"])
            if validator is None:
                fails(f"no method `{message['method']}` in the schema")
                continue
            problems = list(validator.iter_errors(message.get("params")))
        elif "error" in message:
            problems = list(error.iter_errors(message["error"]))
        else:
            method = (asked or {}).get(json.dumps(message.get("id")))
            if method is None:
                continue
            problems = list(results[method].iter_errors(message.get("result")))
        wrong.extend(
            f"line {number}: {'/'.join(map(str, it.absolute_path))}: {it.message[:300]}" for it in problems[:3]
        )
    return wrong


def main():
    schema = json.load(open(sys.argv[1]))
    failed = False
    for path in sys.argv[2:]:
        lines, asked = [], {}
        # `tee.py` marks lines to the agent with `>` and from it with `<`.
        for line in open(path, "rb"):
            if line.startswith(b">"):
                try:
                    message = json.loads(line[1:])
                except ValueError:
                    continue
                if isinstance(message, dict) and "method" in message and "id" in message:
                    asked[json.dumps(message["id"])] = message["method"]
            else:
                lines.append(line.lstrip(b"<"))
        wrong = check(schema, lines, asked)
        print(f"{path}: {len(lines)} lines of the agent, {len(wrong)} wrong")
        for it in wrong[:20]:
            print("  ", it)
        failed |= bool(wrong) or not lines
    sys.exit(failed)


if __name__ == "__main__":
    main()
