#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Stdio};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::{Clock as _, FakeClock, spec::millis};

fn args(value: Value) -> Result<Schedule, Fault> {
    serde_json::from_value::<ScheduleArgs>(value).unwrap().parse(&TimeZone::get("Europe/Berlin").unwrap())
}

fn fires(schedule: Value, zone: &str, from: &str, count: usize) -> Vec<String> {
    let (schedule, zone) = (args(schedule).unwrap(), TimeZone::get(zone).unwrap());
    let mut at: Timestamp = from.parse().unwrap();
    (0..count)
        .map(|_| {
            at = schedule.next_after(at, &zone).unwrap();
            at.to_zoned(zone.clone()).strftime("%m-%d %H:%M%:z").to_string()
        })
        .collect()
}

#[test]
fn exactly_one_time_is_given() {
    for (given, what) in [
        (json!({}), "the schedule says no time"),
        (
            json!({"daily_at": "07:30", "cron": "* * * * *"}),
            "`daily_at` and `cron` are given, and a schedule has one time",
        ),
        (json!({"daily_at": "7.30"}), "`7.30` is not a time of day"),
        (json!({"daily_at": "24:00"}), "`24:00` is not a time of day"),
        (json!({"daily_at": "+7:30"}), "`+7:30` is not a time of day"),
        (json!({"every_minutes": 0}), "`every_minutes` is 0"),
        (json!({"every_minutes": 1441}), "`every_minutes` is 1441"),
        (json!({"hourly_at": 60}), "`hourly_at` is 60"),
        (json!({"once": "tomorrow"}), "`tomorrow` is not a date with a time"),
    ] {
        let fault = args(given).unwrap_err();
        assert_eq!(fault.what, what);
        assert!(fault.next.is_some(), "{what}");
    }
    for seconds in [0.0, -1.0, f64::NAN, 1e12, 0.0001] {
        assert!(Schedule::timer(seconds).is_err(), "{seconds}");
    }
}

#[test]
fn schedules_follow_the_clock() {
    let from = "2026-11-24T21:31:12Z";
    assert_eq!(
        fires(json!({"daily_at": "7:30"}), "Europe/Berlin", from, 2),
        ["11-25 07:30+01:00", "11-26 07:30+01:00"]
    );
    assert_eq!(
        fires(json!({"hourly_at": 5}), "Europe/Berlin", from, 2),
        ["11-24 23:05+01:00", "11-25 00:05+01:00"]
    );
    assert_eq!(
        fires(json!({"every_minutes": 50}), "Europe/Berlin", from, 3),
        ["11-24 23:20+01:00", "11-25 00:00+01:00", "11-25 00:50+01:00"]
    );
    assert_eq!(fires(json!({"cron": "0 9 * * mon"}), "Europe/Berlin", from, 1), ["11-30 09:00+01:00"]);
    assert_eq!(fires(json!({"once": "2026-12-01T09:00"}), "Europe/Berlin", from, 1), ["12-01 09:00+01:00"]);
    assert_eq!(
        fires(json!({"once": "2026-12-01T09:00+05:00"}), "Europe/Berlin", from, 1),
        ["12-01 05:00+01:00"]
    );
}

#[test]
fn a_time_that_does_not_exist_counts_once_after_the_gap_and_one_that_exists_twice_once() {
    let (spring, autumn) = ("2026-03-28T22:00:00Z", "2026-10-24T22:00:00Z");
    let zone = "Europe/Berlin";
    assert_eq!(
        fires(json!({"daily_at": "02:30"}), zone, spring, 2),
        ["03-29 03:00+02:00", "03-30 02:30+02:00"]
    );
    assert_eq!(
        fires(json!({"daily_at": "02:30"}), zone, autumn, 2),
        ["10-25 02:30+02:00", "10-26 02:30+01:00"]
    );
    assert_eq!(
        fires(json!({"cron": "*/30 2 * * *"}), zone, spring, 2),
        ["03-29 03:00+02:00", "03-30 02:00+02:00"]
    );
    // What goes on through every hour goes on in a repeated one.
    assert_eq!(
        fires(json!({"hourly_at": 30}), zone, "2026-10-24T23:45:00Z", 4),
        ["10-25 02:30+02:00", "10-25 02:30+01:00", "10-25 03:30+01:00", "10-25 04:30+01:00"]
    );
    assert_eq!(
        fires(json!({"every_minutes": 90}), zone, "2026-03-28T22:45:00Z", 3),
        ["03-29 00:00+01:00", "03-29 01:30+01:00", "03-29 03:00+02:00"]
    );
}

