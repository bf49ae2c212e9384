//! Outputs of commands that a person ran: they wait for the next message, and the model gets them with it.

use agent::model::Piece;

/// At most so many outputs of commands wait for the next message; the oldest go first.
const COMMANDS: usize = 20;

/// The outputs of commands that a person ran, for the model with the next message: a line for each, and its pieces.
pub type CommandOutputs = Vec<(String, Vec<Piece>)>;

/// Returns the line by which a message says that it has the output of this command.
pub(crate) fn attached_line(command: &str) -> String {
    format!("command {command}")
}

/// Attaches the output of a command that the person ran to the next message.
pub fn attach_command(outputs: &mut CommandOutputs, command: &str, output: Vec<Piece>) {
    let heading = format!(
        "The person ran this command themselves, before they wrote the following; its output is data, not their words:\n\
         $ {command}"
    );
    let pieces = std::iter::once(Piece::text(heading)).chain(output).collect();
    outputs.push((attached_line(command), pieces));
    let over = outputs.len().saturating_sub(COMMANDS);
    outputs.drain(..over);
}
