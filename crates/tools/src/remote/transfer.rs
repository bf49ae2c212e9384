//! File transfer by SFTP: atomic in both directions.

use std::{
    collections::BTreeMap, fs::File, io::Read as _, os::unix::fs::MetadataExt as _, sync::Arc, time::Duration,
};

use kit::{Cx, Fault, Kind, Output, procs::Recording, services::Live};
use parking_lot::Mutex;
use russh::{Channel, ChannelMsg, client::Msg};
use russh_sftp::{
    client::{Config, RawSftpSession, error::Error},
    protocol::{FileAttributes, OpenFlags, StatusCode},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{client::Connection, command::Limits, pool::Open};
use crate::shell::answer::{self, time};

/// Size of one request, and number of requests in flight.
const PIECE: usize = 32 << 10;
const UNDER_WAY: usize = 64;

/// Bytes that are read from or written to the disk at a time.
const BATCH: usize = 1 << 20;

/// Bytes by which a fetched file may grow meanwhile; one that grows more may be endless.
const MOST_BEYOND: u64 = 64 << 20;

/// Time limit for one answer of a server.
const TO_ANSWER: Duration = Duration::from_secs(30);

/// Interval of progress reports.
const TELL: Duration = Duration::from_secs(1);

/// Time limit for cleaning up.
const TO_TIDY: Duration = Duration::from_millis(100);

/// The SFTP extension for an atomic rename over an existing file.
const REPLACE: &str = "posix-rename@openssh.com";

/// The direction of a transfer.
#[derive(Debug, Clone)]
pub(super) enum Way {
    /// From this machine to the remote one.
    Put { path: String, to: String },
    /// From the remote machine to this one.
    Get { from: String, path: String },
}

/// Transfers the file; it becomes a job if it exceeds the waiting time.
pub(super) async fn run(cx: &Cx, open: Open, way: Way, limits: Limits) -> Result<Output, Fault> {
    let Open { channel, connection, held: _held, notes } = open;
    let sftp = Sftp::open(channel, &connection).await?;
    let recording = Arc::new(cx.procs().recording());
    cx.caller().show(Live { output: Some(recording.clone()), ..Live::default() });
    let moving = Moving { sftp: &sftp, told: Mutex::new(Instant::now()), began: Instant::now(), recording };
    let until = limits.most.map(|it| moving.began + it);
    let mut work = std::pin::pin!(moving.bring(cx, &way));
    let mut is_job = false;
    let done = loop {
        tokio::select! {
            biased;
            () = cx.cancelled() => break Err(moving.stopped(Kind::Cancelled)),
            done = &mut work => break done,
            () = super::command::at(until) => break Err(moving.stopped(Kind::Timeout)),
            () = sleep(limits.wait), if !is_job => {
                is_job = true;
                cx.caller().go_on(moving.so_far(cx, &connection));
            }
        }
    };
    moving.recording.close();
    if done.is_err() {
        let _ = timeout(TO_TIDY, sftp.tidy()).await;
    }
    let text = done.map_err(|fault| match fault.kind {
        Kind::Unavailable if connection.is_closed() => {
            Fault { what: format!("{}: {}", fault.what, connection.why_ended()), ..fault }
        }
        _ => fault,
    })?;
    Ok(Output::text(answer::with(&text, &notes)))
}

/// An SFTP session.
struct Sftp {
    raw: Arc<RawSftpSession>,
    place: String,
    /// Whether the server supports the atomic rename.
    replaces: bool,
    syncs: bool,
    /// A temporary file there, which is removed unless the transfer finishes.
    unfinished: Mutex<Option<String>>,
}

impl Sftp {
    async fn open(mut channel: Channel<Msg>, connection: &Connection) -> Result<Self, Fault> {
        let place = connection.place.clone();
        let none = || {
            Fault::new(Kind::Unavailable, format!("{place} offers no SFTP, by which files are brought")).next(
                "Small texts can go by `command` with `stdin`: {\"command\": \"cat > f\", \"stdin\": …}.",
            )
        };
        channel.request_subsystem(true, "sftp").await.map_err(|_| none())?;
        let answered = async {
            loop {
                match channel.wait().await {
                    Some(ChannelMsg::Success) => return true,
                    Some(ChannelMsg::Failure | ChannelMsg::Close) | None => return false,
                    Some(_) => {}
                }
            }
        };
        if !timeout(TO_ANSWER, answered).await.unwrap_or(false) {
            return Err(none());
        }
        let config = Config { request_timeout_secs: TO_ANSWER.as_secs(), ..Config::default() };
        let raw = RawSftpSession::new_with_config(channel.into_stream(), config);
        let version = raw.init().await.map_err(|_| none())?;
        let has = |name: &str| version.extensions.contains_key(name);
        Ok(Self {
            replaces: has(REPLACE),
            syncs: has("fsync@openssh.com"),
            raw: Arc::new(raw),
            place,
            unfinished: Mutex::default(),
        })
    }

    /// Describes an SFTP error for a model.
    fn fault(&self, path: &str, verb: &str, error: &Error) -> Fault {
        let place = &self.place;
        match error {
            Error::Status(status) => match status.status_code {
                StatusCode::NoSuchFile => Fault::not_found(format!("there is no `{path}` on {place}"))
                    .next("Look with `command`: {\"command\": \"ls -la …\"}; paths are relative to the home folder there."),
                StatusCode::PermissionDenied => {
                    Fault::denied(format!("{place} does not allow us to {verb} `{path}`"))
                }
                _ => {
                    let said: String = status.error_message.chars().take(200).collect();
                    Fault::new(Kind::Failed, format!("{place} can't {verb} `{path}`: {said}"))
                }
            },
            Error::Timeout => Fault::new(
                Kind::Timeout,
                format!("{place} gave no answer within {} s when it was to {verb} `{path}`", TO_ANSWER.as_secs()),
            ),
            error => {
                let said: String = error.to_string().chars().take(200).collect();
                Fault::new(Kind::Unavailable, format!("{place} broke off when it was to {verb} `{path}`: {said}"))
            }
        }
    }

    /// Removes a temporary file there that will not be finished.
    async fn tidy(&self) {
        let unfinished = self.unfinished.lock().take();
        if let Some(path) = unfinished {
            let _ = self.raw.remove(path).await;
        }
    }

    /// Returns the path as the server expects it: relative to the home folder there.
    fn path<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix("~/") {
            Some(rest) => rest,
            None if path == "~" => ".",
            None => path,
        }
    }

    /// Returns the attributes of a file there, if it exists.
    async fn look(&self, path: &str) -> Result<Option<FileAttributes>, Fault> {
        match self.raw.stat(path).await {
            Ok(found) => Ok(Some(found.attrs)),
            Err(Error::Status(status)) if status.status_code == StatusCode::NoSuchFile => Ok(None),
            Err(error) => Err(self.fault(path, "look at", &error)),
        }
    }

    /// Renames a file over an existing one.
    async fn rename(&self, from: &str, to: &str, there: bool) -> Result<(), Fault> {
        let failed = |error: Error| self.fault(to, "write", &error);
        if !there {
            return self.raw.rename(from, to).await.map(drop).map_err(failed);
        }
        if self.replaces {
            let mut names = Vec::new();
            for name in [from, to] {
                names.extend(u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes());
                names.extend(name.as_bytes());
            }
            let answer = self.raw.extended(REPLACE, names).await.map_err(failed)?;
            return match answer {
                russh_sftp::protocol::Packet::Status(status) if status.status_code != StatusCode::Ok => {
                    Err(failed(Error::Status(status)))
                }
                _ => Ok(()),
            };
        }
        // For a moment neither exists; this server has no atomic rename.
        self.raw.remove(to).await.map_err(failed)?;
        self.raw.rename(from, to).await.map(drop).map_err(failed)
    }
}

