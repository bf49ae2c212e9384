//! SSH authentication.
//!
//! In the order of OpenSSH: keys (those of the agent that the configuration names, the agent's others,
//! files), keyboard-interactive questions, the password. Keys never leave the agent.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use kit::{Cx, Fault, Kind};
use russh::{
    MethodKind, MethodSet,
    client::{AuthResult, Handle, KeyboardInteractiveAuthResponse},
    keys::{
        HashAlg, PrivateKey, PrivateKeyWithHashAlg, PublicKey, agent::AgentIdentity,
        agent::client::AgentClient, decode_secret_key, ssh_key::PrivateKey as OpenSsh,
    },
};
use tokio::net::UnixStream;

use super::{
    client::Client,
    destination::{Hop, shown_path},
};

/// Maximum number of keys that are tried: most servers disconnect after this many attempts.
const MOST_KEYS: usize = 6;

/// The same if a password is to be tried after them.
const MOST_KEYS_BEFORE_PASSWORD: usize = 4;

/// Maximum number of questions of a server.
const MOST_QUESTIONS: usize = 8;

/// Maximum size of a key file.
const LONGEST: u64 = 64 << 10;

/// Authenticates; the fault lists the attempts.
pub(super) async fn authenticate(cx: &Cx, handle: &mut Handle<Client>, hop: &Hop) -> Result<(), Fault> {
    let mut entry =
        Entry { cx, handle, hop, left: MethodSet::empty(), tried: Vec::new(), passed_over: Vec::new() };
    // This returns the methods that the server accepts.
    if entry.none().await? || entry.keys().await? || entry.secrets().await? {
        return Ok(());
    }
    Err(entry.refused())
}

/// The state of one authentication.
struct Entry<'a> {
    cx: &'a Cx,
    handle: &'a mut Handle<Client>,
    hop: &'a Hop,
    /// The remaining methods that the server accepts.
    left: MethodSet,
    tried: Vec<String>,
    /// Keys that were not tried, each with the reason.
    passed_over: Vec<String>,
}

