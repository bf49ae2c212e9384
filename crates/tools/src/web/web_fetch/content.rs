//! A server's content as text: pages, feeds, documents and data, converted in a worker.

use std::time::Duration;

use kit::{
    Cx, Fault,
    decoders::{Decoded, Decoder},
};
use serde::{Deserialize, Serialize};

use super::{
    article::{self, Part},
    charset::decode,
    feed,
    get::{Got, LARGEST_PAGE, is_readable},
    markdown::clean,
    pdf,
    text::Text,
};
use crate::files::json_tree::Node;

/// Maximum characters of an error page that are shown.
const SHORT: usize = 400;

/// Longer JSON is shown as it was sent: parsed it takes many times its size.
const LARGEST_JSON: usize = 2 << 20;

/// Titles of challenge pages, which replace the requested page.
const CHALLENGES: &[&str] = &[
    "just a moment...",
    "attention required! | cloudflare",
    "are you a robot?",
    "robot check",
    "access denied",
    "security check",
    "ddos-guard",
    "pardon our interruption",
    "verifying you are human",
    "human verification",
    "bot verification",
    "please wait... | cloudflare",
    "client challenge",
    "vercel security checkpoint",
];

/// Converts the content to text; a fault for an error page.
pub(super) async fn read(cx: &Cx, mut got: Got, part: Part) -> Result<Text, Fault> {
    let what = format!("`{}`", got.url);
    let body = std::mem::take(&mut got.body);
    Ok(cx.decode(&what, ReadAsText { got, part }, body).await?.answer)
}

/// Converts a server's content to text: a page, a feed, a document, data.
#[derive(Serialize, Deserialize)]
pub(crate) struct ReadAsText {
    /// Everything but the body.
    got: Got,
    part: Part,
}

impl Decoder for ReadAsText {
    type Answer = Text;

    const NAME: &'static str = "web_text";
    /// A PDF has a budget of 20 s, which is earlier.
    const DEADLINE: Duration = Duration::from_secs(22);

    fn decode(self, data: Vec<u8>) -> Result<Decoded<Text>, Fault> {
        let mut got = self.got;
        got.body = data;
        converted(got, self.part).map(Decoded::from)
    }
}

fn converted(mut got: Got, part: Part) -> Result<Text, Fault> {
    let is_page = is_html(&got.kind);
    if !(200..300).contains(&got.status) {
        let says = if is_readable(&got.kind) { in_short(&got, is_page) } else { String::new() };
        return Err(got.fault(&says).unwrap_or_else(|| Fault::bug("an error that is none")));
    }
    if let Some(fault) = got.fault("") {
        return Err(fault);
    }
    let mut text = if got.kind == "application/pdf" {
        pdf::read(&mut got)?
    } else if is_readable(&got.kind) {
        let body = std::mem::take(&mut got.body);
        let decoded = decode(&body, got.charset.as_deref(), is_page);
        drop(body);
        if is_page { page(&decoded, &got, part) } else { other(&decoded, &got) }
    } else {
        binary(&got)
    };
    if got.more && is_readable(&got.kind) {
        text.notes.push(format!("only the first {} MB were read", LARGEST_PAGE >> 20));
    }
    text.notes.extend(got.notes);
    Ok(text)
}

/// Converts a page of HTML, with notes.
fn page(html: &str, got: &Got, part: Part) -> Text {
    let mut text = article::read(html, &got.url, part);
    let title = text.title.to_lowercase();
    let letters = text.body.chars().filter(|it| it.is_alphanumeric()).count();
    if letters < 2_000 && CHALLENGES.iter().any(|it| title == *it) {
        text.notes.push("this looks like a check for robots and not like the page itself".to_owned());
    } else if !got.rendered && letters < 120 && html.contains("<script") {
        text.notes.push(
            "there is little text here and a script may write it: `render: true` runs the page".to_owned(),
        );
    }
    text
}

pub(super) fn is_html(kind: &str) -> bool {
    matches!(kind, "text/html" | "application/xhtml+xml")
}

fn in_short(got: &Got, is_page: bool) -> String {
    let decoded = decode(&got.body, got.charset.as_deref(), is_page);
    let text = if is_page { article::read(&decoded, &got.url, Part::Article) } else { plain(&decoded) };
    let said = format!("{} {}", text.title, text.body);
    let words = said.split_whitespace().map(without_link).collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(SHORT) {
        Some((at, _)) => format!("{}…", words.get(..at).unwrap_or_default()),
        None => words,
    }
}

/// Removes link marks: links of an error page are not shown.
fn without_link(word: &str) -> &str {
    word.split(super::markdown::LINK).next().unwrap_or(word)
}

fn other(decoded: &str, got: &Got) -> Text {
    let is_json = got.kind == "application/json" || got.kind.ends_with("+json");
    let is_xml = got.kind == "application/xml" || got.kind == "text/xml" || got.kind.ends_with("+xml");
    if (is_json || is_xml)
        && let Some(text) = feed::read(decoded, &got.kind, &got.url)
    {
        return text;
    }
    if is_json && let Some(pretty) = pretty(decoded) {
        return plain(&pretty);
    }
    plain(decoded)
}

fn plain(text: &str) -> Text {
    Text { body: clean(&text.replace("\r\n", "\n")), ..Text::default() }
}

/// Reformats JSON with one line for each short value, unless that makes it much longer.
fn pretty(text: &str) -> Option<String> {
    let text = text.trim_start_matches('\u{feff}');
    if text.len() > LARGEST_JSON {
        return None;
    }
    // Deeply nested JSON would be mostly blanks.
    Node::parse("", text).ok()?.spread(text.len() * 4 + 4_096)
}

/// Returns a note in place of binary content.
fn binary(got: &Got) -> Text {
    let size = got.length.map_or_else(|| "of unknown size".to_owned(), |it| format!("{it} bytes"));
    let next = if got.kind.starts_with("image/") {
        "[?`tool:image_view` with this url shows it?]"
    } else {
        "[?`tool:http_request` with `arg:http_request.save_to` puts it into a file?]"
    };
    Text { body: format!("It is {}, {size}.", got.kind), notes: vec![next.to_owned()], ..Text::default() }
}