/// A file in transfer.
struct Moving<'a> {
    sftp: &'a Sftp,
    recording: Arc<Recording>,
    began: Instant,
    told: Mutex<Instant>,
}

impl Moving<'_> {
    async fn bring(&self, cx: &Cx, way: &Way) -> Result<String, Fault> {
        match way {
            Way::Put { path, to } => self.put(cx, path, to).await,
            Way::Get { from, path } => self.get(cx, from, path).await,
        }
    }

    async fn put(&self, cx: &Cx, path: &str, to: &str) -> Result<String, Fault> {
        let sftp = self.sftp;
        let local = path.to_owned();
        let (mut file, size, mode) = cx.blocking(move |cx| opened(cx, &local)).await?;
        let (to, old) = self.destination(path, sftp.path(to)).await?;
        let new = temporary_name(&to)?;
        let mode = old.as_ref().and_then(|it| it.permissions).unwrap_or(mode) & 0o7777;
        let private = FileAttributes { permissions: Some(0o600), ..FileAttributes::empty() };
        let flags = OpenFlags::CREATE | OpenFlags::EXCLUDE | OpenFlags::WRITE;
        let handle = sftp.raw.open(new.as_str(), flags, private).await;
        let handle = handle.map_err(|error| sftp.fault(&to, "write", &error))?.handle;
        *sftp.unfinished.lock() = Some(new.clone());
        let mut sending: JoinSet<Result<(), Error>> = JoinSet::new();
        let mut sent = 0_u64;
        let one = |done: Option<Result<Result<(), Error>, _>>| match done {
            Some(Ok(Err(error))) => Err(sftp.fault(&to, "write", &error)),
            _ => Ok(()),
        };
        loop {
            let batch;
            (file, batch) = cx.blocking(move |_| read(file)).await?;
            if batch.is_empty() {
                break;
            }
            for piece in batch.chunks(PIECE) {
                if sending.len() >= UNDER_WAY {
                    one(sending.join_next().await)?;
                }
                let (raw, handle, piece, at) = (sftp.raw.clone(), handle.clone(), piece.to_vec(), sent);
                sent += piece.len() as u64;
                sending.spawn(async move { raw.write(handle, at, piece).await.map(drop) });
            }
            self.report(cx, "put", path, sent, size);
        }
        while let Some(done) = sending.join_next().await {
            one(Some(done))?;
        }
        let failed = |error: Error| sftp.fault(&to, "write", &error);
        let attributes = FileAttributes { permissions: Some(mode), ..FileAttributes::empty() };
        // Not every server supports modes.
        let _ = sftp.raw.fsetstat(handle.as_str(), attributes).await;
        if sftp.syncs {
            sftp.raw.fsync(handle.as_str()).await.map_err(failed)?;
        }
        sftp.raw.close(handle).await.map_err(failed)?;
        let arrived = sftp.look(&new).await?.and_then(|it| it.size);
        if arrived.is_some_and(|it| it != sent) {
            let what = format!(
                "{} has {} of {sent} bytes of `{to}`; nothing was changed there",
                sftp.place,
                arrived.unwrap_or(0)
            );
            return Err(Fault::new(Kind::Failed, what));
        }
        sftp.rename(&new, &to, old.is_some()).await?;
        *sftp.unfinished.lock() = None;
        let verb = if old.is_some() { "replaced" } else { "wrote" };
        Ok(format!("{verb} `{to}` on {}: {sent} bytes", sftp.place))
    }

    /// Returns the target of a file: inside the folder, if the path is one; and its present attributes.
    async fn destination(&self, path: &str, to: &str) -> Result<(String, Option<FileAttributes>), Fault> {
        let sftp = self.sftp;
        let name = path.rsplit('/').next().unwrap_or(path);
        let found = sftp.look(to).await?;
        let (to, found) = match found {
            Some(it) if it.file_type().is_dir() => {
                let below = format!("{}/{name}", to.trim_end_matches('/'));
                let found = sftp.look(&below).await?;
                (below, found)
            }
            None if to.ends_with('/') => {
                return Err(Fault::not_found(format!("there is no folder `{to}` on {}", sftp.place))
                    .next("Make it first: {\"command\": \"mkdir -p …\"}."));
            }
            found => (to.to_owned(), found),
        };
        match &found {
            Some(it) if !it.file_type().is_file() => Err(Fault::bad_args(format!(
                "`{to}` on {} is not a regular file; it is not replaced",
                sftp.place
            ))),
            // A symlink is kept, and its target is replaced.
            Some(_) => {
                let real = sftp.raw.realpath(to.as_str()).await.ok();
                let real = real.and_then(|it| it.files.into_iter().next()).map(|it| it.filename);
                Ok((real.unwrap_or(to), found))
            }
            None => Ok((to, None)),
        }
    }

    async fn get(&self, cx: &Cx, from: &str, path: &str) -> Result<String, Fault> {
        let sftp = self.sftp;
        let from = sftp.path(from);
        let failed = |error: &Error| sftp.fault(from, "read", error);
        let found = sftp.raw.stat(from).await.map_err(|error| failed(&error))?.attrs;
        if found.file_type().is_dir() {
            return Err(Fault::bad_args(format!(
                "`{from}` on {} is a folder; `get` brings one file",
                sftp.place
            ))
            .next("Pack it there first: {\"command\": \"tar czf /tmp/f.tgz -C … .\"}."));
        }
        if found.permissions.is_some() && !found.file_type().is_file() {
            let what =
                format!("`{from}` on {} is not a regular file; it has no end that is known", sftp.place);
            return Err(Fault::bad_args(what).next("Take a part of it: {\"command\": \"head -c 1000 …\"}."));
        }
        let size = found.size.unwrap_or(0);
        let opened = sftp.raw.open(from, OpenFlags::READ, FileAttributes::empty()).await;
        let handle = opened.map_err(|error| failed(&error))?.handle;
        let local = path.to_owned();
        let mut file = cx.blocking(move |cx| cx.files().begin(&local)).await?;
        let mut coming: JoinSet<(u64, Result<Vec<u8>, Error>)> = JoinSet::new();
        let mut early: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let ask = |coming: &mut JoinSet<_>, at: u64, length: usize| {
            let (raw, handle) = (sftp.raw.clone(), handle.clone());
            coming.spawn(async move { (at, piece(&raw, &handle, at, length).await) });
        };
        let (mut asked, mut got, mut batch) = (0_u64, 0_u64, Vec::with_capacity(BATCH));
        let mut is_over = false;
        while !is_over {
            // A file that reports size 0 may have content, as in /proc: then it is read piece by piece to its end.
            while (asked < size && coming.len() < UNDER_WAY)
                || (asked == got && coming.is_empty() && early.is_empty())
            {
                ask(&mut coming, asked, PIECE);
                asked += PIECE as u64;
            }
            let Some(Ok((at, came))) = coming.join_next().await else {
                return Err(Fault::bug("a piece of the file was lost"));
            };
            early.insert(at, came.map_err(|error| failed(&error))?);
            while let Some(piece) = early.remove(&got) {
                is_over |= piece.len() < PIECE;
                got += piece.len() as u64;
                batch.extend_from_slice(&piece);
                if is_over {
                    break;
                }
            }
            if got > size.saturating_add(MOST_BEYOND) {
                let what = format!(
                    "`{from}` on {} goes on beyond the {size} bytes that it was said to have; nothing was changed here",
                    sftp.place
                );
                return Err(Fault::new(Kind::TooBig, what)
                    .next("Take a part of it: {\"command\": \"head -c 1000000 …\"}."));
            }
            if batch.len() >= BATCH || is_over {
                let full = std::mem::take(&mut batch);
                (file, batch) = cx
                    .blocking(move |_| {
                        let (mut file, mut full) = (file, full);
                        file.write(&full)?;
                        full.clear();
                        Ok((file, full))
                    })
                    .await?;
                self.report(cx, "get", from, got, size);
            }
        }
        let _ = sftp.raw.close(handle.as_str()).await;
        if got < size {
            let what = format!(
                "`{from}` on {} ended after {got} of {size} bytes; nothing was changed here",
                sftp.place
            );
            return Err(Fault::new(Kind::Stale, what).next("If it is being written to, try again later."));
        }
        let saved = cx.blocking(move |_| file.finish()).await?;
        Ok(format!("wrote `{}`: {got} bytes from {}", saved.location, sftp.place))
    }

    /// Reports progress: to the waiting caller, and now and then to watchers of the job.
    fn report(&self, cx: &Cx, verb: &str, path: &str, done: u64, size: u64) {
        let line = format!("{verb} {path}: {done} of {size} bytes");
        #[expect(clippy::cast_precision_loss, reason = "it is shown, not counted with")]
        cx.progress(done as f64, (size > 0).then_some(size as f64), &line);
        let mut told = self.told.lock();
        if told.elapsed() >= TELL {
            *told = Instant::now();
            self.recording.feed(format!("{line}\n").as_bytes());
        }
    }

    fn stopped(&self, kind: Kind) -> Fault {
        let took = time(self.began.elapsed());
        let what = match kind {
            Kind::Timeout => format!("stopped at its `timeout_ms`, after {took}; nothing was changed"),
            _ => format!("stopped after {took}; nothing was changed"),
        };
        Fault::new(kind, what)
    }

    fn so_far(&self, cx: &Cx, connection: &Connection) -> Output {
        let job = cx.caller().job();
        let took = time(self.began.elapsed());
        let text = self.recording.tail(PIECE).text;
        Output::text(answer::with(
            text.lines().next_back().unwrap_or("nothing yet"),
            &[
                format!("[still on its way with {} after {took}: {job}]", connection.place),
                answer::next(cx, &job),
            ],
        ))
    }
}

