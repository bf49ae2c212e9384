//! Approvals and questions: one winner over all who attend, bound to the very call, expired with it.

use kit::Kind;
use serde_json::{Value, json};
use sessions::{Approval, Decision, Event, Handle, Operation};

use crate::support::{TestWorkspace, folded, is_end, prompt, until};

fn put(path: &str) -> Value {
    json!({"tool": "put", "arguments": {"path": path, "text": "x\n"}})
}

fn approve(approval: &Approval, decision: Decision) -> Operation {
    let (id, hash) = (approval.id.clone(), approval.hash.clone());
    Operation::Approve { id, hash, decision, words: None }
}

fn opened(rows: &[sessions::Row]) -> Vec<Approval> {
    let approval = |it: &sessions::Row| match &it.event {
        Event::ApprovalOpened(approval) => Some(approval.clone()),
        _ => None,
    };
    rows.iter().filter_map(approval).collect()
}

async fn asked(handle: &Handle, watcher: &mut sessions::Watcher, key: &str, answers: &[Value]) -> Approval {
    let (handle, key, told) = (handle.clone(), key.to_owned(), prompt(answers));
    tokio::spawn(async move { handle.act(&key, told).await });
    let rows = until(watcher, |it| matches!(it, Event::ApprovalOpened(_))).await;
    opened(&rows).remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_approve_at_once_one_wins_always_and_the_other_is_told_who() {
    let test_ws = TestWorkspace::new();
    let (here, there) = (test_ws.process().sessions(), test_ws.process().watching());
    let one = here.open(None, "one").await.unwrap();
    let other = there.attach(one.session(), "other").await.unwrap();
    let mut watcher = other.watch(0);
    let mut wins = [0, 0];
    for round in 0..100 {
        let path = format!("file_{round}");
        let answers = [json!({"calls": [put(&path)]}), json!({"say": "done"})];
        let approval = asked(&one, &mut watcher, &format!("p{round}"), &answers).await;
        let keys = [format!("a{round}"), format!("b{round}")];
        let (first, second) = tokio::join!(
            one.act(&keys[0], approve(&approval, Decision::Once)),
            other.act(&keys[1], approve(&approval, Decision::No))
        );
        assert_eq!(usize::from(first.is_ok()) + usize::from(second.is_ok()), 1, "{first:?} {second:?}");
        let (winner, loser) = if first.is_ok() { ("one", second) } else { ("other", first) };
        wins[usize::from(winner == "other")] += 1;
        let fault = loser.unwrap_err();
        assert!(fault.kind == Kind::Stale && fault.what.contains(winner), "{}", fault.what);
        let rows = until(&mut watcher, is_end).await;
        let closed = rows.iter().filter_map(|it| match &it.event {
            Event::ApprovalClosed { id, decision, by, .. } => Some((id, *decision, by.as_deref())),
            _ => None,
        });
        let decision = if winner == "one" { Decision::Once } else { Decision::No };
        assert_eq!(closed.collect::<Vec<_>>(), [(&approval.id, decision, Some(winner))]);
        assert_eq!(test_ws.path().join("ws").join(&path).exists(), winner == "one");
    }
    assert_eq!(wins[0] + wins[1], 100);
}

#[tokio::test]
async fn a_decision_is_bound_to_the_call_that_was_shown() {
    let test_ws = TestWorkspace::new();
    let here = test_ws.process().sessions();
    let handle = here.open(None, "one").await.unwrap();
    let mut watcher = handle.watch(0);
    let answers = [json!({"calls": [put("a")]}), json!({"say": "done"})];
    let approval = asked(&handle, &mut watcher, "p", &answers).await;
    assert!(approval.changes.iter().any(|it| it.path == "a"), "{approval:?}");
    let other = Approval { hash: "0".repeat(64), ..approval.clone() };
    let fault = handle.act("1", approve(&other, Decision::Once)).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Stale, "{}", fault.what);
    let fault = handle.act("2", approve(&approval, Decision::Expired)).await.unwrap_err();
    assert_eq!(fault.kind, Kind::BadArgs, "{}", fault.what);
    assert_eq!(handle.state().await.unwrap().approvals, std::slice::from_ref(&approval));
    handle.act("3", approve(&approval, Decision::Once)).await.unwrap();
    until(&mut watcher, is_end).await;
    assert!(handle.state().await.unwrap().approvals.is_empty());
    assert_eq!(folded(&handle).await.approvals, []);
}

