//! Malicious pages: they harm neither the model nor haft.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{Site, test_ws};

/// Against a hang, not to measure.
const LONG: Duration = Duration::from_secs(40);

fn shown(html: String) -> String {
    let site = Site::of("text/html", html);
    let test_ws = test_ws(&[&site], "");
    let began = Instant::now();
    let text = test_ws.call("web_fetch", &json!({"url": site.url("/")})).must("ok").text();
    assert!(began.elapsed() < LONG, "it took {:?}", began.elapsed());
    text
}

#[test]
fn invisible_text_is_not_shown() {
    let text = shown(
        "<title>Shop</title><style>.promo{display:none} @media print{.seen{display:none}}</style><main>\
         <!-- INJECTED 1 --><p class=seen>Seen at first.</p><p class=promo>INJECTED 2</p><div style='display:none'>INJECTED 3</div>\
         <p style='font-size:0px'>INJECTED 4</p><p hidden>INJECTED 5</p><p aria-hidden=true>INJECTED 6</p>\
         <div style='position:absolute; left:-9999px'>INJECTED 7</div><div style='width:0;height:0;overflow:hidden'>INJECTED 8</div>\
         <template>INJECTED 9</template><script type=text/plain>INJECTED 10</script><noscript>Seen too.</noscript>\
         <p style='opacity:0'>INJECTED 11</p><svg><text>INJECTED 12</text></svg><input type=hidden value='INJECTED 13'>\
         <p style='visibility:hidden'>INJECTED 14 <b>INJECTED 15</b></p><p>Seen at last.</p></main>"
            .to_owned(),
    );
    assert!(!text.contains("INJECTED"), "{text}");
    for it in ["Seen at first.", "Seen too.", "Seen at last."] {
        assert!(text.contains(it), "{text}");
    }
}

#[test]
fn invisible_characters_are_escaped_or_removed() {
    let text = shown("<p>one\u{200b}two \u{202e}three\u{e000}9\u{e001} \u{1b}[31mfour".to_owned());
    assert!(text.contains("onetwo"), "{text}");
    assert!(!text.contains(['\u{202e}', '\u{e000}', '\u{1b}']), "{text:?}");
}

#[test]
fn deep_wide_and_broken_markup_is_read_in_bounded_time() {
    let deep = |tag: &str| {
        format!(
            "{}<p>in the deep</p>{}<p>after it</p>",
            format!("<{tag}>").repeat(100_000),
            format!("</{tag}>").repeat(100_000)
        )
    };
    for tag in ["div", "b", "ul><li", "table><tr><td", "blockquote", "span", "a href=x", "p", "dl><dd"] {
        let text = shown(deep(tag));
        assert!(text.contains("in the deep"), "{tag}: {}", &text[..text.len().min(300)]);
    }
    let attributes: String = (0..300_000).map(|it| format!(" data-a{it}='{it}'")).collect();
    assert!(shown(format!("<p{attributes}>here")).contains("here"));
    // Each paragraph opens again what was open in the one before it.
    let open: String = (0..400).map(|it| format!("<b id={it}>")).collect();
    assert!(shown(format!("<p>{open}</p>{}", "<p>x".repeat(200_000))).contains("x\n\nx"));
    let rows = format!(
        "<tr>{}</tr>{}",
        "<td rowspan=60000 colspan=900>cell</td>".repeat(60),
        "<tr><td>x</td></tr>".repeat(20_000)
    );
    assert!(shown(format!("<table>{rows}</table>")).contains("| cell |"));
    assert!(shown("<p>start".to_owned() + &"<".repeat(2_000_000)).contains("start"));
    assert!(shown("<p>start".to_owned() + &"<style>".repeat(300_000)).contains("start"));
    assert!(shown("<p>start".to_owned() + &"</p></div><a b=\"".repeat(200_000)).contains("start"));
    assert!(shown("<p>start".to_owned() + &"&amp".repeat(1_000_000)).contains("start"));
}

#[test]
fn endless_page_is_read_up_to_a_limit() {
    let text =
        shown(format!("<title>Endless</title><main>{}", "<p>some words of a page</p>".repeat(500_000)));
    assert!(text.contains("[only the first 8 MB were read]"), "{}", &text[..300]);
}

#[test]
fn hostile_feeds_and_json_are_shown_as_text() {
    let site = Site::new(|asked| match asked.path.as_str() {
        "/json" => super::site::ok("application/json", "[".repeat(200_000)),
        "/wide" => super::site::ok("application/json", format!("[{}1{}]", "[".repeat(100), "]".repeat(100))),
        _ => super::site::ok(
            "application/rss+xml",
            "<?xml version='1.0'?><!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;'>\
             <!ENTITY x SYSTEM 'file:///etc/passwd'>]><rss version='2.0'><channel><title>&c;&x;</title></channel></rss>",
        ),
    });
    let test_ws = test_ws(&[&site], "");
    for path in ["/json", "/wide", "/feed"] {
        let text = test_ws.call("web_fetch", &json!({"url": site.url(path)})).must("ok").text();
        assert!(!text.contains("root:"), "{text}");
        assert!(text.len() < 200_000, "{}", text.len());
    }
}
