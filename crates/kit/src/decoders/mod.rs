//! Decoding of foreign bytes (pictures, documents, pages, meshes) in worker processes: a hostile file costs its own
//! call, never haft, its memory or the calls beside it.
//!
//! A decoder is a pure function of bytes that implements [`Decoder`]. [`Decoders::run`] sends the bytes to a worker:
//! haft's own binary, started with [`WORKER`] as its first argument. A worker can open no file and no socket, has an
//! address-space limit, and is killed at the decoder's deadline or when its call is cancelled. The bytes of a session
//! never reach a worker that decoded another session's.

mod pool;
mod unwind;
mod wire;
mod worker;

use std::{path::Path, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};

pub use unwind::{catch, leave};
pub use worker::{Confinement, serve};

use crate::{Fault, Kind, text::Content};
use pool::{Owner, Pool};

/// The first argument of our own binary that makes it a worker.
pub const WORKER: &str = "decoder";

/// Stack of a decoder thread, in bytes: recursion as deep as a format allows needs this much.
pub(super) const STACK: usize = 64 << 20;

/// The memory that a decoder may use, in bytes, where it does not name its own limit. Its stack is not part of it.
pub const MEMORY: u64 = 192 << 20;

/// A decoder of untrusted bytes. The fields are its options; they are sent to the worker as JSON.
pub trait Decoder: Serialize + DeserializeOwned + Send + 'static {
    /// The result of decoding.
    type Answer: Serialize + DeserializeOwned + Send + 'static;

    /// The name by which a worker finds it.
    const NAME: &'static str;

    /// Time after which the worker is killed.
    const DEADLINE: Duration = Duration::from_secs(20);

    /// Whether [`prepare`](Self::prepare) has work to do; such a decoder has workers of its own.
    const PREPARES: bool = false;

    /// Reads what the decoder needs of this machine, such as fonts, before its worker can open no file any more.
    fn prepare() {}

    /// Returns the memory limit, in bytes, for an input of `bytes` bytes.
    fn memory(bytes: u64) -> u64 {
        let _ = bytes;
        MEMORY
    }

    /// Decodes. It can use only these bytes and what [`prepare`](Self::prepare) read.
    ///
    /// # Errors
    /// The reason why they can't be decoded. Only the kind, the text and the next step of a fault leave the worker.
    fn decode(self, data: Vec<u8>) -> Result<Decoded<Self::Answer>, Fault>;
}

/// A decoder's result: facts, and byte strings that are too large for JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decoded<A> {
    /// The facts.
    pub answer: A,
    /// The bytes, such as pictures.
    pub blobs: Vec<Vec<u8>>,
}

impl<A> From<A> for Decoded<A> {
    fn from(answer: A) -> Self {
        Self { answer, blobs: Vec::new() }
    }
}

/// A decoder as a worker knows it.
#[derive(Clone, Copy)]
pub struct Entry {
    name: &'static str,
    prepare: fn(),
    decode: fn(&[u8], Vec<u8>) -> Result<Raw, Fault>,
}

/// An answer as it leaves a worker: JSON, and bytes.
struct Raw {
    json: Vec<u8>,
    blobs: Vec<Vec<u8>>,
}

impl Entry {
    /// Returns the entry of decoder `D`.
    pub const fn of<D: Decoder>() -> Self {
        Self { name: D::NAME, prepare: D::prepare, decode: decode::<D> }
    }

    /// The decoder's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Decodes in this process as a worker does: options as JSON, then the bytes. For fuzz targets.
    ///
    /// # Errors
    /// Those of the decoder, and [`Kind::Bug`] for invalid options.
    pub fn decode(&self, options: &[u8], data: Vec<u8>) -> Result<(), Fault> {
        (self.decode)(options, data).map(drop)
    }
}

fn decode<D: Decoder>(options: &[u8], data: Vec<u8>) -> Result<Raw, Fault> {
    let decoder: D = serde_json::from_slice(options)
        .map_err(|error| Fault::bug(format!("the options of `{}` can't be read: {error}", D::NAME)))?;
    let Decoded { answer, blobs } = decoder.decode(data)?;
    let json = serde_json::to_vec(&answer)
        .map_err(|error| Fault::bug(format!("the answer of `{}` can't be written: {error}", D::NAME)))?;
    Ok(Raw { json, blobs })
}

/// A session's handle for decoding untrusted bytes. Cheap to clone.
#[derive(Clone)]
pub struct Decoders {
    place: Place,
}

#[derive(Clone)]
enum Place {
    Here,
    Apart { pool: Arc<Pool>, owner: Arc<Owner> },
}

impl std::fmt::Debug for Decoders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.place {
            Place::Here => "Decoders(here)",
            Place::Apart { .. } => "Decoders(apart)",
        })
    }
}

impl Decoders {
    /// Decodes in this process, without any isolation: for tests, and for a program that only decodes its own files.
    pub fn here() -> Self {
        Self { place: Place::Here }
    }

    /// Decodes in worker processes of this program, which calls [`serve`] when its first argument is
    /// [`WORKER`]. All handles of one program share its pool; each handle has workers of its own, so each
    /// session needs its own handle.
    pub fn apart(program: &Path) -> Self {
        Self { place: Place::Apart { pool: Pool::of(program), owner: Arc::new(Owner::new()) } }
    }

    /// Returns the parts of the isolation that decoder workers lack on this machine, in words; empty if none.
    /// Known once a worker was started.
    pub fn missing() -> String {
        pool::missing()
    }

    /// Decodes `data`. `what` names it in faults. Dropping the future kills the worker.
    ///
    /// # Errors
    /// Those of the decoder; [`Kind::Timeout`] at its deadline, [`Kind::TooBig`] when it needs more memory than it may
    /// use, [`Kind::Failed`] when it ended otherwise, [`Kind::Unavailable`] when no worker can be started.
    pub async fn run<D: Decoder>(
        &self,
        what: &str,
        decoder: D,
        data: impl Into<Content>,
    ) -> Result<Decoded<D::Answer>, Fault> {
        let data = data.into();
        match &self.place {
            Place::Here => {
                let what = what.to_owned();
                let work = move || unwind::on_deep_stack(&what, || decoder.decode(data.to_vec()));
                tokio::task::spawn_blocking(work)
                    .await
                    .unwrap_or_else(|error| Err(Fault::bug(format!("a decoder was given up: {error}"))))
            }
            Place::Apart { pool, owner } => {
                let options = serde_json::to_vec(&decoder).map_err(|error| {
                    Fault::bug(format!("the options of `{}` can't be written: {error}", D::NAME))
                })?;
                let request = wire::Request {
                    name: D::NAME,
                    options: &options,
                    data: &data,
                    memory: D::memory(data.len() as u64),
                    deadline: D::DEADLINE,
                };
                let raw = pool.run(owner, what, &request, D::PREPARES).await?;
                let answer = serde_json::from_slice(&raw.json).map_err(|error| {
                    Fault::new(Kind::Failed, format!("the decoder of {what} gave no valid answer: {error}"))
                })?;
                Ok(Decoded { answer, blobs: raw.blobs })
            }
        }
    }
}
