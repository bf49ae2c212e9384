//! The specification of a trigger: what it waits for, its prompt, and how it is limited. It is the body of its row.

use std::fmt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use jiff::{Timestamp, tz::TimeZone};
use kit::Fault;
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Schedule, ScheduleArgs, name};

/// Maximum length of a prompt, in bytes.
const LONGEST_PROMPT: usize = 32 << 10;

/// The longest jitter, and the longest debounce, in seconds.
const LONGEST_DELAY: f64 = 86_400.0;

/// The default time without another change after which watched files fire, in milliseconds.
const DEBOUNCE_MS: u64 = 500;

/// The default maximum of fires a day for watched files.
const FILE_FIRES: u64 = 200;

/// The default age at which a signed time counts as too old, in seconds: that of GitHub's and Standard Webhooks' libraries.
const WINDOW: u64 = 300;

/// The event or the schedule of a trigger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// An interval.
    AddTimer {
        /// Seconds between two fires.
        interval: f64,
        /// Whether it fires at once as well.
        #[serde(default)]
        immediate: bool,
    },
    /// A time by the clock.
    AddSchedule {
        /// The time.
        #[serde(flatten)]
        schedule: ScheduleArgs,
    },
    /// A message on a channel.
    WatchChannel {
        /// The channel.
        channel_name: String,
        /// The only sender whose messages count.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter_sender: Option<String>,
    },
    /// A change of files in the workspace.
    WatchFiles {
        /// Patterns of the files, relative to the workspace.
        glob: Vec<String>,
        /// Time without another change before it fires, in milliseconds.
        #[serde(default = "debounce_ms")]
        debounce_ms: u64,
    },
    /// A job of the session.
    WatchJob {
        /// Its id.
        job: String,
        /// A regular expression for a line of its output; without it, its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    /// A request over HTTP.
    Webhook {
        /// How requests are signed.
        #[serde(default)]
        scheme: Scheme,
        /// The secret of the vault that signs them; without it, one that haft generates.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        secret: Option<String>,
        /// Maximum age of a signed time, in seconds.
        #[serde(default = "window")]
        window_seconds: u64,
    },
}

/// How requests of a webhook are signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// `X-Hub-Signature-256: sha256=HEX` over the body; `X-GitHub-Delivery` is the delivery id.
    #[default]
    Github,
    /// Standard Webhooks: `webhook-id`, `webhook-timestamp`, and `webhook-signature: v1,BASE64` over all three.
    Standard,
}

/// Handling of a fire that was due while no process ran the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// It is left out.
    Skip,
    /// It fires one time, however many were missed.
    Once,
    /// It is reported to a person, who may fire it.
    Ask,
}

/// Settings that all triggers have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Common {
    /// The message for the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Grants of its turns, as `haft grants add` takes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<String>,
    /// Handling of missed fires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<Missed>,
    /// Whether it fires while the turn of the fire before is not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<bool>,
    /// Maximum number of fires a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_per_day: Option<u64>,
    /// Maximum random delay, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<f64>,
    /// Its time zone, an IANA name; the machine's, if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// A trigger without its name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// Its event or its schedule.
    #[serde(flatten)]
    pub what: What,
    /// Settings that all triggers have.
    #[serde(flatten)]
    pub common: Common,
}

impl What {
    /// Returns the tool that makes such a trigger.
    pub fn tool(&self) -> &'static str {
        match self {
            Self::AddTimer { .. } => "add_timer",
            Self::AddSchedule { .. } => "add_schedule",
            Self::WatchChannel { .. } => "watch_channel",
            Self::WatchFiles { .. } => "watch_files",
            Self::WatchJob { .. } => "watch_job",
            Self::Webhook { .. } => "webhook",
        }
    }
}

