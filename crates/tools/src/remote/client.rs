//! SSH connections: host key checks, jump hosts, and keepalives.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use kit::{Cx, Fault, Kind, OrFault, services::Matter};
use parking_lot::Mutex;
use russh::{
    Channel, Disconnect, Preferred, SshId,
    client::{self, ChannelOpenHandle, Config, Handle, Handler, Msg, Session},
    keys::{PublicKey, PublicKeyOrCertificate},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};

use super::{
    auth::authenticate,
    destination::{Hop, Route, shown_path},
    known_hosts::{self, KeyStatus, Known, fingerprint},
    stop::Watchdog,
};

/// Interval of keepalives; after three without an answer the connection counts as lost.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Time for authentication beyond the connect timeout: a key's passphrase takes a while.
const TO_LET_IN: Duration = Duration::from_secs(10);

/// An open connection to the last machine of a route.
pub(super) struct Connection {
    handle: Handle<Client>,
    /// The connections to the jump hosts.
    _through: Vec<Handle<Client>>,
    seen: Arc<Seen>,
    pub(super) place: String,
    last: Mutex<Instant>,
    in_use: AtomicUsize,
    /// Whether commands are not run by a shell there.
    is_plain: AtomicBool,
    /// Kills its commands there when the connection is lost.
    pub(super) watchdog: Watchdog,
}

/// Marks a connection as used until it is dropped.
pub(super) struct Use(Arc<Connection>);

