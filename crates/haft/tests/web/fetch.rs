//! `web_fetch`: pages as a reader would have them.

use serde_json::json;

use super::{
    Site,
    site::{Answer, Asked, ok, status},
    test_ws,
};
use crate::support::TestWorkspace;

const DOCS: &str = include_str!("pages/docs.html");
const DOCS_READ: &str = include_str!("pages/docs.md");
const ARTICLE: &str = include_str!("pages/article.html");
const ARTICLE_READ: &str = include_str!("pages/article.md");

/// Returns the text of a page with this body, in a workspace of its own.
fn shown(kind: &str, body: impl Into<Vec<u8>>) -> String {
    let site = Site::of(kind, body);
    let test_ws = test_ws(&[&site], "");
    test_ws
        .call("web_fetch", &json!({"url": site.url("/")}))
        .must("ok")
        .text()
        .replace(&site.host(), "site.example")
}

/// Compares with what is kept; `UPDATE_EXPECT=1` keeps what there is now.
#[track_caller]
fn compare(kept: &str, file: &str, found: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = format!("{}/tests/web/pages/{file}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, format!("{found}\n")).unwrap();
        return;
    }
    assert_eq!(found.trim_end(), kept.trim_end());
}

#[test]
fn manual_page_and_article_become_clean_markdown() {
    compare(DOCS_READ, "docs.md", &shown("text/html; charset=utf-8", DOCS));
    compare(ARTICLE_READ, "article.md", &shown("text/html", ARTICLE));
}

#[test]
fn a_list_of_links_and_a_forum_are_shown_whole() {
    let links: String =
        (0..80).map(|it| format!("<li><a href='/p/{it}'>Entry {it}</a>, of 19{it:02}</li>")).collect();
    let text =
        shown("text/html", format!("<title>Index</title><nav>Menu</nav><h1>All of it</h1><ul>{links}</ul>"));
    assert!(text.contains("- [Entry 0][1], of 1900") && text.contains("- [Entry 79][80], of 1979"), "{text}");
    assert!(text.contains("[80]: http://site.example/p/79") && !text.contains("Menu"), "{text}");
    let posts: String = (0..30)
        .map(|it| format!("<div class=post><b>user{it}</b><p>I think that {it} is a fine number.</p></div>"))
        .collect();
    let text = shown("text/html", format!("<title>Thread</title><div id=posts>{posts}</div>"));
    for it in 0..30 {
        assert!(text.contains(&format!("I think that {it} is")), "{it}: {text}");
    }
}

#[test]
fn long_page_is_paged_without_a_second_request() {
    let paragraphs: String = (1..=900)
        .map(|it| format!("<p>Paragraph number {it} of a long page, <a href='/{it}'>see</a>.</p>"))
        .collect();
    let site = Site::of("text/html", format!("<title>Long</title><main>{paragraphs}</main>"));
    let test_ws = test_ws(&[&site], "");
    let url = site.url("/long");
    let first = test_ws.call("web_fetch", &json!({"url": url})).must("ok").text();
    let last = first.lines().last().unwrap().to_owned();
    let offset: usize = last.split("with offset ").nth(1).unwrap().trim_end_matches(']').parse().unwrap();
    assert!(last.contains("of 1799; next: the same url with offset "), "{last}");
    assert!(
        first.len() < 30_000 && first.contains("[1]: ") && !first.contains("\n[900]: "),
        "{}",
        first.len()
    );
    let asked = site.asked().len();
    let calls = [
        ("web_fetch", json!({"url": url})),
        ("web_fetch", json!({"url": url, "offset": offset})),
        ("web_fetch", json!({"url": url, "offset": 1799})),
        ("web_fetch", json!({"url": url, "offset": 1800})),
    ];
    let said = test_ws.batch(&[], &calls);
    assert_eq!(site.asked().len(), asked + 1);
    let next = said[1].text();
    let number = offset.div_ceil(2);
    assert!(next.contains(&format!("Paragraph number {} of", number + 1)), "{offset}: {}", &next[..200]);
    assert!(
        said[2].text().contains("Paragraph number 900 of a long page, [see][900].\n\n[900]: "),
        "{}",
        said[2].text()
    );
    assert_eq!(said[3].kind(), "bad_args");
    assert!(said[3].text().contains("has 1799 lines"), "{}", said[3].text());
}

