//! Schedules: the next instant at which a trigger is due.

mod clock_changes;
mod cron;

use std::{fmt, time::Duration};

use jiff::{
    Timestamp, ToSpan as _,
    civil::{DateTime, Time},
    tz::TimeZone,
};
use kit::Fault;
use serde::{Deserialize, Serialize};

pub use cron::Cron;

/// The longest interval of a timer: ten years.
const LONGEST: Duration = Duration::from_secs(3_652 * 24 * 3_600);

/// When a trigger is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Schedule {
    /// Every interval.
    Timer(Duration),
    /// Every so many minutes, counted from midnight.
    EveryMinutes(u16),
    /// Each day at this time.
    DailyAt(Time),
    /// Each hour at this minute.
    HourlyAt(u8),
    /// At the times of a cron expression.
    Cron(Cron),
    /// One time only.
    Once(Timestamp),
}

/// The arguments of a schedule: exactly one of them is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScheduleArgs {
    /// Every so many minutes, counted from midnight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_minutes: Option<i64>,
    /// Each day at `HH:MM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daily_at: Option<String>,
    /// Each hour at this minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hourly_at: Option<i64>,
    /// A cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// One time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub once: Option<String>,
}

impl ScheduleArgs {
    /// Parses the one argument that is given; civil times are those of `zone`.
    ///
    /// # Errors
    /// When none is given or more than one, or its value is none.
    pub fn parse(&self, zone: &TimeZone) -> Result<Schedule, Fault> {
        let given: Vec<&str> = [
            ("every_minutes", self.every_minutes.is_some()),
            ("daily_at", self.daily_at.is_some()),
            ("hourly_at", self.hourly_at.is_some()),
            ("cron", self.cron.is_some()),
            ("once", self.once.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, is_given)| is_given.then_some(name))
        .collect();
        let which = "Give exactly one of `every_minutes`, `daily_at`, `hourly_at`, `cron` and `once`.";
        match given.as_slice() {
            [] => return Err(Fault::bad_args("the schedule says no time").next(which)),
            [_] => {}
            more => {
                let names = more.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(" and ");
                return Err(
                    Fault::bad_args(format!("{names} are given, and a schedule has one time")).next(which)
                );
            }
        }
        if let Some(minutes) = self.every_minutes {
            return Schedule::every_minutes(minutes);
        }
        if let Some(time) = &self.daily_at {
            return Schedule::daily_at(time);
        }
        if let Some(minute) = self.hourly_at {
            return Schedule::hourly_at(minute);
        }
        if let Some(cron) = &self.cron {
            return Ok(Schedule::Cron(cron.parse()?));
        }
        Schedule::once(self.once.as_deref().unwrap_or_default(), zone)
    }
}

impl Schedule {
    /// Creates a timer of so many seconds.
    ///
    /// # Errors
    /// When the interval is not above 0, or longer than ten years.
    pub fn timer(seconds: f64) -> Result<Self, Fault> {
        let interval = Duration::try_from_secs_f64(seconds).ok();
        // The clock of the rows counts milliseconds.
        let interval = interval.filter(|it| it.as_millis() > 0 && *it <= LONGEST);
        interval.map(Self::Timer).ok_or_else(|| {
            Fault::bad_args(format!("`{seconds}` is not an interval"))
                .next("`interval` is a number of seconds above 0, at most ten years.")
        })
    }

    fn every_minutes(minutes: i64) -> Result<Self, Fault> {
        match u16::try_from(minutes) {
            Ok(minutes @ 1..=1440) => Ok(Self::EveryMinutes(minutes)),
            _ => Err(Fault::bad_args(format!("`every_minutes` is {minutes}"))
                .next("It is a number from 1 to 1440, counted from midnight: 15 is :00, :15, :30 and :45.")),
        }
    }

