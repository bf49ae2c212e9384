//! The protocol between haft and a worker: one request, one answer, each with its lengths first.
//!
//! Both ends are the same binary on the same machine, so numbers are in the machine's byte order and the
//! protocol has no versions. haft treats all that a worker sends as untrusted: it checks every length before
//! it allocates anything for it.

use std::{
    io::{self, Read},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::Raw;
use crate::{Fault, Kind};

/// The most bytes of one answer.
pub(super) const LONGEST: usize = 48 << 20;

/// The most byte strings of one answer.
const BLOBS: usize = 16;

/// The most bytes of a worker's report that it is ready.
pub(super) const READY: usize = 4096;

/// The lengths that begin a request, and those that begin an answer.
const REQUEST: usize = 40;
pub(super) const ANSWER: usize = 24;

/// The byte that a worker sends once it has the whole request. If it ends before that, it has not begun to decode.
pub(super) const TAKEN: u8 = 1;

/// A request to decode.
pub(super) struct Request<'a> {
    pub(super) name: &'static str,
    pub(super) options: &'a [u8],
    pub(super) data: &'a [u8],
    pub(super) memory: u64,
    pub(super) deadline: Duration,
}

impl Request<'_> {
    /// Returns everything before the data.
    pub(super) fn head(&self) -> Vec<u8> {
        let numbers = [
            self.name.len() as u64,
            self.options.len() as u64,
            self.data.len() as u64,
            self.memory,
            self.deadline.as_secs(),
        ];
        let mut head: Vec<u8> = numbers.into_iter().flat_map(u64::to_ne_bytes).collect();
        head.extend(self.name.as_bytes());
        head.extend(self.options);
        head
    }
}

/// A request as a worker received it.
pub(super) struct Received {
    pub(super) name: Vec<u8>,
    pub(super) options: Vec<u8>,
    pub(super) data: Vec<u8>,
    pub(super) memory: u64,
    pub(super) seconds: u64,
}

/// Reads one request; `None` at the end of the stream.
pub(super) fn receive(socket: &mut impl Read) -> io::Result<Option<Received>> {
    let mut head = [0; REQUEST];
    match socket.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut numbers = numbers(&head);
    let mut next = || numbers.next().unwrap_or_default();
    let (name, options, data, memory, seconds) = (next(), next(), next(), next(), next());
    let mut bytes = |length: u64| {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        socket.read_exact(&mut bytes).map(|()| bytes)
    };
    let (name, options, data) = (bytes(name)?, bytes(options)?, bytes(data)?);
    Ok(Some(Received { name, options, data, memory, seconds }))
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).filter_map(|it| it.try_into().ok()).map(u64::from_ne_bytes)
}

/// The parts of a fault that leave a worker.
#[derive(Serialize, Deserialize)]
struct Failure {
    kind: Kind,
    what: String,
    next: Option<String>,
    refers: bool,
}

/// The longest text of a fault, in bytes.
const FAULT: usize = 4096;

/// Encodes an answer; `retires` tells haft that the worker ends after it.
pub(super) fn answer(done: Result<Raw, Fault>, retires: bool) -> Vec<u8> {
    let (worked, raw) = match done {
        Ok(raw) => (true, raw),
        Err(Fault { kind, what, next, refers, .. }) => {
            let json =
                serde_json::to_vec(&Failure { kind, what: short(what), next, refers }).unwrap_or_default();
            (false, Raw { json, blobs: Vec::new() })
        }
    };
    let flags = u64::from(worked) | u64::from(retires) << 1;
    let mut bytes: Vec<u8> = [flags, raw.json.len() as u64, raw.blobs.len() as u64]
        .into_iter()
        .chain(raw.blobs.iter().map(|it| it.len() as u64))
        .flat_map(u64::to_ne_bytes)
        .collect();
    bytes.extend(raw.json);
    for blob in raw.blobs {
        bytes.extend(blob);
    }
    bytes
}

fn short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(FAULT));
    text
}

