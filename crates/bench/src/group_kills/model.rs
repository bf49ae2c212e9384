//! The model of a member: answers at once with messages to others, as the texts that it reads and a seed decide.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use agent::model::{Abilities, Event, Events, Item, Model, Piece, Request, Usage, Why, script::Script};
use serde_json::json;

use super::plan::Random;

/// A model that sends messages with one hop less than those that it reads, and ends.
pub(super) struct Talker {
    abilities: Abilities,
    seed: u64,
    name: String,
    /// The channels to which its member may send.
    channels: Vec<String>,
    /// The members to which it may send directly.
    peers: Vec<String>,
    /// Called with each request.
    asked: fn(),
}

impl Talker {
    pub(super) fn new(seed: u64, name: &str, channels: Vec<String>, peers: Vec<String>, asked: fn()) -> Self {
        let abilities = Script::empty().abilities().clone();
        Self { abilities, seed, name: name.to_owned(), channels, peers, asked }
    }

    fn answer(&self, request: &Request) -> Vec<Event> {
        let hop = hops(&request.items);
        let mut hasher = DefaultHasher::new();
        (self.seed, &self.name, request.items.len(), hop).hash(&mut hasher);
        let mut random = Random::new(hasher.finish());
        let calls = if hop == 0 { 0 } else { random.below(4) };
        let mut events = Vec::new();
        for index in 0..calls {
            let text = format!("hop={} from {} {}", hop - 1, self.name, random.number());
            let to_channel = self.peers.is_empty() || random.one_of(2);
            let list = if to_channel { &self.channels } else { &self.peers };
            let Some(to) = list.get(random.below(list.len() as u64) as usize) else { continue };
            let (tool, arguments) = if to_channel {
                ("send_channel", json!({"channel": to, "message": text}))
            } else {
                ("group_send", json!({"to": to, "message": text}))
            };
            events.push(Event::CallClosed {
                index: index as usize,
                id: format!("call-{}-{index}", request.items.len()),
                tool: tool.to_owned(),
                arguments: arguments.to_string(),
            });
        }
        let why = if events.is_empty() { Why::Done } else { Why::Calls };
        if events.is_empty() {
            events.push(Event::Text(format!("hop=0 the end of a turn of {}", self.name)));
        }
        events.push(Event::Used(Usage { input: 1, output: 1, ..Usage::default() }));
        events.push(Event::End(why));
        events
    }
}

/// Returns the most hops of the messages since the model's last answer.
fn hops(items: &[Item]) -> u64 {
    let new = items.iter().rev().take_while(|it| !matches!(it, Item::Model { .. }));
    let texts = new.flat_map(|it| match it {
        Item::Person { pieces } => pieces.as_slice(),
        _ => &[],
    });
    let of = |text: &str| {
        let found = text.match_indices("hop=").filter_map(|it| text.get(it.0 + 4..it.0 + 5)?.parse().ok());
        found.max()
    };
    texts
        .filter_map(|it| match it {
            Piece::Text { text } => of(text),
            Piece::Image { .. } => None,
        })
        .max()
        .unwrap_or(0)
}

impl Model for Talker {
    fn name(&self) -> &'static str {
        "talker"
    }

    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn stream(&self, request: Request) -> Events {
        (self.asked)();
        let events = self.answer(&request);
        Box::pin(async_stream::stream! {
            for event in events {
                yield Ok(event);
            }
        })
    }
}
