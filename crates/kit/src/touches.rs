//! Touches: the resources that a call declares.

use std::{fmt, ops::BitOr};

use reqwest::Url;
use serde::Serialize;

/// One resource that a call declares.
///
/// It is a declaration, used for planning. The kit enforces it: files, processes and network refuse whatever
/// was not granted, so a tool that declares too little fails closed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Touch {
    /// Reads this file, or anything below this folder.
    Read(String),
    /// Creates, changes or removes exactly this file, and may read it.
    Write(String),
    /// Creates, changes or removes this file, or this folder with everything in it. With `like`, the contents
    /// of that folder are to be at the same places below `path`. A folder with contents that undo can't
    /// restore is refused.
    WriteTree {
        /// The file or folder.
        path: String,
        /// The folder whose contents it gets.
        like: Option<String>,
    },
    /// Runs this shell command.
    Run(String),
    /// Runs its command outside the sandbox.
    Unconfined,
    /// Contacts this host.
    Net(String),
    /// Reads public pages of this host, and follows their redirects: requests that only read, at public addresses.
    Web(String),
    /// Writes or deletes the workspace's own tool of this name, and the list of enabled tools.
    Tool(String),
    /// Calls the MCP server of this name, which is started if it does not run.
    Server {
        /// Its name; for one that is not configured, with its command: `NAME: COMMAND`.
        name: String,
        /// Whether it only reads, according to a person's configuration.
        reads: bool,
    },
    /// Uses the session state of this key, such as its todo list.
    Session(String),
    /// Makes a trigger, which begins turns of the session's agent unattended. As a tool declares it, this is the trigger as
    /// JSON (see [`NewTrigger`](crate::services::NewTrigger)); as it is recorded, what a person approves.
    Trigger(String),
    /// Must not run beside another exclusive call, or beside one that writes.
    Exclusive,
}

/// The origin of the address that a call reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The model composed it, or what is sent along with it.
    Composed,
    /// It is this one, and nothing that the model composed goes along. The runtime knows whether a person, a
    /// search result or a page named it.
    Plain(Url),
    /// The person's configuration, or haft itself.
    Configured,
}

/// Everything that a call declares.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Touches(Vec<Touch>);

impl Touches {
    /// Declares nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Declares reading `path`; the empty path is the workspace.
    pub fn read(path: impl Into<String>) -> Self {
        Self::none().and(Touch::Read(path.into()))
    }

    /// Declares writing `path`.
    pub fn write(path: impl Into<String>) -> Self {
        Self::none().and(Touch::Write(path.into()))
    }

    /// Declares using the session's `key`.
    pub fn session(key: impl Into<String>) -> Self {
        Self::none().and(Touch::Session(key.into()))
    }

    /// Declares that the call runs alone.
    pub fn exclusive() -> Self {
        Self::none().and(Touch::Exclusive)
    }

    /// Adds one more.
    #[must_use]
    pub fn and(mut self, touch: Touch) -> Self {
        self.0.push(touch);
        self
    }

    /// Declares running a command.
    pub fn run(command: impl Into<String>) -> Self {
        Self::none().and(Touch::Run(command.into()))
    }

    /// Returns the touches, in the order they were declared.
    pub fn iter(&self) -> impl Iterator<Item = &Touch> {
        self.0.iter()
    }

    /// Returns the kinds that occur.
    pub fn kinds(&self) -> Kinds {
        self.iter().fold(Kinds::NONE, |kinds, touch| {
            kinds
                | match touch {
                    Touch::Read(_) => Kinds::READ,
                    Touch::Write(_) | Touch::WriteTree { .. } | Touch::Tool(_) => Kinds::READ | Kinds::WRITE,
                    Touch::Run(_) | Touch::Unconfined => Kinds::RUN,
                    Touch::Net(_) => Kinds::NET,
                    Touch::Web(_) => Kinds::WEB,
                    Touch::Server { reads: true, .. } => Kinds::SESSION,
                    Touch::Server { reads: false, .. } => Kinds::RUN | Kinds::NET,
                    Touch::Session(_) => Kinds::SESSION,
                    // It needs no lock, and is not harmless.
                    Touch::Trigger(_) => Kinds::SESSION | Kinds::EXCLUSIVE,
                    Touch::Exclusive => Kinds::EXCLUSIVE,
                }
        })
    }
}

/// A set of kinds of touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// [`Touch::Read`].
    pub const READ: Self = Self(1);
    /// [`Touch::Write`] and [`Touch::WriteTree`], which include reading.
    pub const WRITE: Self = Self(3);
    /// [`Touch::Run`].
    pub const RUN: Self = Self(4);
    /// [`Touch::Net`].
    pub const NET: Self = Self(8);
    /// [`Touch::Session`].
    pub const SESSION: Self = Self(16);
    /// [`Touch::Exclusive`].
    pub const EXCLUSIVE: Self = Self(32);
    /// [`Touch::Web`].
    pub const WEB: Self = Self(64);
    /// Every kind: assumed of a tool that declares nothing.
    pub const ALL: Self = Self(127);

    /// Returns the union, where `|` can't be written (in a constant).
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether it contains every kind of `other`.
    pub const fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether a call that touches these kinds changes nothing outside the session.
    pub const fn is_read_only(self) -> bool {
        self.0 & (2 | 4 | 8 | 32) == 0
    }
}

impl fmt::Display for Kinds {
    /// Formats the names of the kinds, as in `read+run`; `none` if it is empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(u8, &str); 7] = [
            (1, "read"),
            (2, "write"),
            (4, "run"),
            (8, "net"),
            (16, "session"),
            (32, "exclusive"),
            (64, "web"),
        ];
        if *self == Self::NONE {
            return f.write_str("none");
        }
        // Writing includes reading, which is not mentioned then.
        let is_said = |bit: u8| self.0 & bit != 0 && !(bit == 1 && self.0 & 2 != 0);
        let names: Vec<&str> = NAMES.iter().filter(|it| is_said(it.0)).map(|it| it.1).collect();
        f.write_str(&names.join("+"))
    }
}

impl BitOr for Kinds {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.with(other)
    }
}
