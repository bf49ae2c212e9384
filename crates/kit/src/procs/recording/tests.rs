//! Tests: a recording returns what was written, for every range and at every time.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{
    io::{Read, Seek},
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use proptest::prelude::*;

use super::{newest::NEWEST, *};
use crate::Kind;

/// Spills into one file, and counts how often a file was opened.
struct Spills {
    file: File,
    opened: AtomicUsize,
    works: bool,
}

struct Word;

impl Redact for Word {
    fn find(&self, text: &str) -> Vec<Range<usize>> {
        text.match_indices("hunter22").map(|(at, it)| at..at + it.len()).collect()
    }
}

impl Spilling for Spills {
    fn open(&self) -> Result<SpillFile, Fault> {
        if !self.works {
            return Err(Fault::new(Kind::Unavailable, "the disk is full"));
        }
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(SpillFile { handle: "out_1".to_owned(), file: self.file.try_clone().unwrap(), space: None })
    }

    fn mask(&self) -> Option<Arc<dyn Redact>> {
        Some(Arc::new(Word))
    }
}

impl Spills {
    fn new(works: bool) -> Arc<Self> {
        Arc::new(Self { file: tempfile::tempfile().unwrap(), opened: AtomicUsize::new(0), works })
    }

    fn read(&self) -> Vec<u8> {
        let mut all = Vec::new();
        (&self.file).rewind().unwrap();
        (&self.file).read_to_end(&mut all).unwrap();
        all
    }
}

fn lines(count: usize) -> String {
    (1..=count).map(|it| format!("line {it}\n")).collect()
}

#[test]
fn output_that_fits_is_shown_whole_and_not_spilled() {
    let spills = Spills::new(true);
    let recording = Recording::new(Some(spills.clone()));
    recording.feed(b"one\ntwo\n");
    let slice = recording.since(4, 100);
    assert_eq!(slice, Slice { text: "two\n".to_owned(), bytes: 4..8, total: 8, handle: None });
    assert_eq!(recording.tail(4).text, "two\n");
    assert_eq!(recording.since(99, 10), Slice { text: String::new(), bytes: 8..8, total: 8, handle: None });
    assert_eq!(spills.opened.load(Ordering::Relaxed), 0);
}

#[test]
fn omitted_output_is_counted_and_in_the_file_at_once() {
    let spills = Spills::new(true);
    let recording = Recording::new(Some(spills.clone()));
    recording.feed(lines(100).as_bytes());
    recording.close();
    let slice = recording.since(0, 60);
    assert_eq!(
        slice.text,
        "line 1\nline 2\n[737 bytes left out; all of it: out_1; read or grep it]\nline 96\nline 97\nline 98\nline 99\nline 100\n"
    );
    assert_eq!(slice.bytes, 0..792);
    assert_eq!(String::from_utf8(spills.read()).unwrap(), lines(100));
    // Again it is the same file.
    assert_eq!(recording.since(0, 20).handle.as_deref(), Some("out_1"));
    assert_eq!(spills.opened.load(Ordering::Relaxed), 1);
}

#[test]
fn a_gap_without_a_file_shows_the_reason() {
    let recording = Recording::new(None);
    recording.feed(lines(100).as_bytes());
    assert!(recording.since(0, 60).text.contains("\n[737 bytes left out]\n"));
    let recording = Recording::new(Some(Spills::new(false)));
    recording.feed(lines(100).as_bytes());
    let text = recording.since(0, 60).text;
    assert!(text.contains("\n[737 bytes left out; they could not be kept: the disk is full]\n"), "{text}");
}

#[test]
fn the_beginning_stays_when_the_middle_has_left_memory() {
    let spills = Spills::new(true);
    let recording = Recording::new(Some(spills.clone()));
    let all = lines(100_000);
    for chunk in all.as_bytes().chunks(10_000) {
        recording.feed(chunk);
    }
    let slice = recording.since(0, 1000);
    assert!(slice.text.starts_with("line 1\nline 2\n"));
    assert!(slice.text.ends_with("line 99999\nline 100000\n"));
    // The requested range has been dropped: only the end is there.
    let slice = recording.since(500_000, 1000);
    assert!(slice.text.starts_with('['), "{}", slice.text);
    recording.close();
    assert_eq!(String::from_utf8(spills.read()).unwrap(), all);
    let (start, bytes) = recording.raw(0, usize::MAX);
    assert_eq!(bytes, all.as_bytes()[start as usize..]);
    assert_eq!(bytes.len(), NEWEST);
}

