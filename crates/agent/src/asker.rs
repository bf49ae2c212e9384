//! Questions to the person.

use kit::{
    Fault, Kind,
    services::{Question, Soon},
};

/// The way a door puts a model's question to its person.
pub trait Asker: Send + Sync {
    /// Asks, and waits for the answer. How long that may take is for the caller to say: a future that is dropped takes
    /// its question back.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when there is nobody to ask.
    fn ask(&self, question: Question) -> Soon<'_, Result<String, Fault>>;

    /// Shows a text that needs no answer.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when there is nobody to see it, or no way to show it.
    fn show(&self, _text: String) -> Soon<'_, Result<(), Fault>> {
        Box::pin(std::future::ready(Err(nobody())))
    }
}

/// A door with nobody behind it.
pub struct NobodyToAsk;

impl Asker for NobodyToAsk {
    fn ask(&self, _: Question) -> Soon<'_, Result<String, Fault>> {
        Box::pin(std::future::ready(Err(nobody())))
    }
}

/// There is nobody to ask.
pub fn nobody() -> Fault {
    Fault::new(Kind::Unavailable, "there is nobody to ask here")
        .next("Decide it yourself, and say in your answer what you took for granted.")
}
