//! Messages of OpenAI's API, and the prompts that are made of them.
//!
//! A client of this API acts for the person whose token it sends. So texts of the roles `user`, `system` and `developer` reach the
//! model as the person's words. All others, such as earlier answers of an assistant and results of tools, may hold text of
//! anybody: they are attached as data, in which nothing is an instruction.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use sessions::{Attachment, Prompt};

use crate::{conversations::Compared, problem::Problem};

/// Earlier messages of the person that reach the model as words, in bytes: the newest. Those before them are attached, as
/// attachments have a limit of their own.
const WORDS: usize = 128 << 10;

/// The words of whoever has an answer continued.
const GO_ON: &str =
    "Go on with your last answer exactly where it stops. Don't repeat any of it, and add no introduction.";

/// The kinds of parts that are read.
const KINDS: [&str; 6] = ["text", "image_url", "input_text", "output_text", "input_image", "refusal"];

/// A message.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Message {
    pub(super) role: String,
    #[serde(default)]
    pub(super) content: Content,
}

/// A text, or parts.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Content {
    Text(String),
    Parts(Vec<Part>),
    None(()),
}

impl Default for Content {
    fn default() -> Self {
        Self::None(())
    }
}

/// A part of a message: a text or a picture.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Part {
    #[serde(rename = "type")]
    kind: Option<String>,
    text: Option<String>,
    image_url: Option<Value>,
}

impl Content {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                parts.iter().filter_map(|it| it.text.as_deref()).collect::<Vec<_>>().join("\n")
            }
            Self::None(()) => String::new(),
        }
    }

    fn parts(&self) -> &[Part] {
        if let Self::Parts(parts) = self { parts.as_slice() } else { &[] }
    }

    /// Returns the addresses of the pictures.
    fn images(&self) -> impl Iterator<Item = &str> {
        self.parts()
            .iter()
            .filter_map(|it| it.image_url.as_ref())
            .map(|it| it.as_str().or_else(|| it.get("url")?.as_str()).unwrap_or_default())
    }

    /// Returns the pictures, which are in the request itself: haft fetches none. Their names begin with `before`.
    fn pictures(&self, before: &str) -> Result<Vec<Attachment>, Problem> {
        self.images()
            .enumerate()
            .map(|(at, url)| {
                let data = url.strip_prefix("data:image/").and_then(|it| it.split_once(";base64,"));
                let (kind, data) = data.ok_or_else(|| {
                    let shown: String = url.chars().take(60).collect();
                    Problem::bad(format!("the picture `{shown}` is not a `data:image/…;base64,…` address"))
                        .next("Put the bytes of the picture into the request: haft fetches none here.")
                })?;
                let name = format!("{before}picture-{}.{kind}", at + 1);
                Ok(Attachment::Picture { name, data: data.to_owned() })
            })
            .collect()
    }

    pub(super) fn has_pictures(&self) -> bool {
        self.images().next().is_some()
    }

    fn is_empty(&self) -> bool {
        self.text().trim().is_empty() && !self.has_pictures()
    }
}

impl Message {
    fn is_users(&self) -> bool {
        self.role == "user"
    }

    pub(super) fn is_instruction(&self) -> bool {
        matches!(self.role.as_str(), "system" | "developer")
    }

    pub(super) fn is_answer(&self) -> bool {
        self.role == "assistant"
    }
}

/// The end of a conversation: what the model is to answer.
pub(super) enum Last<'a> {
    /// The person's words.
    Words(&'a Message),
    /// An answer that is to be continued.
    Answer(&'a Message),
}

/// A conversation: the messages before the last one of the person, and that one.
pub(super) struct Conversation<'a> {
    pub(super) earlier: &'a [Message],
    pub(super) last: Last<'a>,
}

impl<'a> Conversation<'a> {
    /// Parts a conversation.
    ///
    /// # Errors
    /// When a part of a message can't be read, or the last message is neither the person's nor an answer, or is empty.
    pub(super) fn of(messages: &'a [Message]) -> Result<Self, Problem> {
        check(messages)?;
        let found = messages.split_last().and_then(|(last, earlier)| match last {
            it if it.is_users() => Some(Self { earlier, last: Last::Words(it) }),
            it if it.is_answer() => Some(Self { earlier: messages, last: Last::Answer(it) }),
            _ => None,
        });
        let Some(found) = found else {
            let role = messages.last().map_or("none", |it| it.role.as_str());
            let what = format!("the role of the last message must be `user` or `assistant`, and is `{role}`");
            return Err(Problem::bad(what).next(
                "Send the whole conversation, with the person's words last, or the answer to continue.",
            ));
        };
        let is_empty = match found.last {
            Last::Words(last) => last.content.is_empty(),
            Last::Answer(last) => last.content.text().trim().is_empty(),
        };
        if is_empty {
            return Err(Problem::bad("the last message is empty")
                .next("Send a text or a picture in the `content` of the last message."));
        }
        Ok(found)
    }

