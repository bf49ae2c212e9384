//! Whatever happens when, each watcher knows what the log says.

use std::sync::Arc;

use agent::Event as Done;
use proptest::prelude::*;
use sessions::{Event, Fold, Opener as _, Owner, Row, Watcher};

use crate::support::{TestWorkspace, check_order};

/// A step of a random schedule.
#[derive(Debug, Clone)]
enum Step {
    /// The agent at this path does something.
    Does(usize, Does),
    /// A watcher attaches after the row at this part of the log.
    Attach(u8),
    /// This watcher reads so many rows.
    Reads(usize, usize),
    /// This watcher detaches, and another one goes on after its last number.
    Leaves(usize),
    /// The owner goes, in the middle of whatever is going on, and another one takes over.
    TakeOver,
    /// All of it gets to the disk.
    Flush,
    /// Time passes: what was kept back is due.
    Pause,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    Asks,
    Says,
    Thinks,
    Writes,
    Calls,
    Progresses,
    Answers,
    Used,
    Again,
    Ends,
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        1 => Just(Does::Asks),
        8 => Just(Does::Says),
        4 => Just(Does::Thinks),
        3 => Just(Does::Writes),
        2 => Just(Does::Calls),
        4 => Just(Does::Progresses),
        2 => Just(Does::Answers),
        3 => Just(Does::Used),
        1 => Just(Does::Again),
        1 => Just(Does::Ends),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..3_usize, does()).prop_map(|(path, does)| Step::Does(path, does)),
        3 => any::<u8>().prop_map(Step::Attach),
        6 => (any::<usize>(), 1..5_usize).prop_map(|(which, rows)| Step::Reads(which, rows)),
        1 => any::<usize>().prop_map(Step::Leaves),
        1 => Just(Step::TakeOver),
        6 => Just(Step::Flush),
        4 => Just(Step::Pause),
    ]
}

/// A watcher with what it knows, and that with which it began.
struct Seen {
    watcher: Watcher,
    fold: Fold,
    rows: Vec<Row>,
    since: u64,
}

struct Schedule {
    process: sessions::testing::ScriptOpener,
    owner: Option<(Owner, agent::Agent)>,
    watchers: Vec<Seen>,
    count: usize,
    said: [String; 3],
}

const PATHS: [&[&str]; 3] = [&[], &["a"], &["a", "b"]];

impl Schedule {
    async fn open(&mut self) {
        let prepared = self.process.sessions().prepare("s");
        let mut opened = self.process.open(&prepared).unwrap();
        let owner = prepared.own(&mut opened.agent).await.unwrap();
        self.owner = Some((owner, opened.agent));
    }

    async fn take(&mut self, step: &Step) {
        let (owner, _) = self.owner.as_ref().unwrap();
        match step {
            Step::Does(path, does) => {
                self.count += 1;
                let text = format!("{} ", self.count);
                let call = format!("c_{path}");
                let done = match does {
                    Does::Asks => Done::Asked { step: 1 },
                    Does::Says => {
                        self.said[*path].push_str(&text);
                        Done::Text { text }
                    }
                    Does::Thinks => Done::Reasoning { text },
                    Does::Writes => Done::Writing {
                        call: "c_1".to_owned(),
                        index: 0,
                        tool: "t".to_owned(),
                        bytes: self.count,
                    },
                    Does::Calls => {
                        Done::Called { call, tool: "t".to_owned(), arguments: serde_json::json!({}) }
                    }
                    Does::Progresses => Done::Progress { call, line: text },
                    Does::Answers => answered(call),
                    Does::Used => Done::Used { usage: Default::default(), cost: None },
                    Does::Again => Done::Again { why: text, seconds: 0.5 },
                    Does::Ends => {
                        owner.log().add(Event::Told { text });
                        return;
                    }
                };
                let under =
                    |inner, agent: &&str| Done::Under { agent: (*agent).to_owned(), inner: Box::new(inner) };
                owner.log().add(PATHS[*path].iter().rev().fold(done, under));
            }
            Step::Attach(part) => {
                owner.log().flush().await.unwrap();
                let rows = all(owner).await;
                let at = rows.len() * usize::from(*part) / 256;
                let (mut fold, mut since) = (Fold::new(), 0);
                for row in rows.iter().take(at) {
                    fold.add(row);
                    since = row.seq;
                }
                self.watchers.push(Seen { watcher: owner.watch(since), fold, rows: Vec::new(), since });
            }
            Step::Reads(which, rows) => {
                let count = self.watchers.len().max(1);
                let Some(seen) = self.watchers.get_mut(which % count) else { return };
                for _ in 0..*rows {
                    seen.read().await;
                }
            }
            Step::Leaves(which) => {
                let count = self.watchers.len().max(1);
                let Some(seen) = self.watchers.get_mut(which % count) else { return };
                seen.watcher = owner.watch(seen.watcher.after());
            }
            Step::TakeOver => {
                drop(self.owner.take());
                self.open().await;
                // Those of the process that is gone are the same: they read the disk.
                let (owner, _) = self.owner.as_ref().unwrap();
                for seen in &mut self.watchers {
                    seen.watcher = owner.watch(seen.watcher.after());
                }
            }
            Step::Flush => owner.log().flush().await.unwrap(),
            Step::Pause => tokio::time::sleep(std::time::Duration::from_millis(31)).await,
        }
    }
}