#[test]
fn every_kind_of_content_is_shown_as_text_or_named() {
    assert!(
        shown("application/json", r#"{"b":[1,2],"a":{"x":null}}"#)
            .ends_with("\n\n{\"b\": [1, 2], \"a\": {\"x\": null}}")
    );
    assert!(shown("text/plain", "one\r\ntwo <b>").ends_with("\n\none\ntwo <b>"));
    assert!(shown("", "<!DOCTYPE html><title>T</title><p>found by its look").contains("# T\n"));
    assert!(shown("text/xml", "<?xml version='1.0'?><a><b>x</b></a>").contains("<a><b>x</b></a>"));
    let picture = shown("image/png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec());
    assert!(
        picture.ends_with("[`image_view` with this url shows it]\n\nIt is image/png, 16 bytes."),
        "{picture}"
    );
    let zip = shown("application/octet-stream", b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaaaaaaaa".to_vec());
    assert!(zip.contains("[`http_request` with `save_to` puts it into a file]"), "{zip}");
    assert!(zip.ends_with("It is application/zip, 32 bytes."), "{zip}");
    let feed = "<?xml version='1.0'?><rss version='2.0'><channel><title>News &amp; more</title><link>http://a.example/</link>\
         <item><title>First</title><link>http://a.example/1</link><pubDate>Tue, 10 Jun 2025 04:00:00 GMT</pubDate>\
         <description>&lt;p&gt;Some &lt;b&gt;bold&lt;/b&gt; &lt;a href='/x'&gt;text&lt;/a&gt;.&lt;/p&gt;</description></item>\
         <item><title>Second</title></item></channel></rss>";
    let feed = shown("application/rss+xml", feed);
    assert!(feed.starts_with("# News & more\n"), "{feed}");
    assert!(feed.contains("## First [1]\n2025-06-10 04:00 UTC\nSome **bold** [text]."), "{feed}");
    assert!(feed.contains("## Second") && feed.contains("[1]: http://a.example/1"), "{feed}");
    let atom = "<feed xmlns='http://www.w3.org/2005/Atom'><title>A</title><id>u</id><updated>2024-01-02T03:04:05Z</updated>\
         <entry><title>E</title><id>e</id><updated>2024-01-02T03:04:05Z</updated><link href='/e'/><summary>S</summary></entry></feed>";
    let atom = shown("application/atom+xml", atom);
    assert!(
        atom.contains("## E [1]\n2024-01-02 03:04 UTC\nS") && atom.contains("[1]: http://site.example/e"),
        "{atom}"
    );
}

#[test]
fn encoding_is_declared_or_detected() {
    for (kind, body) in [
        ("text/html; charset=iso-8859-1", &b"<p>caf\xe9 \x96"[..]),
        ("text/html", b"<meta charset=windows-1252><p>caf\xe9 \x96"),
        ("text/html", b"<p>caf\xe9 \x96"),
        ("text/html", "<p>café –".as_bytes()),
        ("text/html; charset=latin1", "\u{feff}<p>café –".as_bytes()),
    ] {
        assert!(shown(kind, body).ends_with("café –"), "{kind} {}", String::from_utf8_lossy(body));
    }
}

#[test]
fn http_error_has_status_text_and_what_to_do() {
    let site = Site::new(|asked: &Asked| match asked.path.as_str() {
        "/gone" => status(
            404,
            "text/html",
            "<title>Not here</title><nav>Menu</nav><h1>Not here</h1><p>The page has moved to <a href=/x>x</a>.",
        ),
        "/login" => status(401, "application/json", r#"{"error":"token missing"}"#),
        "/closed" => status(403, "text/html", "<p>Forbidden"),
        "/busy" => status(429, "text/plain", "slow down").with("Retry-After", "120"),
        "/broken" => status(500, "text/html", ""),
        "/guard" => {
            status(403, "text/html", "<title>Just a moment...</title>").with("cf-mitigated", "challenge")
        }
        "/soft" => ok("text/html", "<title>Just a moment...</title><p>Checking your browser"),
        "/script" => ok("text/html", "<title>App</title><div id=root></div><script>make()</script>"),
        _ => status(302, "text/html", "").with("Location", "/gone"),
    });
    let test_ws = test_ws(&[&site], "");
    let fetch = |path: &str| test_ws.call("web_fetch", &json!({"url": site.url(path)}));
    for (path, kind, says) in [
        (
            "/gone",
            "not_found",
            &["answers 404 Not Found: Not here The page has moved to [x]", "web_search"][..],
        ),
        ("/moved", "not_found", &["/gone answers 404"]),
        ("/login", "failed", &["401 Unauthorized: {\"error\":\"token missing\"}", "login"]),
        ("/closed", "failed", &["403 Forbidden: Forbidden", "`render`: true"]),
        ("/busy", "unavailable", &["429 Too Many Requests: slow down", "come again after 120 s"]),
        ("/broken", "unavailable", &["500 Internal Server Error"]),
        ("/guard", "unavailable", &["A guard before this site lets in only browsers"]),
        ("/soft", "ok", &["[this looks like a check for robots"]),
        ("/script", "ok", &["`render: true` runs the page", "[there is no text in it]"]),
    ] {
        let called = fetch(path).must(kind);
        for it in says {
            assert!(called.text().contains(it), "{path}: {}", called.text());
        }
    }
}

#[test]
fn redirect_to_another_host_is_named() {
    let there = Site::of("text/html", "<title>There</title><p>Hello");
    let to = there.url("/there");
    let here = Site::new(move |_| {
        status(301, "text/html", "").with("Location", &to.replace("127.0.0.1", "localhost"))
    });
    let named = format!("[\"{}\", \"{}\"]", here.host(), there.host().replace("127.0.0.1", "localhost"));
    let test_ws = TestWorkspace::new();
    std::fs::create_dir_all(test_ws.config()).unwrap();
    std::fs::write(test_ws.config().join("haft.toml"), format!("[net]\nallow = {named}\n")).unwrap();
    let text = test_ws.call("web_fetch", &json!({"url": here.url("/a")})).must("ok").text();
    assert!(
        text.contains(&format!(
            "# There\nhttp://localhost:{}/there\n[redirected from {} to another host]\n",
            there.host().split(':').nth(1).unwrap(),
            here.url("/a")
        )),
        "{text}"
    );
}

#[test]
fn robots_txt_is_respected_when_configured() {
    let site = Site::new(|asked: &Asked| match asked.path.as_str() {
        "/robots.txt" => ok("text/plain", "User-agent: *\nDisallow: /private\nAllow: /private/open"),
        _ => ok("text/html", "<p>Hello"),
    });
    let test_ws = test_ws(&[&site], "");
    let fetch = |path: &str, robots: bool| {
        test_ws.call("web_fetch", &json!({"url": site.url(path), "robots": robots}))
    };
    fetch("/public", true).must("ok");
    fetch("/private/open/x", true).must("ok");
    let refused = fetch("/private/x", true).must("denied").text();
    assert!(refused.contains("forbids robots `/private/x`, by `Disallow: /private`"), "{refused}");
    assert!(!site.asked().iter().any(|it| it.path == "/private/x"));
    fetch("/private/x", false).must("ok");
    let broken = Site::new(|_| status(503, "text/plain", ""));
    let test_ws = super::test_ws(&[&broken], "");
    let refused =
        test_ws.call("web_fetch", &json!({"url": broken.url("/x"), "robots": true})).must("denied").text();
    assert!(refused.contains("says 503, so no robot may come"), "{refused}");
}

#[test]
fn private_address_needs_a_grant() {
    let site = Site::of("text/html", "<p>secret");
    let test_ws = TestWorkspace::new();
    let refused = test_ws.call("web_fetch", &json!({"url": site.url("/")})).must("denied").text();
    assert!(refused.contains("private_net"), "{refused}");
    let port = site.host().split(':').nth(1).unwrap().to_owned();
    for spelling in ["localhost", "0x7f000001", "2130706433", "017700000001", "[::ffff:127.0.0.1]", "127.1"] {
        let called = test_ws.call("web_fetch", &json!({"url": format!("http://{spelling}:{port}/")}));
        assert_eq!(called.kind(), "denied", "{spelling}: {}", called.text());
    }
    let auto = test_ws.call_with(&["--approve", "auto"], "web_fetch", &json!({"url": site.url("/")}));
    assert_eq!(auto.kind(), "denied", "{}", auto.text());
    assert!(site.asked().is_empty());
    // A page that was granted may not lead to one that was not.
    let to = site.url("/");
    let open = Site::new(move |_| -> Answer { status(302, "text/html", "").with("Location", &to) });
    let test_ws = super::test_ws(&[&open], "");
    let refused = test_ws.call("web_fetch", &json!({"url": open.url("/")})).must("denied").text();
    assert!(refused.contains("not a public address"), "{refused}");
    assert!(site.asked().is_empty());
}
