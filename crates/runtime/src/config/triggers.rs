//! `[[trigger]]`: triggers that a person configures.

use kit::Fault;
use serde_json::{Map, Value as Json, json};
use triggers::Spec;

use super::keys::{Fallback::*, declare::section};

/// The session of triggers that name none.
pub const TRIGGERS_SESSION: &str = "triggers";

section! {
    /// `[[trigger]]`: begins a turn of an agent without a person.
    #[derive(Eq)]
    pub struct TriggerSection, merged whole {
        /// A trigger: it begins a turn of an agent while `haft agents up`, or a `haft chat` or `haft run --wait` of its
        /// session, runs. One of `interval`, `every_minutes`, `daily_at`, `hourly_at`, `cron`, `once`, `glob`, `channel_name` and
        /// `webhook` says when. In a workspace's file it needs trust.
        "[[trigger]]" {
            /// Name of the trigger.
            name: String {
                example: r#""nightly""#,
                default: Required,
                workspace: NeedsTrust,
            }
            /// Session whose agent gets it.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            session: Option<String> {
                example: r#""triggers""#,
                default: Value(|| json!(TRIGGERS_SESSION)),
                workspace: NeedsTrust,
            }
            /// Message for the agent.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            prompt: Option<String> {
                example: r#""Run the tests and report what fails.""#,
                default: Words("the message itself, for `channel_name`; else required"),
                workspace: NeedsTrust,
            }
            /// Interval of a timer.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            interval: Option<u64> {
                unit: "seconds",
                example: "3600",
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Every so many minutes, counted from midnight: 1 to 1440.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            every_minutes: Option<u64> {
                example: "15",
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Each day at `HH:MM`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            daily_at: Option<String> {
                example: r#""02:30""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Each hour at this minute.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            hourly_at: Option<u64> {
                example: "5",
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Cron expression: minute, hour, day, month, weekday.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            cron: Option<String> {
                example: r#""30 9 * * mon-fri""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// One time.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            once: Option<String> {
                example: r#""2027-01-01T09:00""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Files whose changes begin a turn. Ignored files don't count.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            glob: Vec<String> {
                example: r#"["src/**/*.rs"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Time without another change before they do.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            debounce_ms: Option<u64> {
                unit: "milliseconds",
                example: "500",
                default: Value(|| json!(500)),
                workspace: NeedsTrust,
            }
            /// Channel whose messages begin a turn.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            channel_name: Option<String> {
                example: r#""tasks""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// The only sender on that channel whose messages count.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            filter_sender: Option<String> {
                example: r#""planner""#,
                default: Words("all"),
                workspace: NeedsTrust,
            }
            /// Signature of requests that begin a turn: "github" or "standard" (Standard Webhooks).
            #[serde(default, skip_serializing_if = "Option::is_none")]
            webhook: Option<String> {
                example: r#""github""#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Name of the section `[secret.NAME]` with the secret of the webhook. Its `hosts` has to contain "webhook".
            #[serde(default, skip_serializing_if = "Option::is_none")]
            secret: Option<String> {
                example: r#""deploy_hook""#,
                default: Words("one that haft creates; `haft triggers show NAME --secret` prints it"),
                workspace: NeedsTrust,
            }
            /// Maximum age of the time that a request is signed with.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            window_seconds: Option<u64> {
                unit: "seconds",
                example: "300",
                default: Value(|| json!(300)),
                workspace: NeedsTrust,
            }
            /// Grants of its turns, beside the things that need no approval, as `haft grants add` takes them. Nobody is asked during
            /// such a turn: anything else fails, and is reported to you.
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            grants: Vec<String> {
                example: r#"["run cargo test", "net crates.io"]"#,
                default: Words("none"),
                workspace: NeedsTrust,
            }
            /// Handling of times that passed while nothing ran: "skip", fire "once" for all, or "ask" you.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            missed: Option<String> {
                example: r#""skip""#,
                default: Words(r#""skip"; with `once`, "once""#),
                workspace: NeedsTrust,
            }
            /// Whether it fires while the turn of its last fire is not over.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            overlap: Option<bool> {
                example: "false",
                default: Words("false; for `channel_name` and `webhook`, true"),
                workspace: NeedsTrust,
            }
            /// Maximum number of fires a day.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            max_per_day: Option<u64> {
                example: "24",
                default: Words("no limit; 200 with `glob`"),
                workspace: NeedsTrust,
            }
            /// Maximum random delay.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            jitter: Option<u64> {
                unit: "seconds",
                example: "60",
                default: Value(|| json!(0)),
                workspace: NeedsTrust,
            }
            /// Time zone, as an IANA name.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            zone: Option<String> {
                example: r#""Europe/Berlin""#,
                default: Words("the machine's"),
                workspace: NeedsTrust,
            }
        }
    }
}

