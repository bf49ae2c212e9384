"""How is a failure of a tool's code told?

As `{"error": …, "traceback": …}`: what Python would print last, and what it would print in all, without the frames
that are ours and without the middle of a very long one.
"""

OURS = "<haft>"
# Of a traceback, in lines at each end; of a line and of an error, in characters.
ENDS = 30
LONGEST_LINE = 600
# As many frames are shown, whosesoever they are.
FEW = 6
LONGEST_ERROR = 4000


class Broken(Exception):
    """A file that can't be read as a tool, with a sentence that says why."""


def told(error):
    """What is said of an exception."""
    if isinstance(error, (Broken, Unfit)):
        return {"error": cut(readable(error), LONGEST_ERROR), "traceback": ""}
    return {"error": in_short(error), "traceback": at_length(error)}


def in_short(error):
    """`ValueError: what it says`, with what a person may not know of it."""
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__ not in ("builtins", "__main__", Loaded.name):
        name = "%s.%s" % (kind.__module__, name)
    text = readable(error)
    text = "%s: %s" % (name, text) if text else name
    if isinstance(error, SystemExit):
        text += " (it asked Python to exit; a tool returns a string, or raises an exception)"
    return cut(text, LONGEST_ERROR)


def readable(error):
    try:
        return clean(str(error))
    except BaseException:
        return "(and what it says can't be shown)"


def at_length(error):
    """The traceback as Python prints it."""
    try:
        # Only here: most calls need none of it, and it takes a while to import.
        import traceback

        seed_lines()
        whole = traceback.TracebackException(type(error), error, error.__traceback__)
        left_out = others_out(whole, set())
        lines = clean("".join(whole.format() if whole.stack else whole.format_exception_only())).splitlines()
        if left_out:
            lines.append("(%d calls within libraries left out)" % left_out)
        return shortened(lines)
    except BaseException:
        return ""


def others_out(it, seen):
    """Takes our frames out of an exception's stack and out of those of its causes, and most of those of libraries.

    Returns how many of the latter.
    """
    if it is None or id(it) in seen:
        return 0
    seen.add(id(it))
    it.stack[:] = [frame for frame in it.stack if frame.filename != OURS and "importlib._" not in frame.filename]
    left_out = 0
    if len(it.stack) > FEW:
        last = len(it.stack) - 1
        # Where the tool called out, and where it ended, is what helps.
        kept = [frame for at, frame in enumerate(it.stack) if at == last or is_own(frame.filename)]
        left_out = len(it.stack) - len(kept)
        it.stack[:] = kept
    inner = [it.__cause__, it.__context__] + (getattr(it, "exceptions", None) or [])
    return left_out + sum(others_out(each, seen) for each in inner)


def is_own(file):
    return file.startswith((Loaded.folder + "/", Loaded.workspace + "/")) and "/site-packages/" not in file


def shortened(lines):
    if len(lines) > 2 * ENDS:
        left_out = len(lines) - 2 * ENDS
        lines = lines[:ENDS] + ["  (%d lines left out)" % left_out] + lines[-ENDS:]
    return "\n".join(cut(line, LONGEST_LINE) for line in lines)


def cut(text, most):
    if len(text) <= most:
        return text
    half = most // 2
    return "%s (%d characters left out) %s" % (text[:half], len(text) - 2 * half, text[-half:])


def clean(text):
    """What is left of any string when what is not text in it is replaced."""
    return text.encode("utf-8", "backslashreplace").decode()
