//! An SSH server that misbehaves.

use std::{
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use russh::{
    Channel, ChannelId, MethodKind, MethodSet, Sig,
    keys::{PrivateKey, ssh_key::Algorithm},
    server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, run_stream},
};

/// The password that it takes.
pub(crate) const PASSWORD: &str = "canary-password-7d1f";

/// A russh server, in a thread of its own.
pub(crate) struct Hostile {
    pub(crate) port: u16,
    key: PrivateKey,
    connections: Arc<AtomicUsize>,
}

impl Hostile {
    pub(crate) fn start() -> Self {
        let key = PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let (counted, shown) = (connections.clone(), key.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener, shown, counted));
        });
        Self { port, key, connections }
    }

    /// Returns the line by which it is known.
    pub(crate) fn line(&self) -> String {
        format!("[127.0.0.1]:{} {}", self.port, self.key.public_key().to_openssh().unwrap())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, key: PrivateKey, connections: Arc<AtomicUsize>) {
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let config = Arc::new(Config {
        keys: vec![key],
        methods: MethodSet::from([MethodKind::Password, MethodKind::PublicKey].as_slice()),
        auth_rejection_time: std::time::Duration::ZERO,
        ..Config::default()
    });
    while let Ok((stream, _)) = listener.accept().await {
        connections.fetch_add(1, Ordering::Relaxed);
        let config = config.clone();
        tokio::spawn(async move {
            if let Ok(session) = run_stream(config, stream, Peer).await {
                let _ = session.await;
            }
        });
    }
}

struct Peer;

impl Handler for Peer {
    type Error = russh::Error;

    async fn auth_password(&mut self, _: &str, password: &str) -> Result<Auth, Self::Error> {
        Ok(if password == PASSWORD { Auth::Accept } else { Auth::reject() })
    }

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: russh::server::VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(Auth::reject())
    }

    async fn authentication_banner(&mut self) -> Result<Option<String>, Self::Error> {
        Ok(Some("a banner \u{1b}[2J".repeat(1000)))
    }

    async fn channel_open_session(
        &mut self,
        _: Channel<Msg>,
        reply: ChannelOpenHandle,
        _: &mut Session,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    /// Misbehaves as the command says.
    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        match command {
            b"refuse" => session.channel_failure(id)?,
            b"drop" => {
                session.channel_success(id)?;
                session.data(id, "begun\n")?;
                let handle = session.handle();
                tokio::spawn(async move {
                    let _ = handle
                        .disconnect(russh::Disconnect::ByApplication, "gone".into(), String::new())
                        .await;
                });
            }
            b"signal" => {
                session.channel_success(id)?;
                session.exit_signal_request(id, Sig::SEGV, true, "", "")?;
                session.close(id)?;
            }
            b"unsaid" => {
                session.channel_success(id)?;
                session.data(id, "words \u{1b}]0;title\u{7}\u{202e}\n")?;
                session.close(id)?;
            }
            b"hang" => {
                session.channel_success(id)?;
                session.data(id, "here\n")?;
            }
            b"flood" => {
                session.channel_success(id)?;
                let handle = session.handle();
                tokio::spawn(async move {
                    for _ in 0..640 {
                        if handle.data(id, vec![b'x'; 32 << 10]).await.is_err() {
                            return;
                        }
                    }
                    let _ = handle.exit_status_request(id, 0).await;
                    let _ = handle.close(id).await;
                });
            }
            _ => {
                session.channel_success(id)?;
                session.data(id, command.to_vec())?;
                session.exit_status_request(id, 0)?;
                session.close(id)?;
            }
        }
        Ok(())
    }
}