/// The head of an answer.
pub(super) struct Head {
    pub(super) worked: bool,
    pub(super) retires: bool,
    pub(super) json: usize,
    pub(super) blobs: usize,
}

impl Head {
    /// Decodes the head; `None` for one that claims too much.
    pub(super) fn decode(bytes: &[u8; ANSWER]) -> Option<Self> {
        let mut numbers = numbers(bytes);
        let flags = numbers.next()?;
        let mut length = || usize::try_from(numbers.next()?).ok();
        let (json, blobs) = (length()?, length()?);
        let fits = json <= LONGEST && blobs <= BLOBS;
        fits.then_some(Self { worked: flags & 1 != 0, retires: flags & 2 != 0, json, blobs })
    }

    /// Returns the lengths of the byte strings that follow the head; `None` if they are too long together
    /// with the JSON.
    pub(super) fn lengths(&self, bytes: &[u8]) -> Option<Vec<usize>> {
        let lengths: Vec<usize> = numbers(bytes).map(usize::try_from).collect::<Result<_, _>>().ok()?;
        let all = lengths.iter().try_fold(self.json, |all, it| all.checked_add(*it))?;
        (all <= LONGEST).then_some(lengths)
    }
}

/// Returns the fault that an answer holds.
pub(super) fn fault(what: &str, json: &[u8]) -> Fault {
    match serde_json::from_slice::<Failure>(json) {
        Ok(Failure { kind, what, next, refers }) => {
            Fault { next: next.map(short), refers, ..Fault::new(kind, short(what)) }
        }
        Err(error) => {
            Fault::new(Kind::Failed, format!("the decoder of {what} gave no valid answer: {error}"))
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn request_arrives_as_it_was_sent() {
        let (options, data) = (b"{}".as_slice(), b"bytes".as_slice());
        let request = Request { name: "pdf", options, data, memory: 7, deadline: Duration::from_secs(3) };
        let sent = [request.head(), data.to_vec()].concat();
        let got = receive(&mut sent.as_slice()).unwrap().unwrap();
        assert_eq!((got.name.as_slice(), got.options.as_slice()), (b"pdf".as_slice(), options));
        assert_eq!((got.data.as_slice(), got.memory, got.seconds), (data, 7, 3));
        assert!(receive(&mut [].as_slice()).unwrap().is_none(), "the end of the stream");
    }

    #[test]
    fn answer_with_too_large_a_length_is_refused() {
        let sent = answer(Ok(Raw { json: b"1".to_vec(), blobs: vec![vec![2; 3]] }), true);
        let head = Head::decode(sent[..ANSWER].try_into().unwrap()).unwrap();
        assert!(head.worked && head.retires && (head.json, head.blobs) == (1, 1));
        assert_eq!(head.lengths(&sent[ANSWER..ANSWER + 8]).unwrap(), [3]);
        assert!(head.lengths(&u64::MAX.to_ne_bytes()).is_none());
        assert!(head.lengths(&(LONGEST as u64).to_ne_bytes()).is_none(), "one byte too long with the JSON");
        for (json, blobs) in [(u64::MAX, 0), (LONGEST as u64 + 1, 0), (0, 17)] {
            let bytes: Vec<u8> = [1, json, blobs].into_iter().flat_map(u64::to_ne_bytes).collect();
            assert!(Head::decode(bytes.as_slice().try_into().unwrap()).is_none());
        }
    }

    #[test]
    fn fault_keeps_its_kind_its_text_and_its_next_step() {
        let sent = answer(Err(Fault::new(Kind::TooBig, "x".repeat(9000)).next("smaller")), false);
        let head = Head::decode(sent[..ANSWER].try_into().unwrap()).unwrap();
        assert!(!head.worked);
        let fault = fault("`a`", &sent[ANSWER..]);
        assert_eq!(
            (fault.kind, fault.what.len(), fault.next.as_deref()),
            (Kind::TooBig, FAULT, Some("smaller"))
        );
    }
}
