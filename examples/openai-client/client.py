"""OpenAI's client as a face of haft: each check is one promise of docs/serve.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import openai

TOKEN = "token-of-the-client-0123456789"


def serve(haft, room):
    """Starts haft with a model that reads its answers from a script. Returns the process and its base address."""
    script = [
        {"say": "Hello, one."},
        {"say": "Word by word it comes.", "chunks": 5, "chunk_ms": 20},
        {"calls": [{"tool": "read", "arguments": {"path": "a.txt"}}]},
        {"expect": ["forty-two"], "say": "The file says forty-two."},
        {"say": "Second.", "chunks": 3, "chunk_ms": 20},
    ]
    (room / "script").write_text("".join(f"{json.dumps(it)}\n" for it in script))
    (room / "ws" / "a.txt").write_text("forty-two\n")
    tokens = room / "tokens"
    tokens.write_text(f"client say {TOKEN}\n")
    tokens.chmod(0o600)
    words = [haft, "--dir", room / "ws", "serve", "--addr", "127.0.0.1:0", "--tokens", tokens, "--model", f"script:{room}/script"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if found := re.search(r"(http://[^/]+)/#code=", line):
            return process, f"{found[1]}/v1"
    raise SystemExit("haft serve printed no address")


def check(client, base):
    assert "haft" in [it.id for it in client.models.list()]
    # One conversation of chat completions is one session; each script line is used once.
    talk = [{"role": "user", "content": "Hello."}]
    answer = client.chat.completions.create(model="haft", messages=talk)
    assert answer.choices[0].message.content == "Hello, one." and answer.choices[0].finish_reason == "stop", answer
    assert answer.usage.total_tokens > 0, answer
    talk += [{"role": "assistant", "content": "Hello, one."}, {"role": "user", "content": "Stream."}]
    pieces = [it.choices[0].delta.content or "" for it in client.chat.completions.create(model="haft", messages=talk, stream=True) if it.choices]
    assert "".join(pieces) == "Word by word it comes." and len([it for it in pieces if it]) > 1, pieces
    talk += [{"role": "assistant", "content": "".join(pieces)}, {"role": "user", "content": "Read a.txt."}]
    answer = client.chat.completions.create(model="haft", messages=talk)
    assert answer.choices[0].message.content == "The file says forty-two.", "haft's tools ran on haft's side"
    # Responses go on from the one that they name.
    first = client.responses.create(model="haft", input="First.")
    assert first.output_text == "Hello, one." and first.status == "completed", first
    text, last = "", None
    for event in client.responses.create(model="haft", input="Go on.", previous_response_id=first.id, stream=True):
        if event.type == "response.output_text.delta":
            text += event.delta
        last = event
    assert text == "Word by word it comes." and last.type == "response.completed", (text, last)
    # The model alone, for titles and the like.
    title = client.chat.completions.create(model="haft-text", messages=[{"role": "user", "content": "### Task: give a title."}])
    assert title.choices[0].message.content == "Hello, one.", title
    # Errors are those that the client knows.
    try:
        client.chat.completions.create(model="nothing", messages=talk)
        raise AssertionError("an unknown model was taken")
    except openai.NotFoundError as error:
        assert "nothing" in str(error), error
    try:
        openai.OpenAI(base_url=base, api_key="token-of-nobody-0123456789", max_retries=0).models.list()
        raise AssertionError("a wrong token was taken")
    except openai.AuthenticationError:
        pass


def main():
    process, base = serve(sys.argv[1], Path(sys.argv[2]))
    try:
        check(openai.OpenAI(base_url=base, api_key=TOKEN, max_retries=0, timeout=60), base)
    finally:
        process.terminate()
        process.wait(20)
    print(f"openai {openai.__version__}: models, chat completions and responses work, whole and streamed", flush=True)


if __name__ == "__main__":
    os.environ.pop("OPENAI_BASE_URL", None)
    main()
