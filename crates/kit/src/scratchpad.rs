//! The scratchpad of a session: named sections of text, shared by the tools that have it and by tool files.

use crate::{Cx, Fault, Kind, Touches};

/// Before the names of sections, among the notes of a session.
const PREFIX: &str = "scratchpad ";

/// A section has at most so many bytes, a session so many sections, a name so many characters.
const BYTES: usize = 64 << 10;
const SECTIONS: usize = 64;
const NAME: usize = 64;

/// The scratchpad of a session, as a call reaches it. May block.
pub struct Pad<'a>(pub &'a Cx);

impl Pad<'_> {
    /// What a call touches that changes it.
    pub fn touches() -> Touches {
        Touches::session("scratchpad")
    }

    /// What is in a section.
    ///
    /// # Errors
    /// When its name can't be one, or it can't be read.
    pub fn get(&self, section: &str) -> Result<Option<String>, Fault> {
        self.0.notes().get(&key(section)?)
    }

    /// The sections there are, in their order.
    ///
    /// # Errors
    /// When they can't be read.
    pub fn sections(&self) -> Result<Vec<String>, Fault> {
        let keys = self.0.notes().keys(PREFIX)?;
        Ok(keys.iter().filter_map(|it| it.strip_prefix(PREFIX)).map(str::to_owned).collect())
    }

    /// Puts a text into a section: after what is there, or in its place. Gives how many bytes it has then.
    ///
    /// # Errors
    /// [`Kind::TooBig`] for too many sections or bytes; when its name can't be one, or it can't be written.
    pub fn put(&self, section: &str, text: String, append: bool) -> Result<usize, Fault> {
        let key = key(section)?;
        let sections = self.sections()?;
        if sections.len() >= SECTIONS && !sections.iter().any(|it| it == section) {
            return Err(Fault::new(Kind::TooBig, format!("there are {SECTIONS} sections already"))
                .next("Clear one that is done with."));
        }
        let name = section.to_owned();
        let kept = self.0.notes().change(
            &key,
            Box::new(move |before| {
                let text = match before.filter(|it| append && !it.is_empty()) {
                    Some(before) if before.ends_with('\n') => before + &text,
                    Some(before) => format!("{before}\n{text}"),
                    None => text,
                };
                if text.len() > BYTES {
                    let what =
                        format!("section `{name}` would have {} bytes; {BYTES} is the most", text.len());
                    return Err(
                        Fault::new(Kind::TooBig, what).next("Keep what matters, or begin another section.")
                    );
                }
                Ok(Some(text))
            }),
        )?;
        Ok(kept.map_or(0, |it| it.len()))
    }

    /// Empties a section; was there anything in it?
    ///
    /// # Errors
    /// When its name can't be one, or it can't be written.
    pub fn clear(&self, section: &str) -> Result<bool, Fault> {
        let key = key(section)?;
        let was_there = self.0.notes().get(&key)?.is_some();
        self.0.notes().put(&key, None)?;
        Ok(was_there)
    }
}

fn key(section: &str) -> Result<String, Fault> {
    let fits = (1..=NAME).contains(&section.chars().count()) && !section.contains(char::is_control);
    if !fits {
        let shown: String = format!("{section:?}").chars().take(2 * NAME).collect();
        return Err(Fault::bad_args(format!("{shown} can't be the name of a section"))
            .next(format!("It has 1 to {NAME} characters, all in one line.")));
    }
    Ok(format!("{PREFIX}{section}"))
}
