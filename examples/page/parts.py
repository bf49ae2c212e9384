"""Parts of a check: each is a function whose name is the promise that it shows."""

import sys
import time
import traceback


def play(parts, wanted, begin, end, failed=lambda part: None):
    """Begins each part whose name has one of the wanted words, ends it, and prints how it went. Returns the exit code."""
    failures = 0
    for part in parts:
        if wanted and not any(it in part.__name__ for it in wanted):
            continue
        began = time.monotonic()
        try:
            begin(part)
            said = "passed"
        except Exception as error:  # A part that fails does not hide the others.
            failures += 1
            said = f"FAILED: {error}"
            traceback.print_exc(limit=-2, file=sys.stderr)
            failed(part)
        finally:
            end()
        print(f"{part.__name__.replace('_', ' ')}: {said} ({time.monotonic() - began:.1f} s)", flush=True)
    return 1 if failures else 0
