//! Cron expressions: five fields over the civil time of a zone.
//!
//! `MINUTE HOUR DAY MONTH WEEKDAY` with lists, ranges, steps and names; `L` is the last day of a month, `5L` its last
//! Friday, `1#2` its second Monday. If both days are restricted, either is enough, as in every cron since Vixie's.

use std::{fmt, str::FromStr};

use jiff::civil::{Date, DateTime, Time, Weekday};
use kit::Fault;

/// Months after which an expression without a next occurrence counts as one that never occurs: two leap days can be
/// eight years apart, and a fifth Sunday in February 28.
const MONTHS: usize = 12 * 40;

const MONTH_NAMES: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAY_NAMES: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const ALIASES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A cron expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    minutes: u64,
    hours: u64,
    any_hour: bool,
    days: Days,
    months: u64,
}

/// The days of a month on which an expression occurs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Days {
    /// Days of the month, bits 1 to 31.
    of_month: u64,
    last_of_month: bool,
    any_of_month: bool,
    /// Days of the week, bits 0 (Sunday) to 6.
    of_week: u64,
    /// Pairs of a day of the week and its number in the month; 0 is the last one.
    nth: Vec<(u8, u8)>,
    any_of_week: bool,
}

impl FromStr for Cron {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        let lower = text.to_ascii_lowercase();
        let known = ALIASES.iter().find(|(alias, _)| *alias == lower);
        let fields: Vec<&str> = known.map_or(lower.as_str(), |it| it.1).split_whitespace().collect();
        let &[minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(wrong(text, &format!("has {} fields", fields.len())));
        };
        let in_field = |name: &str, why: String| wrong(text, &format!("{why} in the field {name}"));
        let (minutes, _) = set(minute, 0, 59, &[], 0).map_err(|it| in_field("minute", it))?;
        let (hours, any_hour) = set(hour, 0, 23, &[], 0).map_err(|it| in_field("hour", it))?;
        let (months, _) = set(month, 1, 12, &MONTH_NAMES, 1).map_err(|it| in_field("month", it))?;
        let mut days = Days::default();
        days.read_month(day).map_err(|it| in_field("day", it))?;
        days.read_week(weekday).map_err(|it| in_field("weekday", it))?;
        let cron = Self { text: text.to_owned(), minutes, hours, any_hour, days, months };
        if cron.next_after(DateTime::constant(2024, 1, 1, 0, 0, 0, 0)).is_none() {
            return Err(wrong(text, "never occurs"));
        }
        Ok(cron)
    }
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Cron {
    /// Returns whether it occurs in every hour of its days: then it goes on in an hour that the clock repeats.
    pub(super) fn is_hourly(&self) -> bool {
        self.any_hour
    }

    /// Returns the first civil time after this one at which it occurs.
    pub(super) fn next_after(&self, after: DateTime) -> Option<DateTime> {
        let mut date = after.date();
        // Later on the same day, if that is one of its days.
        if self.is_on(date)
            && let Some(time) = self.time_from(after.time(), true)
        {
            return Some(DateTime::from_parts(date, time));
        }
        let first = self.time_from(Time::midnight(), false)?;
        date = date.tomorrow().ok()?;
        for _ in 0..MONTHS {
            if !holds(self.months, date.month()) {
                date = first_of_next_month(date)?;
                continue;
            }
            let month = date.month();
            while date.month() == month {
                if self.days.has(date) {
                    return Some(DateTime::from_parts(date, first));
                }
                date = date.tomorrow().ok()?;
            }
        }
        None
    }

    fn is_on(&self, date: Date) -> bool {
        holds(self.months, date.month()) && self.days.has(date)
    }

    /// Returns its first time of a day from this one on, or after it.
    fn time_from(&self, from: Time, strictly: bool) -> Option<Time> {
        let is_late_enough = |hour: i8, minute: i8| {
            let later = (hour, minute) > (from.hour(), from.minute());
            let same = (hour, minute) == (from.hour(), from.minute());
            later || same && !strictly
        };
        (from.hour()..24).find_map(|hour| {
            let minute =
                (0..60).find(|minute| holds(self.minutes, *minute) && is_late_enough(hour, *minute))?;
            if holds(self.hours, hour) { Time::new(hour, minute, 0, 0).ok() } else { None }
        })
    }
}

