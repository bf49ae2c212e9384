import base64
import zlib
import struct

from navi.tools.base import Tool, ToolResult, current_event_sink, current_session_id


class _Named(Tool):
    """What the tools of this file have in common."""

    parameters = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class SwatchTool(_Named):
    name = "swatch"
    description = "Shows a color as an image of one pixel."

    async def execute(self, params: dict) -> ToolResult:
        color = params["color"]
        if len(color) != 6:
            return ToolResult(success=False, output=f"got {color!r}", error="a color is six hex digits")
        pixel = b"\0" + bytes.fromhex(color)
        png = (
            b"\x89PNG\r\n\x1a\n"
            + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
            + _chunk(b"IDAT", zlib.compress(pixel))
            + _chunk(b"IEND", b"")
        )
        return ToolResult(
            success=True,
            output=f"#{color}",
            metadata={"is_image": True, "base64": base64.b64encode(png).decode()},
        )


class SessionTool(_Named):
    name = "session_name"
    description = "Says in which session it is called."

    async def execute(self, params: dict) -> ToolResult:
        await current_event_sink.get().put({"type": "status", "message": "looking"})
        return ToolResult(success=True, output=str(current_session_id.get()))