#[test]
fn a_secret_does_not_reach_the_file() {
    let spills = Spills::new(true);
    let recording = Recording::new(Some(spills.clone()));
    recording.feed(b"password hun");
    recording.feed(b"ter22, again ");
    recording.since(0, 4);
    recording.feed(b"hunter22\n");
    recording.close();
    assert_eq!(String::from_utf8(spills.read()).unwrap(), "password [masked], again [masked]\n");
}

#[test]
fn half_a_character_waits_for_the_other_half() {
    let recording = Recording::new(None);
    recording.feed(b"caf\xc3");
    let first = recording.since(0, 100);
    assert_eq!((first.text.as_str(), first.bytes, first.total), ("caf", 0..3, 4));
    recording.feed(b"\xa9!");
    assert_eq!(recording.since(3, 100).text, "é!");
    // From the middle of one, it begins behind it.
    assert_eq!(recording.since(4, 100).text, "!");
    assert_eq!(recording.tail(2).text, "!");
    recording.feed(b"\xc3");
    recording.close();
    assert_eq!(recording.since(3, 100).text, "é!\u{fffd}");
}

#[tokio::test]
async fn waiters_wake_for_more_output_and_at_the_end() {
    let recording = Arc::new(Recording::new(None));
    let waiting = tokio::spawn({
        let recording = recording.clone();
        async move { (recording.grown(0).await, recording.grown(3).await, recording.is_over()) }
    });
    tokio::task::yield_now().await;
    recording.feed(b"abc");
    tokio::task::yield_now().await;
    recording.close();
    assert_eq!(waiting.await.unwrap(), (true, false, true));
    assert!(recording.grown(2).await);
    recording.over().await;
}

proptest! {
    #[test]
    fn pieces_that_follow_each_other_are_the_whole(
        writes in prop::collection::vec(prop_oneof![
            Just("é".as_bytes().to_vec()), Just(b"\x1b[1mx\x1b".to_vec()), Just(b"[0m\xe2".to_vec()), Just(b"\x82\xac\n".to_vec()),
            Just(b"\xff\r\n".to_vec()), prop::collection::vec(b'a'..=b'z', 0..50),
        ], 0..30),
        polls in prop::collection::vec(any::<bool>(), 30),
    ) {
        let recording = Recording::new(None);
        let (mut text, mut from) = (String::new(), 0);
        for (write, poll) in writes.iter().zip(polls) {
            recording.feed(write);
            if poll {
                let slice = recording.since(from, usize::MAX);
                text.push_str(&slice.text);
                from = slice.bytes.end;
            }
        }
        recording.close();
        text.push_str(&recording.since(from, usize::MAX).text);
        prop_assert_eq!(&text, &recording.since(0, usize::MAX).text);
        prop_assert!(recording.total() == writes.concat().len() as u64);
    }

    #[test]
    fn a_slice_is_never_much_longer_than_was_asked(
        count in 0usize..3000, from in 0u64..40_000, bytes in 0usize..5000,
    ) {
        let recording = Recording::new(None);
        recording.feed(lines(count).as_bytes());
        let slice = recording.since(from, bytes);
        prop_assert!(slice.text.len() <= bytes + 60);
        let fits = slice.total - from.min(slice.total) <= bytes as u64;
        prop_assert_eq!(slice.text.contains("left out"), !fits);
    }
}

#[test]
fn whole_output_comes_from_memory_or_the_file_up_to_a_limit() {
    let spills = Spills::new(true);
    let recording = Recording::new(Some(spills.clone()));
    recording.feed(b"a hunter22 b");
    assert_eq!(recording.whole(100).unwrap(), b"a hunter22 b");
    let long = lines(60_000);
    recording.feed(long.as_bytes());
    recording.close();
    let whole = recording.whole(10 << 20).unwrap();
    assert_eq!(whole, format!("a [masked] b{long}").as_bytes());
    assert!(recording.whole(1000).is_none());
}

#[test]
fn two_recordings_with_one_copy_are_there_in_the_order_in_which_they_were_written() {
    let (output, errors, all) = (Recording::new(None), Recording::new(None), Arc::new(Recording::new(None)));
    output.feed(b"before\n");
    output.copy_to(&all);
    errors.copy_to(&all);
    output.feed(b"one\n");
    errors.feed(b"two\n");
    output.feed(b"three\n");
    assert_eq!(all.since(0, 100).text, "one\ntwo\nthree\n");
    assert_eq!(output.since(0, 100).text, "before\none\nthree\n");
    assert_eq!(errors.since(0, 100).text, "two\n");
}
