//! Questions to the person: the interface by which tools ask, and its implementation for runs without a
//! person.

use kit::{
    Fault, Kind,
    services::{Question, Soon},
};

/// Asks the person a model's question. A front end implements it.
pub trait Asker: Send + Sync {
    /// Asks, and waits for the answer. There is no time limit: a caller that drops the future withdraws the
    /// question.
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

/// An [`Asker`] without a person: every question fails.
pub struct NobodyToAsk;

impl Asker for NobodyToAsk {
    fn ask(&self, _: Question) -> Soon<'_, Result<String, Fault>> {
        Box::pin(std::future::ready(Err(nobody())))
    }
}

/// Returns the fault of a question that nobody can answer.
pub fn nobody() -> Fault {
    Fault::new(Kind::Unavailable, "there is nobody to ask here")
        .next("Decide it yourself, and say in your answer what you took for granted.")
}