impl Entry<'_> {
    async fn none(&mut self) -> Result<bool, Fault> {
        let answer = self.handle.authenticate_none(&self.hop.user).await;
        self.settle(answer, None)
    }

    async fn keys(&mut self) -> Result<bool, Fault> {
        if !self.takes(MethodKind::PublicKey) {
            return Ok(false);
        }
        let most = if self.hop.password.is_some() { MOST_KEYS_BEFORE_PASSWORD } else { MOST_KEYS };
        let mut offered: Vec<PublicKey> = Vec::new();
        let named = self.public_halves().await;
        let mut agent = self.agent().await;
        let held = match &mut agent {
            Some(agent) => agent.request_identities().await.unwrap_or_default(),
            None => Vec::new(),
        };
        let is_named = |key: &PublicKey| named.iter().any(|it| it.key_data() == key.key_data());
        let (first, others): (Vec<PublicKey>, Vec<PublicKey>) = held
            .into_iter()
            .filter_map(|it| match it {
                AgentIdentity::PublicKey { key, .. } => Some(key),
                AgentIdentity::Certificate { .. } => None,
            })
            .partition(is_named);
        let others = if self.hop.only_these { Vec::new() } else { others };
        if let Some(agent) = &mut agent {
            for key in first.into_iter().chain(others).take(most) {
                let hash = self.hash_for(&key).await?;
                self.tried.push(format!("a key of the agent ({})", key.fingerprint(HashAlg::Sha256)));
                offered.push(key.clone());
                let answer = self.handle.authenticate_publickey_with(&self.hop.user, key, hash, agent).await;
                let answer = match answer {
                    Ok(answer) => Ok(answer),
                    // An agent that refuses to sign is skipped; a lost connection is an error.
                    Err(_) if self.handle.is_closed() => return Err(self.gone()),
                    Err(_) => continue,
                };
                if self.settle(answer, Some(MethodKind::PublicKey))? {
                    return Ok(true);
                }
            }
        }
        for path in &self.hop.identities {
            if offered.len() >= most || !self.takes(MethodKind::PublicKey) {
                break;
            }
            let Some(key) = self.key_of(path).await? else { continue };
            if offered.iter().any(|it| it.key_data() == key.public_key().key_data()) {
                continue;
            }
            let hash = self.hash_for(key.public_key()).await?;
            self.tried.push(format!("the key {}", self.shown(path)));
            offered.push(key.public_key().clone());
            let key = PrivateKeyWithHashAlg::new(Arc::new(key), hash);
            let answer = self.handle.authenticate_publickey(&self.hop.user, key).await;
            if self.settle(answer, Some(MethodKind::PublicKey))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn secrets(&mut self) -> Result<bool, Fault> {
        let Some(password) = &self.hop.password else { return Ok(false) };
        let password = password.reveal(self.cx, &self.hop.host, self.hop.port)?;
        if self.takes(MethodKind::KeyboardInteractive) {
            self.tried.push("the password, as an answer".to_owned());
            if self.answer_questions(&password).await? {
                return Ok(true);
            }
        }
        if !self.takes(MethodKind::Password) {
            return Ok(false);
        }
        self.tried.push("the password".to_owned());
        let answer = self.handle.authenticate_password(&self.hop.user, password).await;
        self.settle(answer, Some(MethodKind::Password))
    }

    /// Answers a single hidden question with the password.
    async fn answer_questions(&mut self, password: &str) -> Result<bool, Fault> {
        use KeyboardInteractiveAuthResponse::{Failure, InfoRequest, Success};
        let mut said = false;
        let mut answer =
            self.handle.authenticate_keyboard_interactive_start(&self.hop.user, None::<String>).await;
        for _ in 0..MOST_QUESTIONS {
            let answers = match answer {
                Ok(Success) => return Ok(true),
                Ok(Failure { remaining_methods, partial_success }) => {
                    let failed = AuthResult::Failure { remaining_methods, partial_success };
                    return self.settle(Ok(failed), Some(MethodKind::KeyboardInteractive));
                }
                Ok(InfoRequest { prompts, .. }) => match prompts.as_slice() {
                    [] => Vec::new(),
                    [only] if !only.echo && !said => {
                        said = true;
                        vec![password.to_owned()]
                    }
                    // Any other question is unknown.
                    asked => vec![String::new(); asked.len()],
                },
                Err(_) => return Err(self.gone()),
            };
            answer = self.handle.authenticate_keyboard_interactive_respond(answers).await;
        }
        Ok(false)
    }

    /// Returns whether the attempt succeeded; if not, records the remaining methods.
    fn settle(
        &mut self,
        answer: Result<AuthResult, russh::Error>,
        method: Option<MethodKind>,
    ) -> Result<bool, Fault> {
        match answer {
            Ok(AuthResult::Success) => Ok(true),
            Ok(AuthResult::Failure { .. }) if self.handle.is_closed() => Err(self.gone()),
            Ok(AuthResult::Failure { remaining_methods, partial_success }) => {
                if partial_success && let Some(last) = self.tried.last_mut() {
                    last.push_str(" (accepted, and more is asked for)");
                }
                self.left = remaining_methods;
                if let Some(method) = method.filter(|_| partial_success) {
                    self.left.remove(method);
                }
                Ok(false)
            }
            Err(_) => Err(self.gone()),
        }
    }

    fn takes(&self, method: MethodKind) -> bool {
        self.left.contains(&method)
    }

    async fn agent(&mut self) -> Option<AgentClient<UnixStream>> {
        let path = self.hop.agent.as_ref()?;
        match AgentClient::connect_uds(path).await {
            Ok(agent) => Some(agent),
            Err(_) => {
                self.passed_over.push("the ssh agent does not answer".to_owned());
                None
            }
        }
    }

    /// Returns the hash that this server accepts for an RSA key; `None` for other keys. SHA-1 is not used.
    async fn hash_for(&self, key: &PublicKey) -> Result<Option<HashAlg>, Fault> {
        if !key.algorithm().is_rsa() {
            return Ok(None);
        }
        let best = self.handle.best_supported_rsa_hash().await.map_err(|_| self.gone())?;
        Ok(Some(best.flatten().unwrap_or(HashAlg::Sha256)))
    }

    /// Returns the public keys of the named files, by which those of the agent are selected.
    async fn public_halves(&self) -> Vec<PublicKey> {
        let files: Vec<PathBuf> = self.hop.identities.clone();
        let halves = self.cx.blocking(move |_| {
            let half = |path: &PathBuf| {
                let mut public = path.clone().into_os_string();
                public.push(".pub");
                let text = text_of(Path::new(&public)).or_else(|| text_of(path))?;
                let of_private = || Some(OpenSsh::from_openssh(&text).ok()?.public_key().clone());
                PublicKey::from_openssh(text.trim()).ok().or_else(of_private)
            };
            Ok(files.iter().filter_map(half).collect())
        });
        halves.await.unwrap_or_default()
    }

    /// Returns the key in this file; `None` if it can't be used, which is reported later.
    async fn key_of(&mut self, path: &Path) -> Result<Option<PrivateKey>, Fault> {
        let shown = self.shown(path);
        let passphrase = match &self.hop.passphrase {
            Some(name) => Some(name.reveal(self.cx, &self.hop.host, self.hop.port)?),
            None => None,
        };
        let has_passphrase = passphrase.is_some();
        let at = path.to_owned();
        let found = self.cx.blocking(move |_| Ok(read_key(&at, passphrase.as_deref()))).await?;
        match found {
            Ok(key) => return Ok(Some(key)),
            Err(Unread::NotThere) => self.passed_over.push(format!("{shown} is not there")),
            Err(Unread::Encrypted) if has_passphrase => {
                self.passed_over.push(format!("the passphrase does not open {shown}"));
            }
            Err(Unread::Encrypted) => self.passed_over.push(format!("{shown} is encrypted")),
            Err(Unread::NoKey) => {
                self.passed_over.push(format!("{shown} is not a private key of a kind that is known here"));
            }
        }
        Ok(None)
    }

    fn shown(&self, path: &Path) -> String {
        shown_path(path, self.cx.preferences().home.as_deref())
    }

    fn gone(&self) -> Fault {
        let place = self.hop.place();
        let tried =
            if self.tried.is_empty() { String::new() } else { format!(" after {}", self.tried.join(", ")) };
        Fault::new(
            Kind::Unavailable,
            format!("{place} ended the connection while it was to let us in{tried}"),
        )
    }

    fn refused(&self) -> Fault {
        let Hop { user, password, .. } = self.hop;
        let takes: Vec<String> = self.left.iter().map(|it| <&'static str>::from(it).to_owned()).collect();
        let tried = if self.tried.is_empty() { "nothing".to_owned() } else { self.tried.join(", ") };
        let mut what = format!("{} does not let `{user}` in: tried {tried}", self.hop.place());
        if !takes.is_empty() {
            what.push_str(&format!("; it takes {}", takes.join(", ")));
        }
        for why in &self.passed_over {
            what.push_str(&format!("; {why}"));
        }
        let encrypted = self.passed_over.iter().any(|it| it.ends_with("is encrypted"));
        let by_password =
            [MethodKind::Password, MethodKind::KeyboardInteractive].iter().any(|it| self.takes(*it));
        let next = if encrypted {
            "Give its passphrase by name: {\"passphrase\": \"{{secret:NAME}}\"}; or have a person `ssh-add` the key."
        } else if by_password && password.is_none() {
            "Give the password by name: {\"password\": \"{{secret:NAME}}\"}; or another `user` or `identity`."
        } else {
            "Check `user` and `identity`; a person can add the key to ~/.ssh/authorized_keys there."
        };
        Fault::denied(what).next(next)
    }
}

/// The reason why a file has no usable key.
enum Unread {
    NotThere,
    Encrypted,
    NoKey,
}

fn read_key(path: &Path, passphrase: Option<&str>) -> Result<PrivateKey, Unread> {
    let text = text_of(path).ok_or(Unread::NotThere)?;
    if let Ok(key) = decode_secret_key(&text, None)
        && !key.is_encrypted()
    {
        return Ok(key);
    }
    let is_encrypted =
        text.contains("ENCRYPTED") || OpenSsh::from_openssh(&text).is_ok_and(|it| it.is_encrypted());
    if !is_encrypted {
        return Err(Unread::NoKey);
    }
    let passphrase = passphrase.ok_or(Unread::Encrypted)?;
    decode_secret_key(&text, Some(passphrase)).map_err(|_| Unread::Encrypted)
}

fn text_of(path: &Path) -> Option<String> {
    let file = File::open(path).ok()?;
    let mut text = String::new();
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    Some(text)
}