impl Spec {
    /// Reads the specification for the tool of this name from its arguments, and checks it.
    ///
    /// # Errors
    /// When it is not one; the fault says why and what to write.
    pub fn of(tool: &str, arguments: &Value) -> Result<Self, Fault> {
        let mut body = arguments.as_object().cloned().unwrap_or_default();
        body.retain(|_, value| !value.is_null());
        body.insert("kind".to_owned(), tool.into());
        let spec: Self = serde_json::from_value(Value::Object(body))
            .map_err(|error| Fault::bad_args(format!("`{tool}`: {error}")))?;
        spec.check()?;
        Ok(spec)
    }

    /// Reads the body of a row.
    ///
    /// # Errors
    /// When it was written by another version of haft.
    pub fn of_body(body: &Value) -> Result<Self, Fault> {
        serde_json::from_value(body.clone()).map_err(|error| {
            Fault::bad_args(format!("this trigger can't be read: {error}"))
                .next("Remove it with `haft triggers remove` and make it again.")
        })
    }

    fn check(&self) -> Result<(), Fault> {
        let zone = self.zone()?;
        self.schedule(&zone)?;
        let needs_prompt = !matches!(self.what, What::WatchChannel { .. });
        match &self.common.prompt {
            Some(prompt) if prompt.len() > LONGEST_PROMPT => {
                return Err(Fault::bad_args(format!("`prompt` has {} bytes", prompt.len()))
                    .next("At most 32 KiB: put the rest into a file, and name it in the prompt."));
            }
            Some(prompt) if needs_prompt && prompt.trim().is_empty() => {
                return Err(Fault::bad_args("`prompt` is empty")
                    .next("It is what the agent reads when the trigger fires."));
            }
            None if needs_prompt => {
                return Err(Fault::bad_args("`prompt` is missing")
                    .next("It is what the agent reads when the trigger fires."));
            }
            _ => {}
        }
        if let Some(jitter) = self.common.jitter
            && !(0.0..=LONGEST_DELAY).contains(&jitter)
        {
            return Err(Fault::bad_args(format!("`jitter` is {jitter}"))
                .next("It is a number of seconds from 0 to 86400."));
        }
        if self.common.max_per_day == Some(0) {
            return Err(Fault::bad_args("`max_per_day` is 0")
                .next("It is 1 or more; `delete_trigger` removes a trigger."));
        }
        match &self.what {
            What::WatchFiles { .. } => self.globs().map(drop),
            What::WatchJob { pattern: Some(pattern), .. } => Regex::new(pattern)
                .map(drop)
                .map_err(|error| Fault::bad_args(format!("`pattern` is not a regular expression: {error}"))),
            What::WatchChannel { channel_name, .. } if channel_name.trim().is_empty() => {
                Err(Fault::bad_args("`channel_name` is empty").next("Name the channel."))
            }
            What::AddTimer { .. }
            | What::AddSchedule { .. }
            | What::WatchChannel { .. }
            | What::WatchJob { .. }
            | What::Webhook { .. } => Ok(()),
        }
    }

    /// Returns its time zone.
    ///
    /// # Errors
    /// When the machine knows none of that name.
    pub fn zone(&self) -> Result<TimeZone, Fault> {
        let Some(zone) = &self.common.zone else { return Ok(TimeZone::system()) };
        TimeZone::get(zone).map_err(|_| {
            Fault::bad_args(format!("`{zone}` is not a time zone of this machine"))
                .next("`zone` is an IANA name, such as `Europe/Berlin` or `UTC`; without it, the machine's zone counts.")
        })
    }

    /// Returns its schedule, if it waits for a time.
    ///
    /// # Errors
    /// When it says none.
    pub fn schedule(&self, zone: &TimeZone) -> Result<Option<Schedule>, Fault> {
        match &self.what {
            What::AddTimer { interval, .. } => Schedule::timer(*interval).map(Some),
            What::AddSchedule { schedule } => schedule.parse(zone).map(Some),
            What::WatchChannel { .. }
            | What::WatchFiles { .. }
            | What::WatchJob { .. }
            | What::Webhook { .. } => Ok(None),
        }
    }

