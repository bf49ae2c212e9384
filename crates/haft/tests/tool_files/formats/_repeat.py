"""Not a tool: what the others here use."""


def repeated(text, times):
    return " ".join([text] * times)