    fn daily_at(text: &str) -> Result<Self, Fault> {
        let wrong = || {
            Fault::bad_args(format!("`{text}` is not a time of day"))
                .next("`daily_at` is `HH:MM` from 00:00 to 23:59: `07:30`.")
        };
        let (hour, minute) = text.trim().split_once(':').ok_or_else(wrong)?;
        let is_digits = |it: &str| (1..=2).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_digit());
        if !is_digits(hour) || !is_digits(minute) {
            return Err(wrong());
        }
        let (hour, minute) = (hour.parse().map_err(|_| wrong())?, minute.parse().map_err(|_| wrong())?);
        Time::new(hour, minute, 0, 0).map(Self::DailyAt).map_err(|_| wrong())
    }

    fn hourly_at(minute: i64) -> Result<Self, Fault> {
        match u8::try_from(minute) {
            Ok(minute @ 0..=59) => Ok(Self::HourlyAt(minute)),
            _ => Err(Fault::bad_args(format!("`hourly_at` is {minute}"))
                .next("It is the minute of the hour, from 0 to 59.")),
        }
    }

    fn once(text: &str, zone: &TimeZone) -> Result<Self, Fault> {
        let text = text.trim();
        // With an offset, the text alone says when.
        if let Ok(at) = text.parse::<Timestamp>() {
            return Ok(Self::Once(at));
        }
        let civil: Option<DateTime> = text.parse().ok();
        civil.and_then(|it| clock_changes::instant(it, zone)).map(Self::Once).ok_or_else(|| {
            Fault::bad_args(format!("`{text}` is not a date with a time"))
                .next("`once` is `2026-12-01T09:00` in the trigger's time zone, or has an offset: `2026-12-01T09:00+01:00`.")
        })
    }

    /// Returns the first instant after `after` at which it is due. A timer counts from `after`.
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Timer(interval) => after.checked_add(*interval).ok(),
            Self::EveryMinutes(minutes) => {
                clock_changes::next_always(after, zone, |civil| next_of_day(civil, *minutes))
            }
            Self::HourlyAt(minute) => {
                clock_changes::next_always(after, zone, |civil| next_of_hour(civil, *minute))
            }
            Self::DailyAt(time) => clock_changes::next_once(after, zone, |civil| next_at(civil, *time)),
            Self::Cron(cron) if cron.is_hourly() => {
                clock_changes::next_always(after, zone, |civil| cron.next_after(civil))
            }
            Self::Cron(cron) => clock_changes::next_once(after, zone, |civil| cron.next_after(civil)),
            Self::Once(at) => (*at > after).then_some(*at),
        }
    }

    /// Returns the first instant after `now` of a schedule that was last due at `due`: timers keep their rhythm.
    pub fn next_of(&self, due: Timestamp, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Self::Timer(interval) => {
                let passed = now.duration_since(due).as_millis().max(0);
                let rounds = passed / i128::try_from(interval.as_millis()).ok()?.max(1) + 1;
                let span = i64::try_from(rounds * i128::try_from(interval.as_millis()).ok()?).ok()?;
                due.checked_add(span.milliseconds()).ok()
            }
            other => other.next_after(now.max(due), zone),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timer(interval) => write!(f, "every {} s", interval.as_secs_f64()),
            Self::EveryMinutes(1) => f.write_str("every minute"),
            Self::EveryMinutes(minutes) => write!(f, "every {minutes} minutes from midnight"),
            Self::DailyAt(time) => write!(f, "daily at {}", time.strftime("%H:%M")),
            Self::HourlyAt(minute) => write!(f, "each hour at :{minute:02}"),
            Self::Cron(cron) => write!(f, "cron {cron}"),
            Self::Once(at) => write!(f, "once at {at}"),
        }
    }
}

fn next_at(civil: DateTime, time: Time) -> Option<DateTime> {
    let date = if civil.time() < time { civil.date() } else { civil.date().tomorrow().ok()? };
    Some(DateTime::from_parts(date, time))
}

fn next_of_hour(civil: DateTime, minute: u8) -> Option<DateTime> {
    let at = Time::new(civil.hour(), minute.cast_signed(), 0, 0).ok()?;
    let this = DateTime::from_parts(civil.date(), at);
    if this > civil { Some(this) } else { this.checked_add(1.hour()).ok() }
}

fn next_of_day(civil: DateTime, minutes: u16) -> Option<DateTime> {
    let (minutes, now) = (i64::from(minutes), i64::from(civil.hour()) * 60 + i64::from(civil.minute()));
    let next = (now / minutes + 1) * minutes;
    let midnight = DateTime::from_parts(civil.date(), Time::midnight());
    if next < 24 * 60 {
        midnight.checked_add(next.minutes()).ok()
    } else {
        Some(DateTime::from_parts(civil.date().tomorrow().ok()?, Time::midnight()))
    }
}

#[cfg(test)]
mod tests;