impl Days {
    fn read_month(&mut self, field: &str) -> Result<(), String> {
        for part in field.split(',') {
            if part == "l" {
                self.last_of_month = true;
                continue;
            }
            let (bits, any) = set(part, 1, 31, &[], 0)?;
            self.of_month |= bits;
            self.any_of_month |= any;
        }
        Ok(())
    }

    fn read_week(&mut self, field: &str) -> Result<(), String> {
        for part in field.split(',') {
            if let Some((day, number)) = part.split_once('#') {
                let number: u8 = number
                    .parse()
                    .ok()
                    .filter(|it| (1..=5).contains(it))
                    .ok_or_else(|| format!("`{part}` names no week from 1 to 5"))?;
                self.nth.push((weekday(day)?, number));
                continue;
            }
            if let Some(day) = part.strip_suffix('l').filter(|it| !it.is_empty()) {
                self.nth.push((weekday(day)?, 0));
                continue;
            }
            let (bits, any) = set(part, 0, 7, &DAY_NAMES, 0)?;
            // 7 is Sunday as well.
            self.of_week |= (bits | bits >> 7) & 0x7f;
            self.any_of_week |= any;
        }
        Ok(())
    }

    fn has(&self, date: Date) -> bool {
        let in_month =
            holds(self.of_month, date.day()) || self.last_of_month && date.day() == date.days_in_month();
        let day = sunday_first(date.weekday());
        let is_nth = |number: u8| match number {
            0 => date.day() + 7 > date.days_in_month(),
            number => (date.day() - 1) / 7 + 1 == number.cast_signed(),
        };
        let in_week = holds(self.of_week, day.cast_signed())
            || self.nth.iter().any(|(it, number)| *it == day && is_nth(*number));
        match (self.any_of_month, self.any_of_week) {
            (true, true) => true,
            (true, false) => in_week,
            (false, true) => in_month,
            (false, false) => in_month || in_week,
        }
    }
}

/// Returns the numbers of a field as bits, and whether it begins with `*`.
fn set(field: &str, low: u8, high: u8, names: &[&str], first: u8) -> Result<(u64, bool), String> {
    let number = |text: &str| -> Result<u8, String> {
        let named = names.iter().position(|it| *it == text).and_then(|at| u8::try_from(at).ok());
        let number = named.map(|it| it + first).or_else(|| text.parse().ok());
        number
            .filter(|it| (low..=high).contains(it))
            .ok_or_else(|| format!("`{text}` is not a number from {low} to {high}"))
    };
    let (mut bits, mut any) = (0, false);
    for part in field.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                let step = step.parse::<u8>().ok().filter(|it| *it > 0);
                (range, step.ok_or_else(|| format!("`{part}` has no step of 1 or more"))?)
            }
            None => (part, 1),
        };
        let (from, to) = match range {
            "*" => {
                any |= step == 1;
                (low, high)
            }
            range => match range.split_once('-') {
                Some((from, to)) => (number(from)?, number(to)?),
                None if part.contains('/') => (number(range)?, high),
                None => (number(range)?, number(range)?),
            },
        };
        if from > to {
            return Err(format!("`{range}` ends before it begins"));
        }
        for number in (from..=to).step_by(usize::from(step)) {
            bits |= 1 << number;
        }
    }
    Ok((bits, any))
}

fn weekday(text: &str) -> Result<u8, String> {
    let (bits, _) = set(text, 0, 7, &DAY_NAMES, 0)?;
    u8::try_from(bits.trailing_zeros() % 7).map_err(|error| error.to_string())
}

fn sunday_first(day: Weekday) -> u8 {
    day.to_sunday_zero_offset().unsigned_abs()
}

