//! Access: one-use codes, sign-ins, tokens and shares, and where they are kept.
//!
//! Of a secret that haft made only its hash is kept: 256 random bits need no salt. The file is written under a lock, as several
//! servers of one person share it, and a sign-in outlives a restart of the server.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use kit::{Fault, Kind};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serve::{Principal, gate::whose};
pub(crate) use store::now_ms;

use crate::{once::of_another, role::Role};

/// How long a one-use code can be used.
const CODE: Duration = Duration::from_secs(600);

/// The codes that can be open at once.
const CODES: usize = 32;

/// How long a sign-in lasts.
pub(crate) const SIGN_IN: Duration = Duration::from_secs(30 * 24 * 3600);

/// So many sign-ins by one token, or by codes for one name, are kept; the oldest go. Nobody's sign-ins end another person's.
const SIGN_INS: usize = 32;

/// So many tokens and so many shares there can be.
const MOST: usize = 256;

/// The person or program that makes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Who {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Signed in by a cookie, which a browser sends by itself.
    pub(crate) by_cookie: bool,
    /// The hash of the token or of the cookie; empty for nobody.
    pub(crate) hash: String,
}

impl Who {
    /// Returns the name under which the sessions of other protocols are this token's or sign-in's alone.
    pub(crate) fn principal(&self) -> String {
        let kind = if self.by_cookie { BY_COOKIE } else { BY_TOKEN };
        format!("{kind}{}", self.hash)
    }
}

impl FileToken {
    fn who(&self) -> Who {
        let name = self.principal.name().to_owned();
        Who { name, role: self.role, by_cookie: false, hash: self.hash.clone() }
    }
}

impl Key {
    fn who(self, by_cookie: bool) -> Who {
        Who { name: self.name, role: self.role, by_cookie, hash: self.hash }
    }
}

/// How the [principal](Who::principal) of a token, and that of a sign-in, begins.
const BY_TOKEN: &str = "token-";
const BY_COOKIE: &str = "sign-in-";

/// A token of the token file.
#[derive(Clone)]
pub struct FileToken {
    /// The name and the token.
    pub principal: Principal,
    /// Its role.
    pub role: Role,
    /// The token's hash, by [`hash_of`].
    pub hash: String,
}

/// All that lets somebody in.
pub(crate) struct Access {
    of_file: Vec<FileToken>,
    folder: PathBuf,
    kept: Mutex<(SavedAccess, Option<Stamp>)>,
    codes: Mutex<Vec<Code>>,
}

/// When the file was written, and which file it is: each write makes another one.
type Stamp = (SystemTime, u64);

struct Code {
    hash: String,
    name: String,
    role: Role,
    until: Instant,
}

/// The content of the file.
#[derive(Default, Clone, Serialize, Deserialize)]
struct SavedAccess {
    #[serde(default)]
    tokens: Vec<Key>,
    #[serde(default)]
    sign_ins: Vec<Key>,
    #[serde(default)]
    shares: Vec<Share>,
}

/// A token or a sign-in.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) role: Role,
    hash: String,
    pub(crate) made_ms: u64,
    until_ms: u64,
    /// The hash of the token with which somebody signed in: the sign-in ends with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
}

/// A sign-in, as the owner sees it.
pub(crate) struct SignedIn {
    /// The beginning of the hash of its cookie.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) made_ms: u64,
    pub(crate) until_ms: u64,
    /// Whether it was by a token, and not by a one-use code.
    pub(crate) by_token: bool,
}

/// The length of the id of a sign-in, in hexadecimal digits.
const ID: usize = 16;

fn id_of(hash: &str) -> String {
    hash.chars().take(ID).collect()
}

/// A part of a session that whoever has the address may read.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Share {
    pub(crate) id: String,
    pub(crate) workspace: String,
    pub(crate) session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<u64>,
    pub(crate) to: u64,
    pub(crate) expires_ms: u64,
    pub(crate) by: String,
    /// The idempotency key of the request that made it, and the request: their hashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) once: Option<(String, String)>,
}

