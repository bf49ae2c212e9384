//! Triggers: what begins a turn of an agent without a person.
//!
//! A trigger is a row of the store. The [`Engine`] of the process that runs its session sleeps until the next one is due, and
//! fires it in one transaction. Schedules follow the clock of a time zone over its changes.

mod clock;
mod engine;
mod files;
mod name;
mod schedule;
mod service;
mod spec;
pub mod webhook;

pub use clock::{Clock, FakeClock, SystemClock};
pub use engine::{Engine, Sources};
pub use files::{Changes, FileChanges, WatchedFiles};
pub use schedule::{Cron, Schedule, ScheduleArgs};
pub use service::{Added, Delivered, Service};
pub use spec::{Common, Missed, Scheme, Spec, What};