#[tokio::test]
async fn an_approval_expires_with_its_call() {
    let test_ws = TestWorkspace::new();
    let here = test_ws.process().sessions();
    let handle = here.open(None, "one").await.unwrap();
    let mut watcher = handle.watch(0);
    let approval = asked(&handle, &mut watcher, "p", &[json!({"calls": [put("a")]})]).await;
    handle.act("stop", Operation::Cancel { prompt: None }).await.unwrap();
    let rows = until(&mut watcher, is_end).await;
    let expired = |it: &sessions::Row| matches!(&it.event, Event::ApprovalClosed { id, decision: Decision::Expired, by: None, .. } if *id == approval.id);
    assert!(rows.iter().any(expired), "{rows:?}");
    let fault = handle.act("late", approve(&approval, Decision::Once)).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Stale, "{}", fault.what);
    assert!(!test_ws.path().join("ws/a").exists());
}

#[tokio::test]
async fn sub_agents_ask_those_who_watch_the_root_session() {
    let test_ws = TestWorkspace::new();
    let (here, there) = (test_ws.process().sessions(), test_ws.process().watching());
    let one = here.open(None, "one").await.unwrap();
    let other = there.attach(one.session(), "other").await.unwrap();
    let below =
        json!([{"calls": [put("a"), {"tool": "ask", "arguments": {"text": "why?"}}]}, {"say": "below"}]);
    let delegate = json!({"tool": "delegate", "arguments": {"prompt": below.to_string()}});
    let mut watcher = other.watch(0);
    let approval =
        asked(&one, &mut watcher, "p", &[json!({"calls": [delegate]}), json!({"say": "done"})]).await;
    assert!(approval.agent.as_deref().is_some_and(|it| it.starts_with("agent_")), "{approval:?}");
    other.act("1", approve(&approval, Decision::Once)).await.unwrap();
    let state = loop {
        let state = other.state().await.unwrap();
        if !state.questions.is_empty() {
            break state;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    let question = &state.questions[0];
    assert!(question.text.ends_with(": why?"), "{question:?}");
    let answer = Operation::Answer { id: question.id.clone(), text: Some("because".to_owned()) };
    other.act("2", answer.clone()).await.unwrap();
    let fault = one.act("3", answer).await.unwrap_err();
    assert!(fault.kind == Kind::Stale && fault.what.contains("other answered"), "{}", fault.what);
    until(&mut watcher, is_end).await;
    assert!(test_ws.path().join("ws/a").exists());
    let fold = folded(&one).await;
    assert!(fold.agents.keys().any(|it| it.starts_with("agent_")), "{:?}", fold.agents.keys());
    assert!(fold.approvals.is_empty() && fold.questions.is_empty());
}

#[tokio::test]
async fn without_anybody_who_attends_a_loop_of_its_own_is_told_so_at_once() {
    use sessions::Opener as _;
    let test_ws = TestWorkspace::new();
    let process = test_ws.process();
    let prepared = process.sessions().prepare("own");
    let opened = process.open(&prepared).unwrap();
    let (mut agent, mut driver) = (opened.agent, opened.driver);
    let owner = prepared.own(&mut agent).await.unwrap();
    let Operation::Prompt(told) = prompt(&[json!({"calls": [put("a")]}), json!({"say": "done"})]) else {
        panic!()
    };
    for attends in [false, true] {
        let attendance = attends.then(|| owner.attend());
        let began = sessions::Began { by: "me".to_owned(), text: told.text.clone(), ..Default::default() };
        let turn = owner.begin_turn(&agent, began);
        let cancel = turn.cancel().clone();
        let mut watcher = owner.watch(0);
        let result = {
            let turning = driver.say(&mut agent, told.text.clone().into(), &cancel);
            let decides = async {
                if attends {
                    let rows = until(&mut watcher, |it| matches!(it, Event::ApprovalOpened(_))).await;
                    let approval = opened_last(&rows);
                    owner.hub().decide(&approval.id, &approval.hash, Decision::Once, None, "me").unwrap();
                }
            };
            tokio::join!(turning, decides).0
        };
        turn.end(&result);
        drop(attendance);
        assert_eq!(test_ws.path().join("ws/a").exists(), attends);
    }
    owner.close("me").await.unwrap();
}

fn opened_last(rows: &[sessions::Row]) -> Approval {
    opened(rows).pop().unwrap()
}