/// Reads a piece of a file there; shorter only at its end.
async fn piece(raw: &RawSftpSession, handle: &str, at: u64, length: usize) -> Result<Vec<u8>, Error> {
    let mut piece = Vec::with_capacity(length);
    while piece.len() < length {
        let rest = u32::try_from(length - piece.len()).unwrap_or(u32::MAX);
        match raw.read(handle, at + piece.len() as u64, rest).await {
            Ok(data) if data.data.is_empty() => break,
            Ok(data) => piece.extend_from_slice(&data.data),
            Err(Error::Status(status)) if status.status_code == StatusCode::Eof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(piece)
}

/// Opens a file of this machine; returns it, its size and its mode.
fn opened(cx: &Cx, path: &str) -> Result<(File, u64, u32), Fault> {
    let open = cx.files().open(path).map_err(|fault| match fault.what.ends_with("is a folder") {
        true => fault
            .hint("`put` brings one file: pack the folder first[?, `tar czf f.tgz …` with `tool:shell`?]."),
        false => fault,
    })?;
    let cant =
        |error: std::io::Error| Fault::new(Kind::Unavailable, format!("`{path}` can't be read: {error}"));
    let file = open.file().try_clone().map_err(cant)?;
    let about = file.metadata().map_err(cant)?;
    Ok((file, about.len(), about.mode() & 0o777))
}

/// Reads the next bytes of a file; none at its end.
fn read(file: File) -> Result<(File, Vec<u8>), Fault> {
    let mut batch = Vec::with_capacity(BATCH);
    let read = (&file).take(BATCH as u64).read_to_end(&mut batch);
    read.map_err(|error| {
        Fault::new(Kind::Unavailable, format!("the file can't be read any further: {error}"))
    })?;
    Ok((file, batch))
}

/// Returns an unused name in the same folder.
fn temporary_name(path: &str) -> Result<String, Fault> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| Fault::bug(format!("no random number: {error}")))?;
    let random = u64::from_ne_bytes(random);
    Ok(match path.rsplit_once('/') {
        Some((folder, name)) => format!("{folder}/.{name}.haft-{random:x}"),
        None => format!(".{path}.haft-{random:x}"),
    })
}