    /// Returns the files that it watches.
    ///
    /// # Errors
    /// When a pattern is none.
    pub fn globs(&self) -> Result<GlobSet, Fault> {
        let What::WatchFiles { glob, .. } = &self.what else { return Ok(GlobSet::empty()) };
        let next = "`glob` is a pattern or a list of them, relative to the workspace: `src/**/*.rs`.";
        if glob.is_empty() {
            return Err(Fault::bad_args("`glob` names no file").next(next));
        }
        let mut set = GlobSetBuilder::new();
        for pattern in glob {
            if pattern.starts_with('/') || pattern.split('/').any(|it| it == "..") {
                return Err(Fault::bad_args(format!("`{pattern}` leads out of the workspace")).next(next));
            }
            let built = GlobBuilder::new(pattern).literal_separator(true).build();
            set.add(built.map_err(|error| Fault::bad_args(format!("`glob`: {error}")).next(next))?);
        }
        set.build().map_err(|error| Fault::bad_args(format!("`glob`: {error}")).next(next))
    }

    /// Returns what happens to missed fires. A schedule that occurs once is not left out unless it says so.
    pub fn missed(&self) -> Missed {
        let is_once = matches!(&self.what, What::AddSchedule { schedule } if schedule.once.is_some());
        self.common.missed.unwrap_or(if is_once { Missed::Once } else { Missed::Skip })
    }

    /// Returns the maximum number of its fires a day. Watched files have one, as a turn may change them itself.
    pub fn max_per_day(&self) -> Option<u64> {
        let otherwise = matches!(self.what, What::WatchFiles { .. }).then_some(FILE_FIRES);
        self.common.max_per_day.or(otherwise)
    }

    /// Returns whether it fires while the turn of the fire before is not over. Messages and requests are not left out unless
    /// it says so.
    pub fn overlaps(&self) -> bool {
        let is_message = matches!(self.what, What::WatchChannel { .. } | What::Webhook { .. });
        self.common.overlap.unwrap_or(is_message)
    }

    /// Returns the moment with its random delay: the same for the same fire, in each process.
    pub fn with_jitter(&self, due_ms: u64, id: &str, fire: u64) -> u64 {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let most = (self.common.jitter.unwrap_or_default().clamp(0.0, LONGEST_DELAY) * 1_000.0) as u64;
        let mut hasher = DefaultHasher::new();
        (id, fire, due_ms).hash(&mut hasher);
        due_ms.saturating_add(if most == 0 { 0 } else { hasher.finish() % (most + 1) })
    }

    /// Returns when it is first due: without jitter, and with it. None, if it waits for no time.
    ///
    /// # Errors
    /// When its schedule says none, or only times that are over.
    pub fn first_due(&self, id: &str, now_ms: u64) -> Result<Option<(u64, u64)>, Fault> {
        let zone = self.zone()?;
        let Some(schedule) = self.schedule(&zone)? else { return Ok(None) };
        if matches!(self.what, What::AddTimer { immediate: true, .. }) {
            return Ok(Some((now_ms, now_ms)));
        }
        let Some(due) = schedule.next_after(instant(now_ms), &zone) else {
            return Err(Fault::bad_args(format!("{schedule} is over")).next("Name a time to come."));
        };
        let due_ms = millis(due);
        Ok(Some((due_ms, self.with_jitter(due_ms, id, 1))))
    }

    /// Returns the arguments that say what it waits for, as in a call: `interval=5`.
    fn arguments(&self) -> Vec<String> {
        let text = |name: &str, value: &str| format!("{name}='{value}'");
        match &self.what {
            What::AddTimer { interval, immediate } => {
                let mut all = vec![format!("interval={interval}")];
                all.extend(immediate.then(|| "immediate=True".to_owned()));
                all
            }
            What::AddSchedule { schedule } => {
                let ScheduleArgs { every_minutes, daily_at, hourly_at, cron, once } = schedule;
                [
                    every_minutes.map(|it| format!("every_minutes={it}")),
                    daily_at.as_deref().map(|it| text("daily_at", it)),
                    hourly_at.map(|it| format!("hourly_at={it}")),
                    cron.as_deref().map(|it| text("cron", it)),
                    once.as_deref().map(|it| text("once", it)),
                ]
                .into_iter()
                .flatten()
                .collect()
            }
            What::WatchChannel { channel_name, filter_sender } => {
                let mut all = vec![text("channel_name", channel_name)];
                all.extend(filter_sender.as_deref().map(|it| text("filter_sender", it)));
                all
            }
            What::WatchFiles { glob, .. } => vec![text("glob", &glob.join(", "))],
            What::WatchJob { job, pattern } => {
                let mut all = vec![text("job", job)];
                all.extend(pattern.as_deref().map(|it| text("pattern", it)));
                all
            }
            What::Webhook { scheme, .. } => {
                vec![text("scheme", if *scheme == Scheme::Github { "github" } else { "standard" })]
            }
        }
    }

