"""Files shown by their kind: pictures, sound, film, PDF, 3D parts, tables, notebooks, text; in the panel, and beside the call that made them."""

import base64
import json
import struct

import agents
from driver import wait_until


def shows_files_by_their_kind(stage):
    wav = b"RIFF" + struct.pack("<I", 36 + 800) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + struct.pack("<I", 800) + b"\x80" * 800
    png = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
    pdf = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj 3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj\ntrailer<</Root 1 0 R>>\n"
    book = json.dumps({"cells": [{"cell_type": "code", "execution_count": 3, "source": ["print(1)"], "outputs": [{"output_type": "stream", "text": ["one\n"]}]}]})
    faces = [(0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3)]
    corners = [(0, 0, 0), (10, 0, 0), (0, 10, 0), (0, 0, 10)]
    stl = b"\0" * 80 + struct.pack("<I", 4) + b"".join(struct.pack("<12fH", 0, 0, 0, *(x for at in face for x in corners[at]), 0) for face in faces)
    files = {"p.png": png, "s.wav": wav, "v.webm": b"\x1a\x45\xdf\xa3", "d.pdf": pdf, "box.stl": stl, "t.csv": b"name,count\n\"a, b\",3\n", "n.ipynb": book.encode(), "deep/t.txt": b"words\n"}
    server = stage.server("kinds", [{"say": "Hello."}], {"deep/none": ""})
    for name, body in files.items():
        (server.folder / name).write_bytes(body)
    it = stage.page(server)
    it.sign_in()
    it.new_session("Hello.")
    it.wait_for_end()
    it.page.get_by_role("button", name="Panel: changes, files, jobs").click()
    it.page.get_by_role("tab", name="Files").click()
    panel = it.page.locator(".panel")
    wanted = {
        "p.png": "img[alt='p.png']", "s.wav": "audio[controls]", "v.webm": "video[controls]", "d.pdf": "iframe[title='d.pdf']", "box.stl": "canvas[aria-label*='4 triangles']",
        "t.csv": "table.csv td:text-is('a, b')", "n.ipynb": ".notebook .cell.code .output:text('one')", "t.txt": "pre.source .src-line:has-text('words')",
    }
    for name, selector in wanted.items():
        if name == "t.txt":
            panel.get_by_role("button", name="deep").click()
        panel.locator(".tree .row-button", has_text=name).click()
        panel.locator(selector).first.wait_for()
        if name == "p.png":
            wait_until("the picture is drawn", lambda: panel.locator("img").evaluate("(it) => it.naturalWidth") == 1)
        if name == "box.stl":
            drawn = "(it) => { const gl = it.getContext('webgl2'), some = new Uint8Array(4); return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(it.width > 100)))); }"
            assert panel.locator("canvas").evaluate(drawn)
        panel.get_by_role("button", name="Files", exact=True).click()
    # The browser's own viewer of PDF loads its own files.
    foreign = [one for one in it.foreign if not one.startswith("chrome")]
    assert not it.errors and not foreign, (it.errors, foreign)


def shows_what_a_call_made_beside_the_call(stage):
    corners = [(0, 0, 0), (10, 0, 0), (0, 10, 0), (0, 0, 10)]
    facet = lambda face: "facet normal 0 0 0\nouter loop\n" + "".join(f"vertex {x} {y} {z}\n" for x, y, z in (corners[at] for at in face)) + "endloop\nendfacet\n"
    part = "solid box\n" + "".join(facet(it) for it in ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))) + "endsolid box\n"
    book = json.dumps({"cells": [{"cell_type": "code", "execution_count": 3, "source": ["print(1)"], "outputs": [{"output_type": "stream", "text": ["one\n"]}], "metadata": {}}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    files = {"box.stl": part, "t.csv": "name,count\n\"a, b\",3\n", "n.ipynb": book}
    script = [{"calls": [agents.call("write", path=name, content=text)]} for name, text in files.items()]
    server = stage.server("made", [*script, {"say": "Done."}])
    it = stage.page(server)
    it.sign_in()
    it.new_session("Make them.")
    it.wait_for_end()
    wanted = {"box.stl": "canvas[aria-label*='4 triangles']", "t.csv": "table.csv td:text-is('a, b')", "n.ipynb": ".notebook .cell.code .output:text('one')"}
    for name, selector in wanted.items():
        card = it.page.locator(".entry.call", has_text=name).first
        card.scroll_into_view_if_needed()
        card.locator(f".previews {selector}").wait_for()
    canvas = it.page.locator(".entry.call canvas")
    canvas.scroll_into_view_if_needed()
    picture = lambda: canvas.screenshot()
    before = picture()
    canvas.focus()
    for _ in range(8):
        it.page.keyboard.press("ArrowLeft")
    wait_until("the part turns", lambda: picture() != before)
    it.check_clean()


PARTS = [shows_files_by_their_kind, shows_what_a_call_made_beside_the_call]