/// Returns the hash under which a secret is known.
pub fn hash_of(secret: &str) -> String {
    blake3::hash(secret.as_bytes()).to_hex().to_string()
}

/// Returns a new secret of 256 bits.
pub(crate) fn secret() -> Result<String, Fault> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| Fault::new(Kind::Unavailable, format!("no random bytes: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn after(time: Duration) -> u64 {
    now_ms().saturating_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

impl Access {
    /// Reads the sign-ins, tokens and shares of this folder; adds the tokens of the token file.
    pub(crate) fn new(folder: PathBuf, of_file: Vec<FileToken>) -> Result<Self, Fault> {
        let this = Self { of_file, folder, kept: Mutex::default(), codes: Mutex::default() };
        this.change(|_| Ok(()))?;
        Ok(this)
    }

    /// The folder where sign-ins, tokens and shares are kept.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes a one-use code for this role.
    pub(crate) fn new_code(&self, name: &str, role: Role) -> Result<String, Fault> {
        let code = secret()?;
        let mut codes = self.codes.lock();
        codes.retain(|it| it.until > Instant::now());
        if codes.len() >= CODES {
            return Err(Fault::new(Kind::TooBig, format!("{CODES} one-use codes are open already"))
                .next("Use one, or wait ten minutes."));
        }
        let (hash, name) = (hash_of(&code), name.to_owned());
        codes.push(Code { hash, name, role, until: Instant::now() + CODE });
        Ok(code)
    }

    /// Trades a code, which is used up by this, for a sign-in. Gives its cookie's value.
    pub(crate) fn trade(&self, code: &str) -> Result<(Who, String), Fault> {
        let hash = hash_of(code);
        let mut codes = self.codes.lock();
        let at = codes.iter().position(|it| it.hash == hash && it.until > Instant::now());
        let Some(at) = at else {
            return Err(Fault::denied("this code is wrong, was used, or is older than 10 minutes")
                .next("Begin `haft serve` again for a new one, or sign in with a token."));
        };
        let Code { name, role, .. } = codes.swap_remove(at);
        drop(codes);
        self.sign_in(name, role, None)
    }

    /// Signs in with a token. Gives the value of the cookie.
    pub(crate) fn sign_in_by_token(&self, token: &str) -> Result<(Who, String), Fault> {
        let who = self.of_token(token.as_bytes()).ok_or_else(|| Fault::denied("the token is wrong"))?;
        self.sign_in(who.name, who.role, Some(hash_of(token)))
    }

    fn sign_in(&self, name: String, role: Role, token: Option<String>) -> Result<(Who, String), Fault> {
        let cookie = secret()?;
        let (hash, made_ms, until_ms) = (hash_of(&cookie), now_ms(), after(SIGN_IN));
        let key = Key { name: name.clone(), role, hash: hash.clone(), made_ms, until_ms, token };
        self.change(|kept| {
            // A code may be made out to the name of a token.
            let is_alike = |it: &Key| it.name == key.name && it.token == key.token;
            let alike = kept.sign_ins.iter().filter(|it| is_alike(it)).count();
            let mut more = (alike + 1).saturating_sub(SIGN_INS);
            kept.sign_ins.retain(|it| {
                let goes = more > 0 && is_alike(it);
                more -= usize::from(goes);
                !goes
            });
            kept.sign_ins.push(key);
            Ok(())
        })?;
        Ok((Who { name, role, by_cookie: true, hash }, cookie))
    }

    /// Ends a sign-in.
    pub(crate) fn sign_out(&self, cookie: &str) -> Result<(), Fault> {
        let hash = hash_of(cookie);
        self.change(|kept| {
            kept.sign_ins.retain(|it| it.hash != hash);
            Ok(())
        })
    }

    /// Returns whose token this is.
    pub(crate) fn of_token(&self, token: &[u8]) -> Option<Who> {
        let principals: Vec<Principal> = self.of_file.iter().map(|it| it.principal.clone()).collect();
        if let Some(found) = whose(&principals, token).and_then(|at| self.of_file.get(at)) {
            return Some(found.who());
        }
        self.of_made_token(&hash_of(std::str::from_utf8(token).ok()?))
    }

    /// Returns whose token that was made here has this hash.
    fn of_made_token(&self, hash: &str) -> Option<Who> {
        let key = self.find(|kept| kept.tokens.iter().find(|it| it.hash == hash).cloned())?;
        Some(key.who(false))
    }

    /// Returns who is signed in by this cookie.
    pub(crate) fn of_cookie(&self, cookie: &str) -> Option<Who> {
        self.of_sign_in(&hash_of(cookie))
    }

    /// Returns whose sign-in has this hash.
    fn of_sign_in(&self, hash: &str) -> Option<Who> {
        let now = now_ms();
        let find = |it: &Key| it.hash == hash && it.until_ms > now;
        let key = self.find(|kept| {
            let key = kept.sign_ins.iter().find(|it| find(it))?;
            self.stands(kept, key).then(|| key.clone())
        })?;
        Some(key.who(true))
    }

    /// Returns whether the token of a sign-in was not revoked since.
    fn stands(&self, kept: &SavedAccess, key: &Key) -> bool {
        key.token.as_ref().is_none_or(|token| {
            kept.tokens.iter().any(|it| it.hash == *token && it.role == key.role)
                || self.of_file.iter().any(|it| it.hash == *token && it.role == key.role)
        })
    }

    /// Returns who a [principal](Who::principal) is; `None` once its access has ended.
    pub(crate) fn of_principal(&self, principal: &str) -> Option<Who> {
        if let Some(hash) = principal.strip_prefix(BY_COOKIE) {
            return self.of_sign_in(hash);
        }
        let hash = principal.strip_prefix(BY_TOKEN)?;
        if let Some(found) = self.of_file.iter().find(|it| it.hash == hash) {
            return Some(found.who());
        }
        self.of_made_token(hash)
    }

    /// Returns the token by which a [principal](Who::principal) was let in, as its principal; without one the principal itself. A
    /// sign-in by a token counts as that token.
    pub(crate) fn origin(&self, principal: &str) -> String {
        let Some(hash) = principal.strip_prefix(BY_COOKIE) else { return principal.to_owned() };
        let token = self.find(|kept| kept.sign_ins.iter().find(|it| it.hash == hash)?.token.clone());
        token.map_or_else(|| principal.to_owned(), |token| format!("{BY_TOKEN}{token}"))
    }

    /// The sign-ins that stand, oldest first.
    pub(crate) fn sign_ins(&self) -> Vec<SignedIn> {
        let _ = self.reread();
        let now = now_ms();
        let kept = self.kept.lock();
        let standing = kept.0.sign_ins.iter().filter(|it| it.until_ms > now && self.stands(&kept.0, it));
        standing
            .map(|it| SignedIn {
                id: id_of(&it.hash),
                name: it.name.clone(),
                role: it.role,
                made_ms: it.made_ms,
                until_ms: it.until_ms,
                by_token: it.token.is_some(),
            })
            .collect()
    }

    /// Ends the sign-in of this id.
    pub(crate) fn end_sign_in(&self, id: &str) -> Result<(), Fault> {
        self.change(|kept| {
            let before = kept.sign_ins.len();
            kept.sign_ins.retain(|it| id_of(&it.hash) != id);
            if kept.sign_ins.len() == before {
                return Err(Fault::not_found(format!("there is no sign-in `{id}`")));
            }
            Ok(())
        })
    }

    /// The tokens that were made here, and those of the token file: name, role and when it was made.
    pub(crate) fn tokens(&self) -> Vec<(String, Role, Option<u64>)> {
        let _ = self.reread();
        let of_file = self.of_file.iter().map(|it| (it.principal.name().to_owned(), it.role, None));
        let kept = self.kept.lock();
        let made = kept.0.tokens.iter().map(|it| (it.name.clone(), it.role, Some(it.made_ms)));
        of_file.chain(made).collect()
    }

    /// Makes a token. It is not shown again.
    pub(crate) fn new_token(&self, name: &str, role: Role) -> Result<String, Fault> {
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        if name.is_empty() || name.len() > 64 || !name.chars().all(is_plain) {
            return Err(Fault::bad_args(format!("`{name}` is not a name of a token"))
                .next("Use 1 to 64 letters, digits, `-`, `_` and `.`."));
        }
        let token = secret()?;
        let (hash, made_ms) = (hash_of(&token), now_ms());
        let key = Key { name: name.to_owned(), role, hash, made_ms, until_ms: u64::MAX, token: None };
        let of_file = self.of_file.iter().any(|it| it.principal.name() == name);
        self.change(|kept| {
            if of_file || kept.tokens.iter().any(|it| it.name == key.name) {
                return Err(Fault::bad_args(format!("there is a token `{}` already", key.name)));
            }
            if kept.tokens.len() >= MOST {
                return Err(Fault::new(Kind::TooBig, format!("there are {MOST} tokens already")));
            }
            kept.tokens.push(key);
            Ok(())
        })?;
        Ok(token)
    }

    /// Revokes a token that was made here, and the sign-ins by it.
    pub(crate) fn revoke(&self, name: &str) -> Result<(), Fault> {
        if self.of_file.iter().any(|it| it.principal.name() == name) {
            return Err(Fault::denied(format!("`{name}` is a token of the token file"))
                .next("Remove its line, and begin `haft serve` again."));
        }
        self.change(|kept| {
            let before = kept.tokens.len();
            kept.tokens.retain(|it| it.name != name);
            if kept.tokens.len() == before {
                return Err(Fault::not_found(format!("there is no token `{name}`")));
            }
            Ok(())
        })
    }

    /// The shares that have not expired.
    pub(crate) fn shares(&self) -> Vec<Share> {
        let _ = self.reread();
        let now = now_ms();
        self.kept.lock().0.shares.iter().filter(|it| it.expires_ms > now).cloned().collect()
    }

    /// Keeps a share. Gives it, or the one that the same request made before.
    pub(crate) fn add_share(&self, share: Share) -> Result<Share, Fault> {
        let mut made = share.clone();
        self.change(|kept| {
            // One that expired long ago is unknown: its address says `expired` until then.
            let long_ago = now_ms().saturating_sub(u64::try_from(SIGN_IN.as_millis()).unwrap_or(0));
            kept.shares.retain(|it| it.expires_ms > long_ago);
            if let Some((key, request)) = &share.once
                && let Some(before) =
                    kept.shares.iter().find(|it| it.once.as_ref().is_some_and(|it| it.0 == *key))
            {
                if before.once.as_ref().is_some_and(|it| it.1 != *request) {
                    return Err(of_another());
                }
                made = before.clone();
                return Ok(());
            }
            if kept.shares.len() >= MOST {
                return Err(
                    Fault::new(Kind::TooBig, format!("there are {MOST} shares already")).next("Revoke some.")
                );
            }
            kept.shares.push(share);
            Ok(())
        })?;
        Ok(made)
    }

    /// Revokes a share.
    pub(crate) fn remove_share(&self, id: &str) -> Result<(), Fault> {
        self.change(|kept| {
            let before = kept.shares.len();
            kept.shares.retain(|it| it.id != id);
            if kept.shares.len() == before {
                return Err(Fault::not_found(format!("there is no share `{id}`")));
            }
            Ok(())
        })
    }

    /// Returns the share of this id, which may have expired.
    pub(crate) fn share(&self, id: &str) -> Option<Share> {
        self.find(|kept| kept.shares.iter().find(|it| it.id == id).cloned())
    }

    /// Looks in what is known, and again in what another server may have written since.
    fn find<T>(&self, find: impl Fn(&SavedAccess) -> Option<T>) -> Option<T> {
        self.reread().ok();
        find(&self.kept.lock().0)
    }

    fn path(&self) -> PathBuf {
        self.folder.join("access.json")
    }

    fn reread(&self) -> io::Result<()> {
        let written = self.stamp()?;
        let mut kept = self.kept.lock();
        if kept.1 != Some(written) {
            let read = fs::read(self.path())?;
            *kept = (serde_json::from_slice(&read)?, Some(written));
        }
        Ok(())
    }

    /// Changes what is kept, on the disk before it counts.
    fn change(&self, change: impl FnOnce(&mut SavedAccess) -> Result<(), Fault>) -> Result<(), Fault> {
        let broken = |error: io::Error| {
            let what = format!("sign-ins can't be kept in {}: {error}", self.folder.display());
            Fault::new(Kind::Unavailable, what)
        };
        let mut held = self.kept.lock();
        let lock = self.lock().map_err(broken)?;
        let mut kept = match fs::read(self.path()) {
            Ok(read) => serde_json::from_slice(&read).map_err(|error| broken(error.into()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => SavedAccess::default(),
            Err(error) => return Err(broken(error)),
        };
        let now = now_ms();
        kept.sign_ins.retain(|it: &Key| it.until_ms > now);
        change(&mut kept)?;
        let written = self.write(&kept).map_err(broken)?;
        *held = (kept, written);
        drop(lock);
        Ok(())
    }

    fn lock(&self) -> io::Result<File> {
        fs::create_dir_all(&self.folder)?;
        let path = self.folder.join("access.lock");
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let about = fs::metadata(self.path())?;
        Ok((about.modified()?, about.ino()))
    }

    fn write(&self, kept: &SavedAccess) -> io::Result<Option<Stamp>> {
        let fresh = self.folder.join(format!("access.{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(&serde_json::to_vec(kept)?)?;
        file.sync_all()?;
        fs::rename(&fresh, self.path())?;
        Ok(self.stamp().ok())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn access(folder: &std::path::Path) -> Access {
        Access::new(folder.to_owned(), Vec::new()).unwrap()
    }

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("haft-web-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder
    }

    #[test]
    fn a_code_signs_in_once_and_the_sign_in_outlives_the_server() {
        let folder = folder("codes");
        let first = access(&folder);
        let code = first.new_code("owner", Role::Own).unwrap();
        let (who, cookie) = first.trade(&code).unwrap();
        assert_eq!((who.name.as_str(), who.role), ("owner", Role::Own));
        assert!(first.trade(&code).is_err(), "a code is used once");
        assert_eq!(access(&folder).of_cookie(&cookie), Some(who));
        first.sign_out(&cookie).unwrap();
        assert_eq!(access(&folder).of_cookie(&cookie), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_revoked_token_ends_its_sign_ins() {
        let folder = folder("tokens");
        let (one, other) = (access(&folder), access(&folder));
        let token = one.new_token("ci", Role::Say).unwrap();
        let (_, cookie) = other.sign_in_by_token(&token).unwrap();
        assert_eq!(one.of_cookie(&cookie).unwrap().role, Role::Say);
        assert!(one.new_token("ci", Role::Own).is_err(), "a name is one token's");
        one.revoke("ci").unwrap();
        assert_eq!(other.of_cookie(&cookie), None);
        assert_eq!(other.of_token(token.as_bytes()), None);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn many_sign_ins_of_one_person_end_nobody_else_s() {
        let folder = folder("sign-ins");
        let access = access(&folder);
        let (_, owner) = access.trade(&access.new_code("owner", Role::Own).unwrap()).unwrap();
        let token = access.new_token("viewer", Role::View).unwrap();
        let (_, first) = access.sign_in_by_token(&token).unwrap();
        for _ in 0..SIGN_INS {
            access.sign_in_by_token(&token).unwrap();
        }
        assert!(access.of_cookie(&owner).is_some());
        assert!(access.of_cookie(&first).is_none(), "the oldest of the same name goes");
        fs::remove_dir_all(folder).unwrap();
    }
}
