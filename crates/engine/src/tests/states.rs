//! Random histories of one piece of work against a model.

use proptest::prelude::*;

use super::*;
use crate::{record::Record, tests::places::Folder};

/// One step of a history. A worker's step goes through the last lease that it took, which may be long lost.
#[derive(Clone, Debug)]
enum Step {
    Claim(usize),
    Begin(usize),
    Renew(usize),
    Append(usize),
    Finish(usize),
    Cancel,
    /// An observer finds the holder lost.
    TakeOver,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        3 => (0..3_usize).prop_map(Step::Claim),
        3 => (0..3_usize).prop_map(Step::Begin),
        2 => (0..3_usize).prop_map(Step::Renew),
        3 => (0..3_usize).prop_map(Step::Append),
        2 => (0..3_usize).prop_map(Step::Finish),
        1 => Just(Step::Cancel),
        3 => Just(Step::TakeOver),
    ];
    proptest::collection::vec(one, 1..30)
}

/// The expected state, computed beside the engine.
#[derive(Default)]
struct Model {
    holder: Option<usize>,
    begun: bool,
    ended: Option<Outcome>,
    cancelled: bool,
    events: Vec<String>,
    /// How many holders began it.
    beginnings: u32,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_histories_have_one_holder_one_end_and_no_second_run(history in steps(), idempotent: bool) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(replay(&history, idempotent))?;
    }
}

async fn replay(history: &[Step], idempotent: bool) -> Result<(), TestCaseError> {
    let place = Folder::new().await;
    let long = Duration::from_secs(3600);
    let engine = Leases::new(place.storage(long).await, long);
    engine.offer(Work { idempotent, ..work(1) }).await.unwrap();
    let mut model = Model::default();
    let mut leases: [Option<Lease>; 3] = [const { None }; 3];
    for (number, step) in history.iter().enumerate() {
        apply(&engine, &mut model, &mut leases, step, number, idempotent).await?;
        let state = engine.status(&key(1)).await.unwrap().unwrap().state;
        let expected = match (&model.ended, model.holder) {
            (Some(outcome), _) => State::Ended(outcome.clone()),
            (None, Some(holder)) => State::Leased { worker: format!("w{holder}"), begun: model.begun },
            (None, None) => State::Offered,
        };
        prop_assert_eq!(state, expected, "after step {} of {:?}", number, history);
        prop_assert!(idempotent || model.beginnings <= 1, "it began twice");
    }
    if model.ended.is_none() {
        return Ok(());
    }
    let (events, states) = rest(engine.watch(&key(1), 0).await.unwrap()).await;
    let texts: Vec<_> = events.iter().map(|it| it.value.as_str().unwrap().to_owned()).collect();
    prop_assert_eq!(texts, model.events);
    prop_assert_eq!(
        events.iter().map(|it| it.number).collect::<Vec<_>>(),
        (1..=events.len() as u64).collect::<Vec<_>>()
    );
    prop_assert_eq!(states.len(), 1);
    Ok(())
}

async fn apply(
    engine: &Leases<crate::sqlite::Sqlite>,
    model: &mut Model,
    leases: &mut [Option<Lease>; 3],
    step: &Step,
    number: usize,
    idempotent: bool,
) -> Result<(), TestCaseError> {
    match step {
        Step::Claim(at) => {
            let offered = model.ended.is_none() && model.holder.is_none();
            let taken = engine.take_now(&key(1), &worker(&format!("w{at}"))).await.unwrap();
            prop_assert_eq!(taken.is_some(), offered);
            if let Some((_, lease)) = taken {
                leases[*at] = Some(lease);
                (model.holder, model.begun) = (Some(*at), false);
            }
        }
        Step::TakeOver => {
            engine.take_over_now(&key(1)).await.unwrap();
            if model.holder.take().is_some() && model.ended.is_none() {
                match model.begun {
                    true if !idempotent || model.cancelled => model.ended = Some(Outcome::Interrupted),
                    false if model.cancelled => model.ended = Some(Outcome::Cancelled),
                    _ => {}
                }
            }
        }
        Step::Cancel => {
            engine.cancel(&key(1)).await.unwrap();
            if model.ended.is_none() {
                model.cancelled = true;
                if model.holder.is_none() {
                    model.ended = Some(Outcome::Cancelled);
                }
            }
        }
        Step::Begin(at) | Step::Renew(at) | Step::Append(at) | Step::Finish(at) => {
            let Some(lease) = &mut leases[*at] else { return Ok(()) };
            let holds = model.ended.is_none() && model.holder == Some(*at);
            let text = format!("event {number}");
            let accepted = match step {
                Step::Begin(_) => engine.begin(lease).await.is_ok(),
                Step::Renew(_) => engine.renew(lease).await.is_ok(),
                Step::Append(_) => engine.append(lease, json!(text)).await.is_ok(),
                _ => {
                    let ended_it = model.ended == Some(done(&format!("w{at}")));
                    let accepted = engine.finish(lease, done(&format!("w{at}"))).await.is_ok();
                    prop_assert!(!ended_it || accepted, "repeating an accepted result is accepted");
                    accepted && !ended_it
                }
            };
            prop_assert_eq!(accepted, holds, "step {} {:?}", number, step);
            match step {
                Step::Begin(_) if holds => {
                    model.beginnings += u32::from(!model.begun);
                    model.begun = true;
                }
                Step::Append(_) if holds => model.events.push(text),
                Step::Finish(_) if holds => model.ended = Some(done(&format!("w{at}"))),
                _ => {}
            }
        }
    }
    Ok(())
}

#[test]
fn the_engine_gives_up_on_work_whose_workers_are_lost_again_and_again() {
    let place = Record {
        key: key(1),
        grain: Grain::Call,
        route: crate::work::Route::of(&work(1)),
        idempotent: true,
        holding: crate::record::Holding::Offered,
        cancel_requested: false,
        retries: 0,
    };
    let mut record = place;
    for _ in 0..=crate::record::MOST_RETRIES {
        assert_eq!(record.status(1).state, State::Offered);
        record = record.claimed("w", "c", LEASE).unwrap().taken_over().unwrap();
    }
    let State::Ended(Outcome::Failed { error }) = record.status(1).state else { panic!("{record:?}") };
    assert!(error.contains("21 workers in a row"), "{error}");
}
