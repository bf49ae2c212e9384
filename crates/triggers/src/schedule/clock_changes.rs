//! Civil times and instants: what a clock that is set forward or back does to a schedule.
//!
//! A civil time that a change skips counts as the first instant after it. One that a change repeats counts once, unless
//! the schedule goes on through every hour.

use jiff::{
    Timestamp, ToSpan as _,
    civil::DateTime,
    tz::{AmbiguousOffset, TimeZone},
};

/// Civil times that are tried for one instant: all minutes of a repeated day, and more.
const TRIES: usize = 3_000;

/// Returns the first instant after `after` of a schedule by civil times, each of them once. `next` returns
/// the civil time that follows another.
pub(super) fn next_once(
    after: Timestamp,
    zone: &TimeZone,
    next: impl Fn(DateTime) -> Option<DateTime>,
) -> Option<Timestamp> {
    let mut civil = zone.to_datetime(after);
    for _ in 0..TRIES {
        civil = next(civil)?;
        let at = instant(civil, zone)?;
        if at > after {
            return Some(at);
        }
    }
    None
}

/// Returns the first instant after `after` of a schedule that goes on in a repeated hour.
pub(super) fn next_always(
    after: Timestamp,
    zone: &TimeZone,
    next: impl Fn(DateTime) -> Option<DateTime>,
) -> Option<Timestamp> {
    let mut from = zone.to_datetime(after);
    let mut since = after;
    for _ in 0..TRIES {
        let offset = zone.to_offset(since);
        let at = offset.to_timestamp(next(from)?).ok()?;
        let change = zone.following(since).next();
        let Some(change) = change.filter(|it| it.timestamp() <= at) else { return Some(at) };
        let (skipped_from, goes_on) =
            (offset.to_datetime(change.timestamp()), change.offset().to_datetime(change.timestamp()));
        let before = |civil: DateTime| civil.checked_sub(1.nanosecond()).ok();
        // Set forward: what was skipped, or is due at this moment, is due now.
        let due = next(before(skipped_from.min(goes_on))?)?;
        if goes_on > skipped_from && due <= goes_on {
            return Some(change.timestamp());
        }
        from = before(goes_on)?;
        since = change.timestamp();
        if next(from)? == goes_on {
            return Some(since);
        }
        from = goes_on;
    }
    None
}

/// Returns the instant of a civil time: the first of two, or the first after a change that skipped it.
pub(super) fn instant(civil: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(civil);
    match ambiguous.offset() {
        AmbiguousOffset::Gap { after, .. } => {
            let early = after.to_timestamp(civil).ok()?;
            zone.following(early).next().map(|it| it.timestamp())
        }
        AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok(),
    }
}
