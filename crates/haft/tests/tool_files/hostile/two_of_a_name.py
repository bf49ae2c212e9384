from kohakuterrarium import tool


@tool(name="two_of_a_name")
def one(x: int) -> str:
    """The first."""
    return "one"


@tool(name="two_of_a_name")
def two(x: int) -> str:
    """The second."""
    return "two"