impl Seen {
    async fn read(&mut self) -> bool {
        let Some(row) = self.watcher.try_next().await.unwrap() else { return false };
        self.fold.add(&row);
        self.rows.push(row);
        true
    }
}

fn answered(call: String) -> Done {
    let (pictures, changes, links) = (Vec::new(), Vec::new(), Vec::new());
    let (fault, exit, text) = (None, None, String::new());
    Done::Answered {
        call,
        tool: "t".to_owned(),
        ok: true,
        fault,
        exit,
        ms: 1.0,
        text,
        pictures,
        changes,
        links,
    }
}

async fn all(owner: &Owner) -> Vec<Row> {
    let (mut rows, mut watcher) = (Vec::new(), owner.watch(0));
    while let Some(row) = watcher.try_next().await.unwrap() {
        rows.push(row);
    }
    rows
}

async fn run(steps: Vec<Step>) {
    let test_ws = TestWorkspace::new();
    let mut schedule = Schedule {
        process: test_ws.process(),
        owner: None,
        watchers: Vec::new(),
        count: 0,
        said: Default::default(),
    };
    schedule.open().await;
    schedule.take(&Step::Attach(0)).await;
    for step in &steps {
        schedule.take(step).await;
    }
    let (owner, _) = schedule.owner.as_ref().unwrap();
    owner.log().flush().await.unwrap();
    let rows = all(owner).await;
    check_order(&rows, 0);
    let mut log = Fold::new();
    rows.iter().for_each(|it| log.add(it));
    for seen in &mut schedule.watchers {
        while seen.read().await {}
        check_order(&seen.rows, seen.since);
        assert_eq!(seen.fold, log, "of a watcher since {}", seen.since);
    }
    // The fold has the whole text in order, whether or not its pieces were compacted.
    for (path, said) in PATHS.iter().zip(&schedule.said) {
        let items = log.agents.get(&path.join("/")).map(|it| it.items.clone()).unwrap_or_default();
        let text: String = items
            .iter()
            .filter_map(|it| match it {
                sessions::Item::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(text, *said);
    }
}

#[tokio::test]
async fn a_watcher_that_attaches_inside_a_text_of_a_sub_agent_gets_all_of_it_when_it_is_compacted() {
    use Does::{Asks, Says, Used};
    for take_over in [false, true] {
        let mut steps = vec![Step::Does(1, Says), Step::Does(0, Asks), Step::Pause, Step::Flush];
        steps.extend(take_over.then_some(Step::TakeOver));
        steps.extend([Step::Does(1, Says), Step::Does(0, Asks), Step::Pause, Step::Does(1, Says)]);
        steps.extend((0..8).map(|part| Step::Attach(part * 32)));
        steps.extend([Step::Does(1, Used), Step::Flush]);
        steps.extend((0..16).map(|part| Step::Attach(part * 16)));
        steps.extend([Step::Does(0, Asks), Step::Flush]);
        run(steps).await;
    }
}

#[tokio::test]
async fn a_text_that_an_owner_compacted_stays_between_others_for_the_next_owner() {
    use Does::{Says, Thinks, Used};
    let pause = Step::Pause;
    let mut steps = Vec::new();
    for does in [Says, Thinks, Thinks, Says, Used] {
        steps.extend([Step::Does(1, does), pause.clone(), Step::Flush]);
    }
    steps.extend((0..8).map(|part| Step::Attach(part * 32)));
    steps.extend([Step::TakeOver, Step::Does(1, Says), Step::Flush, Step::TakeOver]);
    run(steps).await;
}

#[test]
fn each_watchers_fold_is_the_fold_of_the_log_in_every_schedule() {
    let cases = std::env::var("HAFT_SCHEDULES").ok().and_then(|it| it.parse().ok()).unwrap_or(40);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let runtime = Arc::new(tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());
    proptest!(config, |(steps in prop::collection::vec(step(), 1..120))| {
        runtime.block_on(run(steps));
    });
}