fn holds(bits: u64, number: i8) -> bool {
    u32::try_from(number).is_ok_and(|it| bits & (1 << it) != 0)
}

fn first_of_next_month(date: Date) -> Option<Date> {
    date.last_of_month().tomorrow().ok()
}

fn wrong(text: &str, why: &str) -> Fault {
    Fault::bad_args(format!("the cron expression `{text}` {why}")).next(
        "It has five fields, minute hour day month weekday: `30 9 * * mon-fri` is 9:30 on workdays, `*/15 * * * *` every quarter of an hour.",
    )
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn times(cron: &str, from: &str, count: usize) -> Vec<String> {
        let cron: Cron = cron.parse().unwrap();
        let mut at: DateTime = from.parse().unwrap();
        (0..count)
            .map(|_| {
                at = cron.next_after(at).unwrap();
                at.strftime("%a %Y-%m-%d %H:%M").to_string()
            })
            .collect()
    }

    #[test]
    fn fields_are_lists_ranges_steps_and_names() {
        assert_eq!(
            times("30 9 * * mon-fri", "2026-11-27T09:00", 3),
            ["Fri 2026-11-27 09:30", "Mon 2026-11-30 09:30", "Tue 2026-12-01 09:30"]
        );
        assert_eq!(
            times("*/20 8,18 * * *", "2026-01-01T08:20", 3),
            ["Thu 2026-01-01 08:40", "Thu 2026-01-01 18:00", "Thu 2026-01-01 18:20"]
        );
        assert_eq!(
            times("5/25 0 1 feb *", "2026-01-01T00:00", 2),
            ["Sun 2026-02-01 00:05", "Sun 2026-02-01 00:30"]
        );
        assert_eq!(times("@weekly", "2026-11-24T00:00", 1), ["Sun 2026-11-29 00:00"]);
        assert_eq!(times("0 0 * * 7", "2026-11-24T00:00", 1), ["Sun 2026-11-29 00:00"]);
    }

    #[test]
    fn last_days_and_numbered_weekdays_are_found() {
        assert_eq!(
            times("0 12 L * *", "2028-02-01T00:00", 2),
            ["Tue 2028-02-29 12:00", "Fri 2028-03-31 12:00"]
        );
        assert_eq!(
            times("0 12 * * 5L", "2026-11-24T00:00", 2),
            ["Fri 2026-11-27 12:00", "Fri 2026-12-25 12:00"]
        );
        assert_eq!(times("0 12 * * mon#2", "2026-11-24T00:00", 1), ["Mon 2026-12-14 12:00"]);
        assert_eq!(times("0 0 29 2 *", "2026-11-24T00:00", 1), ["Tue 2028-02-29 00:00"]);
    }

    #[test]
    fn either_of_two_restricted_days_is_enough() {
        assert_eq!(
            times("0 0 13 * fri", "2026-11-10T00:00", 3),
            ["Fri 2026-11-13 00:00", "Fri 2026-11-20 00:00", "Fri 2026-11-27 00:00"]
        );
    }

    #[test]
    fn a_wrong_expression_is_refused_with_its_field() {
        for (text, why) in [
            ("* * * *", "has 4 fields"),
            ("0 0 0 * * *", "has 6 fields"),
            ("60 * * * *", "`60` is not a number from 0 to 59 in the field minute"),
            ("* 9-8 * * *", "`9-8` ends before it begins in the field hour"),
            ("*/0 * * * *", "`*/0` has no step of 1 or more in the field minute"),
            ("0 0 30 feb *", "never occurs"),
            ("0 0 * * mon#6", "`mon#6` names no week from 1 to 5 in the field weekday"),
            ("0 0 * * mo", "`mo` is not a number from 0 to 7 in the field weekday"),
        ] {
            let fault = text.parse::<Cron>().unwrap_err();
            assert!(fault.what.ends_with(why), "{}", fault.what);
            assert!(fault.next.is_some());
        }
    }
}