impl TriggerSection {
    /// Returns the session whose agent gets it.
    pub fn session(&self) -> &str {
        self.session.as_deref().unwrap_or(TRIGGERS_SESSION)
    }

    /// Returns its name and what it is.
    ///
    /// # Errors
    /// When it is not a trigger; the fault names it.
    pub fn spec(&self) -> Result<(String, Spec), Fault> {
        let mut arguments = json!(self);
        let all = arguments.as_object_mut();
        let Some(all) = all else { return Err(Fault::bug("a trigger is a table")) };
        for key in ["name", "session"] {
            all.remove(key);
        }
        spec_of(all).map(|spec| (self.name.clone(), spec)).map_err(|fault| Fault {
            what: format!("`[[trigger]]` `{}`: {}", self.name, fault.what),
            ..fault
        })
    }
}

/// Returns the trigger with these keys, in haft's form or in that of a creature of KohakuTerrarium: `type` and `options`.
///
/// # Errors
/// When it is none.
pub fn spec_of_creature(keys: &Map<String, Json>) -> Result<Spec, Fault> {
    let Some(kind) = keys.get("type") else { return spec_of(keys) };
    let mut keys = keys.clone();
    keys.remove("type");
    if let Some(Json::Object(options)) = keys.remove("options") {
        keys.extend(options);
    }
    match kind.as_str() {
        Some("timer") => {
            keys.entry("interval").or_insert(json!(60));
        }
        Some("schedule") => {}
        Some("channel") => {
            if let Some(channel) = keys.remove("channel") {
                keys.insert("channel_name".to_owned(), channel);
            }
        }
        _ => {
            return Err(Fault::bad_args(format!("triggers of the type {kind} are not supported"))
                .next("The types are `timer`, `schedule` and `channel`; haft's own form needs no `type`."));
        }
    }
    spec_of(&keys)
}

/// Returns the trigger with these keys, of which one says when it fires.
///
/// # Errors
/// When none does, or more than one.
pub fn spec_of(keys: &Map<String, Json>) -> Result<Spec, Fault> {
    const TIMES: [&str; 5] = ["every_minutes", "daily_at", "hourly_at", "cron", "once"];
    const OTHERS: [(&str, &str); 4] = [
        ("interval", "add_timer"),
        ("glob", "watch_files"),
        ("channel_name", "watch_channel"),
        ("webhook", "webhook"),
    ];
    let times = TIMES.iter().map(|key| (*key, "add_schedule"));
    let given: Vec<(&str, &str)> = OTHERS
        .into_iter()
        .chain(times)
        .filter(|(key, _)| keys.get(*key).is_some_and(|it| !it.is_null()))
        .collect();
    let which = "One of `interval`, `every_minutes`, `daily_at`, `hourly_at`, `cron`, `once`, `glob`, `channel_name` and `webhook` says \
                 when it fires.";
    let tool = match given.as_slice() {
        [(_, tool)] => *tool,
        [] => return Err(Fault::bad_args("it says nothing of when it fires").next(which)),
        more => {
            let names = more.iter().map(|(key, _)| format!("`{key}`")).collect::<Vec<_>>().join(" and ");
            return Err(Fault::bad_args(format!("it has {names}")).next(which));
        }
    };
    let mut keys = keys.clone();
    if let Some(scheme) = keys.remove("webhook") {
        keys.insert("scheme".to_owned(), scheme);
    }
    if let Some(one) = keys.get_mut("glob").filter(|it| it.is_string()) {
        *one = json!([one.clone()]);
    }
    let spec = Spec::of(tool, &Json::Object(keys))?;
    spec.common.grants.iter().try_for_each(|it| policy::grants::parse(it).map(drop))?;
    Ok(spec)
}
