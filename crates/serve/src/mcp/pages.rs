//! Pagination of lists.

use std::hash::{DefaultHasher, Hash, Hasher as _};

use kit::base64;
use rmcp::ErrorData;
use serde::Serialize;

use crate::message::echo;

/// Maximum number of entries on a page.
const ENTRIES: usize = 100;

/// Size at which a page ends, in bytes.
const BYTES: usize = 256 * 1024;

/// Length of a cursor: the index, a hash of the entry before it, and a hash that marks it as haft's.
const CURSOR: usize = 4 + 8 + 8;

/// Returns a page of `all`, and the cursor of the next one, if there is one.
///
/// A cursor names the entry before its page, so that no entry is skipped or repeated when others are added or
/// removed before it.
///
/// # Errors
/// When the cursor does not belong to this list.
pub(super) fn page<T: Serialize>(
    list: &str,
    all: Vec<T>,
    key: impl Fn(&T) -> &str,
    cursor: Option<&str>,
) -> Result<(Vec<T>, Option<String>), ErrorData> {
    let from = match cursor {
        None => 0,
        Some(cursor) => {
            let (place, before) = understood(list, cursor).ok_or_else(|| {
                let what = format!(
                    "`{}` is not a cursor of the list of {list}; begin again without one",
                    echo(cursor)
                );
                ErrorData::invalid_params(what, None)
            })?;
            let is_before = |entry: &T| hash(key(entry)) == before;
            let known = place.checked_sub(1).and_then(|it| all.get(it)).is_some_and(is_before);
            match all.iter().position(is_before) {
                Some(at) if !known => at + 1,
                _ => place,
            }
        }
    };
    let (total, mut bytes) = (all.len(), 0);
    let mut page: Vec<T> = Vec::new();
    for entry in all.into_iter().skip(from).take(ENTRIES) {
        bytes = kit::json_bytes(&entry).saturating_add(bytes);
        if bytes > BYTES && !page.is_empty() {
            break;
        }
        page.push(entry);
    }
    let next = from + page.len();
    let cursor = page.last().filter(|_| next < total).map(|last| worded(list, next, hash(key(last))));
    Ok((page, cursor))
}

fn worded(list: &str, place: usize, before: u64) -> String {
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    let bytes =
        [&place.to_be_bytes()[..], &before.to_be_bytes(), &check(list, place, before).to_be_bytes()].concat();
    base64::encoded(&bytes)
}

fn understood(list: &str, cursor: &str) -> Option<(usize, u64)> {
    if cursor.len() > 2 * CURSOR {
        return None;
    }
    let bytes: [u8; CURSOR] = base64::decoded(cursor)?.try_into().ok()?;
    let (place, rest) = bytes.split_first_chunk::<4>()?;
    let (before, checked) = rest.split_first_chunk::<8>()?;
    let (place, before) = (u32::from_be_bytes(*place), u64::from_be_bytes(*before));
    (checked == check(list, place, before).to_be_bytes()).then_some((usize::try_from(place).ok()?, before))
}

fn check(list: &str, place: u32, before: u64) -> u64 {
    hash(&(list, place, before))
}

/// Hashes the same in every process: a client may use its cursor with another one.
fn hash(of: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("entry {number}")).collect()
    }

    fn all_pages(list: &[String]) -> Vec<Vec<String>> {
        let (mut pages, mut cursor) = (Vec::new(), None);
        loop {
            let (page, next) = page("things", list.to_vec(), |it| it, cursor.as_deref()).unwrap();
            pages.push(page);
            cursor = next;
            if cursor.is_none() {
                return pages;
            }
        }
    }

    #[test]
    fn pages_together_are_the_list() {
        for count in [0, 1, 99, 100, 101, 250, 300] {
            let list = names(count);
            let pages = all_pages(&list);
            assert_eq!(pages.concat(), list);
            assert_eq!(pages.len(), count.div_ceil(ENTRIES).max(1), "{count}");
        }
    }

    #[test]
    fn a_page_ends_where_it_has_enough_bytes_but_never_empty() {
        let list: Vec<String> = (0..10).map(|number| format!("{number}{}", "x".repeat(200 * 1024))).collect();
        let pages = all_pages(&list);
        assert!(pages.iter().all(|page| page.len() == 1));
        assert_eq!(pages.concat(), list);
    }

    #[test]
    fn changes_before_a_page_shift_it() {
        let list = names(150);
        let (first, cursor) = page("things", list.clone(), |it| it, None).unwrap();
        let mut more = list.clone();
        more.insert(0, "new".to_owned());
        let (rest, _) = page("things", more, |it| it, cursor.as_deref()).unwrap();
        assert_eq!([first, rest].concat(), list);
        let mut fewer = list.clone();
        fewer.remove(99);
        let (rest, none) = page("things", fewer, |it| it, cursor.as_deref()).unwrap();
        assert_eq!((rest.len(), none), (49, None), "the one before it is gone: the place counts");
        let (rest, none) = page("things", names(3), |it| it, cursor.as_deref()).unwrap();
        assert_eq!((rest.len(), none), (0, None), "there is no such place any more");
    }

    #[test]
    fn an_unknown_cursor_is_refused() {
        let (_, cursor) = page("things", names(150), |it| it, None).unwrap();
        let cursor = cursor.unwrap();
        for wrong in ["", "x", "AAAA", &cursor[1..], &format!("{cursor}{cursor}"), &"A".repeat(28)] {
            assert!(page("things", names(150), |it| it, Some(wrong)).is_err(), "{wrong}");
        }
        let refused = page("prompts", names(150), |it| it, Some(&cursor)).unwrap_err();
        assert_eq!(refused.code.0, -32602);
    }
}