    /// Returns the texts of system and developer messages.
    pub(super) fn instructions(&self) -> String {
        let of = self.earlier.iter().filter(|it| it.is_instruction());
        let texts: Vec<String> = of.map(|it| it.content.text().trim().to_owned()).collect();
        texts.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n\n")
    }

    /// Returns the messages that tell the conversation apart from others, without the last one of the person.
    pub(super) fn compared(&self) -> Vec<Compared> {
        self.earlier.iter().filter_map(compared).collect()
    }

    /// Returns the prompt for a session that has the conversation so far; with the instructions, if there are any.
    pub(super) fn next_prompt(&self, instructions: &str) -> Result<Prompt, Problem> {
        self.prompt(instructions, &[], Vec::new())
    }

    /// Returns the prompt for a session that begins.
    pub(super) fn first_prompt(&self, instructions: &str) -> Result<Prompt, Problem> {
        let (mut words, mut record, mut pictures) = (Vec::new(), Vec::new(), Vec::new());
        let (mut number, too_old) = (0, self.too_old());
        for message in self.earlier.iter().filter(|it| !it.is_instruction()) {
            number += usize::from(message.is_users());
            pictures.extend(message.content.pictures(&format!("message-{number}-"))?);
            let text = message.content.text();
            if text.trim().is_empty() {
                continue;
            }
            if !message.is_users() {
                record.push(format!("{}, after message {number} of the person:\n{text}", message.role));
            } else if number > too_old {
                words.push(format!("## Message {number}\n\n{text}"));
            } else {
                record.push(format!("message {number} of the person:\n{text}"));
            }
        }
        if !record.is_empty() {
            let name = "the conversation so far".to_owned();
            pictures.push(Attachment::Text { name, text: record.join("\n\n") });
        }
        self.prompt(instructions, &words, pictures)
    }

    /// Returns the number of the person's earlier messages, the oldest, that are too much to be words.
    fn too_old(&self) -> usize {
        let of_person: Vec<usize> =
            self.earlier.iter().filter(|it| it.is_users()).map(|it| it.content.text().trim().len()).collect();
        let mut all = 0;
        let fits = |bytes: &&usize| {
            all += **bytes;
            all <= WORDS
        };
        of_person.len() - of_person.iter().rev().take_while(fits).count()
    }

    fn prompt(
        &self,
        instructions: &str,
        earlier: &[String],
        mut attachments: Vec<Attachment>,
    ) -> Result<Prompt, Problem> {
        let last = match self.last {
            Last::Words(message) => {
                attachments.extend(message.content.pictures("")?);
                message.content.text()
            }
            Last::Answer(_) => GO_ON.to_owned(),
        };
        let mut text = String::new();
        if !instructions.is_empty() {
            text.push_str(&format!("# Instructions\n\n{instructions}\n\n"));
        }
        if !earlier.is_empty() {
            text.push_str(&format!("# My earlier messages\n\n{}\n\n", earlier.join("\n\n")));
        }
        if !text.is_empty() {
            text.push_str("# My message\n\n");
        }
        text.push_str(&last);
        Ok(Prompt { text, attachments })
    }

    /// Returns the person's last words.
    pub(super) fn words(&self) -> String {
        let (Last::Words(last) | Last::Answer(last)) = self.last;
        last.content.text()
    }
}

/// Returns a message as it counts in a comparison. Answers without text are those of turns that failed.
pub(super) fn compared(message: &Message) -> Option<Compared> {
    let (is_answer, text) = (message.is_answer(), message.content.text());
    if !(message.is_users() || is_answer && !text.trim().is_empty()) {
        return None;
    }
    let pictures = message.content.images().map(str::to_owned).collect();
    Some(Compared { is_answer, text, pictures })
}

/// Refuses parts that would be left out.
pub(super) fn check(messages: &[Message]) -> Result<(), Problem> {
    for (at, message) in messages.iter().enumerate() {
        for part in message.content.parts() {
            let kind = part.kind.as_deref();
            if kind.is_none_or(|it| KINDS.contains(&it)) && (kind.is_some() || part.text.is_some()) {
                continue;
            }
            let kind = kind.unwrap_or("no type");
            return Err(Problem::bad(format!(
                "message {} has a part `{kind}`, which haft can't use",
                at + 1
            ))
            .next("Send texts and pictures; put other files into the workspace, and name them."));
        }
    }
    Ok(())
}