    /// Returns its arguments in one line, as the answer to whoever made it shows them.
    pub fn in_line(&self) -> String {
        let mut all = self.arguments();
        all.extend(self.common.prompt.as_deref().map(|it| format!("prompt='{}'", short(it, 80))));
        all.join(", ")
    }

    /// Returns the effects that a person approves with it, one line each.
    pub fn effects(&self, name: Option<&str>) -> Vec<String> {
        let name = name.map_or_else(String::new, |it| format!(" `{it}`"));
        let prompt = self.common.prompt.as_deref().unwrap_or("the message itself");
        let grants = match self.common.grants.as_slice() {
            [] => "nothing beside what needs no approval".to_owned(),
            grants => grants.join(", "),
        };
        vec![
            format!("begin turns by the trigger{name}: {self}"),
            format!("with the prompt: {}", short(prompt, 300)),
            format!("unattended, with these grants: {grants}"),
        ]
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            What::AddTimer { interval, .. } => write!(f, "every {interval} s"),
            What::AddSchedule { schedule } => {
                let parsed = self.zone().and_then(|zone| schedule.parse(&zone));
                match parsed {
                    Ok(schedule) => write!(f, "{schedule}"),
                    Err(_) => f.write_str(&self.arguments().join(", ")),
                }
            }
            What::WatchChannel { channel_name, filter_sender: None } => {
                write!(f, "each message on the channel `{channel_name}`")
            }
            What::WatchChannel { channel_name, filter_sender: Some(sender) } => {
                write!(f, "each message of {sender} on the channel `{channel_name}`")
            }
            What::WatchFiles { glob, .. } => write!(f, "changes of {}", glob.join(", ")),
            What::WatchJob { job, pattern: None } => write!(f, "the end of {job}"),
            What::WatchJob { job, pattern: Some(pattern) } => {
                write!(f, "a line of {job} that matches `{pattern}`")
            }
            What::Webhook { scheme: Scheme::Github, .. } => f.write_str("webhook, signed as GitHub's"),
            What::Webhook { scheme: Scheme::Standard, .. } => {
                f.write_str("webhook, signed as Standard Webhooks")
            }
        }
    }
}

/// Returns the name of a trigger: the one that was chosen, or a new id.
///
/// # Errors
/// When the chosen one is not a name.
pub(crate) fn named(chosen: Option<&str>) -> Result<String, Fault> {
    match chosen {
        Some(name) => name::checked(name),
        None => name::generated(),
    }
}

/// Returns the first characters of a text in one line.
pub(crate) fn short(text: &str, characters: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(characters) {
        Some((at, _)) => format!("{}…", line.get(..at).unwrap_or_default()),
        None => line,
    }
}

pub(crate) fn instant(at_ms: u64) -> Timestamp {
    i64::try_from(at_ms).ok().and_then(|it| Timestamp::from_millisecond(it).ok()).unwrap_or(Timestamp::MAX)
}

/// Returns milliseconds since 1970, the next one where the instant lies between two.
pub(crate) fn millis(at: Timestamp) -> u64 {
    let rest = at.subsec_nanosecond() % 1_000_000 != 0;
    u64::try_from(at.as_millisecond()).unwrap_or_default() + u64::from(rest)
}

fn debounce_ms() -> u64 {
    DEBOUNCE_MS
}

fn window() -> u64 {
    WINDOW
}