impl Drop for Use {
    fn drop(&mut self) {
        *self.0.last.lock() = Instant::now();
        self.0.in_use.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Connection {
    /// Connects machine by machine. A person is asked about an unknown host key.
    pub(super) async fn open(cx: &Cx, route: &Route) -> Result<(Self, Vec<String>), Fault> {
        let mut through: Vec<(Handle<Client>, Arc<Seen>)> = Vec::new();
        let mut notes = Vec::new();
        for hop in &route.hops {
            let reached = reach(cx, hop, through.last().map(|it| &it.0), &mut notes).await?;
            through.push(reached);
        }
        let Some((handle, seen)) = through.pop() else { return Err(Fault::bug("a way without a machine")) };
        let place = route.target().map(Hop::place).unwrap_or_default();
        let connection = Self {
            handle,
            _through: through.into_iter().map(|it| it.0).collect(),
            seen,
            place,
            last: Mutex::new(Instant::now()),
            in_use: AtomicUsize::new(0),
            is_plain: AtomicBool::new(false),
            watchdog: Watchdog::default(),
        };
        Ok((connection, notes))
    }

    /// Opens a channel.
    pub(super) async fn channel(&self) -> Result<Channel<Msg>, russh::Error> {
        self.handle.channel_open_session().await
    }

    /// Marks it as used.
    pub(super) fn hold(self: &Arc<Self>) -> Use {
        self.in_use.fetch_add(1, Ordering::AcqRel);
        Use(self.clone())
    }

    /// Returns how long it was unused.
    pub(super) fn idle(&self) -> Option<Duration> {
        (self.in_use.load(Ordering::Acquire) == 0).then(|| self.last.lock().elapsed())
    }

    pub(super) fn is_closed(&self) -> bool {
        self.handle.is_closed()
    }

    /// Returns whether a shell may run commands, so that a prefix for it is understood.
    pub(super) fn has_a_shell(&self) -> bool {
        let software = self.seen.software.lock();
        let is_unix =
            (software.contains("OpenSSH") || software.contains("dropbear")) && !software.contains("Windows");
        is_unix && !self.is_plain.load(Ordering::Relaxed)
    }

    /// Records that commands are to be sent without a prefix.
    pub(super) fn has_no_shell(&self) {
        self.is_plain.store(true, Ordering::Relaxed);
    }

    /// Returns why it ended.
    pub(super) fn why_ended(&self) -> String {
        self.seen.ended.lock().clone().unwrap_or_else(|| "the connection was lost".to_owned())
    }

    /// Disconnects.
    pub(super) async fn end(&self) {
        let _ = self.handle.disconnect(Disconnect::ByApplication, "", "").await;
    }
}

/// Connects to one machine of the route, and authenticates.
async fn reach(
    cx: &Cx,
    hop: &Hop,
    through: Option<&Handle<Client>>,
    notes: &mut Vec<String>,
) -> Result<(Handle<Client>, Arc<Seen>), Fault> {
    let mut known = known(cx, hop).await?;
    let (mut handle, seen) = match shake(cx, hop, &known, through).await? {
        Ok(made) => made,
        Err(new) => {
            // No connection is kept open while a person decides.
            let note = learn(cx, hop, &new, &known).await?;
            notes.extend(note);
            known = Known::only(new);
            shake(cx, hop, &known, through).await?.map_err(|_| {
                Fault::denied(format!("{} showed another key than the one that was approved", hop.place()))
            })?
        }
    };
    let within = hop.connect_timeout + TO_LET_IN;
    match timeout(within, authenticate(cx, &mut handle, hop)).await {
        Ok(done) => done?,
        Err(_) => return Err(silent(hop, "let us in or refused", within)),
    }
    Ok((handle, seen))
}

async fn known(cx: &Cx, hop: &Hop) -> Result<Known, Fault> {
    let (hop, preferences) = (hop.clone(), cx.preferences().clone());
    cx.blocking(move |_| Known::of(&hop, &preferences)).await
}

/// Any byte stream.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Returns a connection to a machine with a known key; or its key, if that is unknown.
async fn shake(
    cx: &Cx,
    hop: &Hop,
    known: &Known,
    through: Option<&Handle<Client>>,
) -> Result<Result<(Handle<Client>, Arc<Seen>), PublicKey>, Fault> {
    let stream: Box<dyn Stream> = match through {
        None => {
            let stream = cx.net().connect(&hop.host, hop.port).await?;
            // Answers are small, and waited for.
            let _ = stream.set_nodelay(true);
            Box::new(stream)
        }
        Some(handle) => {
            let opening = handle.channel_open_direct_tcpip(&hop.host, u32::from(hop.port), "127.0.0.1", 0);
            let opened = timeout(hop.connect_timeout, opening).await;
            let opened = opened.map_err(|_| {
                silent(hop, "could be reached from the machine before it", hop.connect_timeout)
            })?;
            let what = format!("{} can't be reached from the machine before it", hop.place());
            Box::new(opened.or_fault(Kind::Unavailable, &what)?.into_stream())
        }
    };
    let seen = Arc::new(Seen::default());
    let client = Client { known: known.clone(), seen: seen.clone() };
    let making = client::connect_stream(Arc::new(config(known)), stream, client);
    let Ok(made) = timeout(hop.connect_timeout, making).await else {
        return Err(silent(hop, "answered as an SSH server does", hop.connect_timeout));
    };
    let shown = seen.key.lock().take();
    match (made, shown) {
        (Ok(handle), _) => Ok(Ok((handle, seen))),
        (Err(russh::Error::UnknownKey), Some(key)) => match known.status(&key) {
            KeyStatus::New => Ok(Err(key)),
            status => Err(refused(cx, hop, known, &key, status)),
        },
        (Err(error), _) => Err(Fault::new(
            Kind::Unavailable,
            format!("{} does not speak SSH as it should: {}", hop.place(), words(&error)),
        )
        .caused_by(error)),
    }
}

fn config(known: &Known) -> Config {
    // Requests a known key type first: a machine may have several keys.
    let usual = Preferred::default();
    let is_known = |it: &&russh::keys::Algorithm| {
        known.keys().iter().any(|(key, _)| {
            let own = key.algorithm();
            own.as_str() == it.as_str()
                || (own.clone().is_rsa() && matches!(it, russh::keys::Algorithm::Rsa { .. }))
        })
    };
    let (mut key, others): (Vec<_>, Vec<_>) = usual.key.iter().partition::<Vec<_>, _>(is_known);
    key.extend(others);
    let key: Vec<_> = key.into_iter().cloned().collect();
    Config {
        client_id: SshId::Standard(Cow::Borrowed(concat!("SSH-2.0-haft_", env!("CARGO_PKG_VERSION")))),
        keepalive_interval: Some(KEEPALIVE),
        preferred: Preferred { key: Cow::Owned(key), ..usual },
        ..Config::default()
    }
}

/// Asks a person about an unknown key, and stores it if they approve it for longer.
async fn learn(cx: &Cx, hop: &Hop, key: &PublicKey, known: &Known) -> Result<Option<String>, Fault> {
    let (name, print) = (known_hosts::name_of(hop), fingerprint(key));
    let file = known_hosts::file_of(cx.preferences());
    let home = cx.preferences().home.clone();
    let shown = file.as_deref().map(|it| shown_path(it, home.as_deref())).unwrap_or_default();
    let line = known_hosts::line_of(hop, key);
    let matter = Matter {
        rule: "ssh_host_key",
        about: format!("{name} {print}"),
        says: "the key of this host is not known yet, so whoever answers there may be somebody else",
        effects: vec![format!("trust {name} by its key {print}")],
        keeps: line.is_some().then(|| format!("keep that key in {shown}")),
    };
    let authority = if known.by_authority {
        " (a @cert-authority line names this host; certificates of hosts are not looked at yet)"
    } else {
        ""
    };
    let lasts = cx.confirm().confirm(matter).await.map_err(|fault| match fault.kind {
        Kind::Denied => {
            let add = line.as_ref().map_or_else(String::new, |it| format!(": `echo '{it}' >> {shown}`"));
            Fault { what: format!("{}{authority}", fault.what), ..fault }
                .next(format!("A person who has compared the fingerprint can add this very key{add}."))
        }
        _ => fault,
    })?;
    if !lasts {
        return Ok(None);
    }
    let (Some(file), Some(line)) = (file, line) else {
        return Ok(Some(format!("[the key of {name} is kept nowhere]")));
    };
    let kept = cx.blocking(move |_| Ok(known_hosts::add(&file, &line))).await?;
    Ok(Some(match kept {
        Ok(()) => format!("[the key of {name} is now kept in {shown}]"),
        Err(error) => {
            format!("[the key of {name} could not be kept in {shown}: {error}]")
        }
    }))
}

fn refused(cx: &Cx, hop: &Hop, known: &Known, key: &PublicKey, status: KeyStatus) -> Fault {
    let (name, print) = (known_hosts::name_of(hop), fingerprint(key));
    if status == KeyStatus::Revoked {
        return Fault::denied(format!("the key {print} of {name} was revoked by a person; nothing was sent"))
            .next("Only a person can change that, in known_hosts.");
    }
    let home = cx.preferences().home.clone();
    let before: Vec<String> = known
        .keys()
        .iter()
        .map(|(key, at)| format!("{} ({})", fingerprint(key), shown_path(at.as_ref(), home.as_deref())))
        .collect();
    Fault::denied(format!(
        "{name} showed another key than it is known by; somebody may be listening in between, so nothing was sent\n\
         known: {}\nshown: {print}",
        before.join(", ")
    ))
    .next(format!(
        "Tell the person. If the machine was reinstalled, they can remove the old key: `ssh-keygen -R '{name}'`."
    ))
}

fn silent(hop: &Hop, what: &str, within: Duration) -> Fault {
    Fault::new(Kind::Timeout, format!("{} has not {what} within {} s", hop.place(), within.as_secs()))
}

/// Describes an SSH error for a model.
pub(super) fn words(error: &russh::Error) -> String {
    match error {
        russh::Error::Version => "its first line is none of SSH 2.0".to_owned(),
        russh::Error::Disconnect | russh::Error::HUP | russh::Error::SendError | russh::Error::RecvError => {
            "the connection was closed".to_owned()
        }
        error => error.to_string().chars().take(300).collect(),
    }
}

impl Known {
    /// Accepts this key only.
    fn only(key: PublicKey) -> Self {
        Self::default().with(key)
    }
}

/// Facts learned on a connection.
#[derive(Default)]
struct Seen {
    key: Mutex<Option<PublicKey>>,
    ended: Mutex<Option<String>>,
    /// The server's software name.
    software: Mutex<String>,
}

/// haft's side of a connection: checks host keys, and opens no channel on request of a server.
pub(super) struct Client {
    known: Known,
    seen: Arc<Seen>,
}

impl Handler for Client {
    type Error = russh::Error;

    async fn check_server_key(&mut self, key: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let PublicKeyOrCertificate::PublicKey { key, .. } = key else { return Ok(false) };
        *self.seen.key.lock() = Some(key.clone());
        Ok(self.known.status(key) == KeyStatus::Known)
    }

    async fn kex_done(
        &mut self,
        _: Option<&[u8]>,
        _: &russh::Names,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        *self.seen.software.lock() = String::from_utf8_lossy(session.remote_sshid()).into_owned();
        Ok(())
    }

    async fn openssh_ext_host_keys_announced(
        &mut self,
        _: Vec<PublicKey>,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn disconnected(
        &mut self,
        reason: client::DisconnectReason<Self::Error>,
    ) -> Result<(), Self::Error> {
        match reason {
            client::DisconnectReason::ReceivedDisconnect(said) => {
                let said: String = said.message.chars().take(200).collect();
                *self.seen.ended.lock() = Some(format!("the server ended the connection: {said}"));
                Ok(())
            }
            client::DisconnectReason::Error(error) => {
                *self.seen.ended.lock() = Some(words(&error));
                Err(error)
            }
        }
    }

    // Dropping the handle refuses. haft requested nothing for which a server would have to open a channel.

    async fn server_channel_open_forwarded_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_forwarded_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_agent_forward(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_session(
        &mut self,
        _: Channel<Msg>,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_tcpip(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_direct_streamlocal(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    async fn server_channel_open_x11(
        &mut self,
        _: Channel<Msg>,
        _: &str,
        _: u32,
        _: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}
