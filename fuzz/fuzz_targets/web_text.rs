//! Responses, as `web_fetch` reads them: pages, feeds, JSON and PDFs. The first byte chooses the media type.

#![no_main]

const KINDS: [&str; 6] = [
    "text/html",
    "application/rss+xml",
    "application/feed+json",
    "application/json",
    "text/plain",
    "application/pdf",
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, data)) = data.split_first() else { return };
    let kind = KINDS[usize::from(*first) % KINDS.len()];
    let options = format!(
        r#"{{"got": {{"url": "http://a.example/", "kind": "{kind}", "charset": null, "length": null, "more": false,
        "rendered": false, "status": 200, "notes": [], "retry_after": null, "is_challenge": false}}, "part": "Article"}}"#
    );
    haft_fuzz::decode("web_text", &options, data);
});
