from __future__ import annotations

import asyncio
import time
from typing import Annotated, List, Literal, Optional

import kohakuterrarium as kt
from kohakuterrarium.modules.tool.function import tool


@kt.tool
def add_numbers(a: int, b: int = 2) -> int:
    """Add two integers.

    Args:
        a: The first.
        b: The second.
    """
    time.sleep(0)
    return a + b


@tool(name="shout")
async def async_shout(
    text: str,
    words: Optional[List[str]] = None,
    how: Literal["loud", "louder"] = "loud",
    times: Annotated[int, "How often."] = 1,
    context=None,
) -> str:
    """Uppercase the text."""
    await asyncio.sleep(0)
    assert context.working_dir.is_absolute()
    return " ".join([text.upper() + ("!" if how == "louder" else "")] * times)
