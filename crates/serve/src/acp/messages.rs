//! The Agent Client Protocol over a transport that has messages, such as WebSocket: each becomes a line, and each line one.

use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;
use tokio::sync::mpsc;

/// So many messages wait on either side: a client that does not read is not read from either.
const QUEUED: usize = 1;

/// The messages of a client, as the bytes that [`acp`](super::acp) reads.
pub struct MessageReader {
    messages: mpsc::Receiver<Bytes>,
    /// The rest of the message that is being read; `None` between two.
    begun: Option<Bytes>,
}

/// The messages to a client, from the bytes that [`acp`](super::acp) writes.
pub struct MessageWriter {
    messages: mpsc::Sender<String>,
    begun: Vec<u8>,
}

/// The client's side of both.
pub struct MessageChannel {
    /// Takes the messages of the client. Dropping it ends the input.
    pub to_agent: mpsc::Sender<Bytes>,
    /// Gives the messages to the client. Dropping it breaks the output.
    pub from_agent: mpsc::Receiver<String>,
}

/// Returns an input and an output for [`acp`](super::acp), and the channel to both.
pub fn by_messages() -> (MessageReader, MessageWriter, MessageChannel) {
    let (to_agent, incoming) = mpsc::channel(QUEUED);
    let (outgoing, from_agent) = mpsc::channel(QUEUED);
    let reader = MessageReader { messages: incoming, begun: None };
    let writer = MessageWriter { messages: outgoing, begun: Vec::new() };
    (reader, writer, MessageChannel { to_agent, from_agent })
}

impl Read for MessageReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut message = match self.begun.take() {
            Some(message) => message,
            None => match self.messages.blocking_recv() {
                Some(message) => message,
                None => return Ok(0),
            },
        };
        let Some((first, _)) = buffer.split_first_mut() else {
            self.begun = Some(message);
            return Ok(0);
        };
        if message.is_empty() {
            *first = b'\n';
            return Ok(1);
        }
        let piece = message.split_to(message.len().min(buffer.len()));
        for (to, from) in buffer.iter_mut().zip(&piece) {
            // JSON may be on several lines; inside of its strings there is no line feed.
            *to = if *from == b'\n' { b' ' } else { *from };
        }
        self.begun = Some(message);
        Ok(piece.len())
    }
}

impl Write for MessageWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|it| *it == b'\n') {
            let Some(end) = piece.strip_suffix(b"\n") else {
                self.begun.extend_from_slice(piece);
                continue;
            };
            let mut line = std::mem::take(&mut self.begun);
            line.extend_from_slice(end);
            let text =
                String::from_utf8(line).map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            self.messages.blocking_send(text).map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use std::io::{BufRead as _, BufReader};

    use super::*;

    #[test]
    fn each_message_is_one_line_also_if_it_has_several() {
        let (reader, _, channel) = by_messages();
        let sending = std::thread::spawn(move || {
            for message in ["{\n\"a\": 1\n}", "", "{\"b\": \"x\"}"] {
                channel.to_agent.blocking_send(Bytes::from(message)).unwrap();
            }
        });
        // Smaller than a message.
        let lines: Vec<String> = BufReader::with_capacity(3, reader).lines().map(Result::unwrap).collect();
        sending.join().unwrap();
        assert_eq!(lines, ["{ \"a\": 1 }", "", "{\"b\": \"x\"}"]);
    }

    #[test]
    fn each_line_is_one_message_until_nobody_reads() {
        let (_, mut writer, mut channel) = by_messages();
        let reading = std::thread::spawn(move || {
            let read = [(); 3].map(|()| channel.from_agent.blocking_recv().unwrap());
            drop(channel);
            read
        });
        for piece in ["{\"a\"", ":1}\n{\"b\":2}\n{", "}\n"] {
            writer.write_all(piece.as_bytes()).unwrap();
        }
        assert_eq!(reading.join().unwrap(), ["{\"a\":1}", "{\"b\":2}", "{}"]);
        assert_eq!(writer.write_all(b"{}\n").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