#[test]
fn a_timer_keeps_its_rhythm() {
    let timer = Schedule::timer(10.0).unwrap();
    let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
    assert_eq!(timer.next_of(at(100), at(100), &TimeZone::UTC), Some(at(110)));
    assert_eq!(timer.next_of(at(100), at(103), &TimeZone::UTC), Some(at(110)));
    assert_eq!(timer.next_of(at(100), at(110), &TimeZone::UTC), Some(at(120)));
    assert_eq!(timer.next_of(at(100), at(1_234), &TimeZone::UTC), Some(at(1_240)));
}

/// A fire by brute force, written for this test: every minute is checked, and no arithmetic of the schedule is used.
const REFERENCE: &str = r#"
import json, sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

def matches(kind, value, civil):
    if kind == "daily_at":
        return civil.strftime("%H:%M") == value
    if kind == "hourly_at":
        return civil.minute == value
    if kind == "every_minutes":
        return (civil.hour * 60 + civil.minute) % value == 0
    minute, hour = value.split()[:2]
    return str(civil.minute) == minute and str(civil.hour) in hour.split(",")

def fires(zone, kind, value, start, end):
    zone, step = ZoneInfo(zone), timedelta(minutes=1)
    once = kind in ("daily_at", "cron")
    found, seen = [], set()
    at = start
    before = at.astimezone(zone).replace(tzinfo=None)
    while at <= end:
        civil = at.astimezone(zone).replace(tzinfo=None)
        # The civil minutes that passed since the minute before: more than one where the clock was set forward.
        passed, one = [], before + step
        while one < civil:
            passed.append(one)
            one += step
        passed.append(civil)
        if at > start and any(matches(kind, value, it) and not (once and it in seen) for it in passed):
            found.append(int(at.timestamp()))
        seen.update(passed)
        before, at = civil, at + step
    return found

def changes(zone, year):
    zone, found = ZoneInfo(zone), []
    at, end = datetime(year, 1, 1, tzinfo=timezone.utc), datetime(year + 1, 1, 2, tzinfo=timezone.utc)
    offset = at.astimezone(zone).utcoffset()
    while at < end:
        at += timedelta(hours=1)
        now = at.astimezone(zone).utcoffset()
        if now != offset:
            found.append(at.replace(minute=0))
        offset = now
    return found

answers = []
for zone, year, schedules in json.load(sys.stdin):
    for change in changes(zone, year):
        start, end = change - timedelta(hours=30), change + timedelta(hours=30)
        for kind, value in schedules:
            answers.append([zone, kind, value, int(start.timestamp()), int(end.timestamp()), fires(zone, kind, value, start, end)])
print(json.dumps(answers))
"#;

#[test]
fn clock_changes_in_ten_time_zones_are_those_of_python() {
    kit::needs!(Python);
    // The last one skips a whole day; two others change by half an hour and by two.
    let zones = [
        ("Europe/Berlin", 2026),
        ("America/New_York", 2026),
        ("America/St_Johns", 2026),
        ("Australia/Lord_Howe", 2026),
        ("Pacific/Chatham", 2026),
        ("Africa/Casablanca", 2025),
        ("Africa/Cairo", 2026),
        ("Asia/Tehran", 2021),
        ("Antarctica/Troll", 2025),
        ("America/Santiago", 2026),
        ("Pacific/Apia", 2011),
    ];
    let schedules = json!([
        ["daily_at", "00:00"],
        ["daily_at", "00:30"],
        ["daily_at", "01:15"],
        ["daily_at", "02:00"],
        ["daily_at", "02:30"],
        ["daily_at", "03:00"],
        ["hourly_at", 0],
        ["hourly_at", 45],
        ["every_minutes", 20],
        ["every_minutes", 90],
        ["every_minutes", 1440],
        ["cron", "10 1,2,3 * * *"]
    ]);
    let asked: Vec<Value> = zones.iter().map(|(zone, year)| json!([zone, year, schedules])).collect();
    let mut python = Command::new("python3")
        .args(["-c", REFERENCE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    serde_json::to_writer(python.stdin.take().unwrap(), &asked).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success());
    let answers: Vec<(String, String, Value, u64, u64, Vec<u64>)> =
        serde_json::from_slice(&output.stdout).unwrap();
    assert!(answers.len() >= 12 * 20, "only {} answers", answers.len());
    for (zone, kind, value, start, end, expected) in answers {
        let (schedule, zoned) = (args(json!({&kind: value})).unwrap(), TimeZone::get(&zone).unwrap());
        // The clock of the engine, set from one fire to the next.
        let clock = FakeClock::new(start * 1_000);
        let mut found = Vec::new();
        while let Some(at) = schedule.next_after(crate::spec::instant(clock.now_ms()), &zoned) {
            if millis(at) > end * 1_000 {
                break;
            }
            clock.set(millis(at));
            found.push(millis(at) / 1_000);
        }
        assert_eq!(found, expected, "{zone} {kind} {value} from {start}");
    }
}
