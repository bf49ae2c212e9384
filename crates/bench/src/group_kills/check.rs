//! The check of a store after a run: what was accepted, what was shown, and what fired.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use store::{
    Arrival, Buffer, HistoryEvent, HistoryRow, Source, Store, TriggerRow,
    channels::Scope,
    fire_of,
    groups::{MemberRecord, Shape},
};

use super::{
    Trouble,
    plan::{Plan, PlannedTrigger},
};

/// More rows than a run has.
const ALL: usize = 100_000;

/// The counts of some runs.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// The runs.
    pub runs: usize,
    /// The members.
    pub members: usize,
    /// The kills.
    pub kills: usize,
    /// Messages that were accepted, one for each recipient.
    pub messages: usize,
    /// Messages on channels.
    pub broadcasts: usize,
    /// Messages by output wires.
    pub wired: usize,
    /// The fires of triggers.
    pub fires: usize,
    /// The times that a trigger did not fire by its policy.
    pub passed: usize,
    /// Messages that no model was shown.
    pub lost: usize,
    /// Messages that a model was shown more than once.
    pub repeated: usize,
    /// Triggers that fired twice for one time.
    pub double: usize,
    /// Triggers that did not fire against their policy.
    pub missed: usize,
    /// The violations, one line each.
    pub faults: Vec<String>,
}

impl Counts {
    /// Returns whether anything was wrong.
    pub fn is_bad(&self) -> bool {
        self.lost + self.repeated + self.double + self.missed + self.faults.len() > 0
    }

    /// Adds the counts of other runs.
    pub fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.members += other.members;
        self.kills += other.kills;
        self.messages += other.messages;
        self.broadcasts += other.broadcasts;
        self.wired += other.wired;
        self.fires += other.fires;
        self.passed += other.passed;
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.double += other.double;
        self.missed += other.missed;
        self.faults.extend(other.faults);
    }

    fn fault(&mut self, text: String) {
        self.faults.push(text);
    }
}

/// A member with its messages and its log.
struct Seen {
    record: MemberRecord,
    inbox: Vec<Arrival>,
    /// The number and the body of each row of its log.
    log: Vec<(u64, Value)>,
}

impl Seen {
    /// Returns how many of its messages have this id. A trigger's message about a message on a channel has the same.
    fn copies(&self, message: &str) -> usize {
        self.inbox.iter().filter(|it| it.message == message && it.source != Source::Trigger).count()
    }
}

/// Checks the store of a run. `posted` are the messages from outside: a session and an id each.
///
/// # Errors
/// When the store can't be read.
pub fn check(store: &Store, plan: &Plan, posted: &[(String, String)]) -> Result<Counts, Trouble> {
    let groups = store.groups().list().map_err(|it| it.what)?;
    let [group] = groups.as_slice() else { return Err(format!("{} groups", groups.len()).into()) };
    let shape = store.groups().shape(&group.name).map_err(|it| it.what)?;
    let mut counts = Counts { runs: 1, members: shape.members.len(), ..Counts::default() };
    let members = shape.members.iter().map(|it| seen(store, it)).collect::<Result<Vec<_>, _>>()?;
    for member in &members {
        shown(store, member, &mut counts)?;
        direct(member, &members, &mut counts);
        wired(plan, member, &members, &mut counts);
    }
    for (session, message) in posted {
        let copies =
            members.iter().find(|it| it.record.session == *session).map_or(0, |it| it.copies(message));
        if copies != 1 {
            counts.fault(format!("{message} from outside is {copies} times in the inbox of {session}"));
        }
    }
    broadcasts(store, plan, &shape, &members, &mut counts)?;
    for planned in &plan.triggers {
        trigger(store, planned, &shape, &members, &mut counts)?;
    }
    Ok(counts)
}

fn seen(store: &Store, record: &MemberRecord) -> Result<Seen, Trouble> {
    let inbox = store.inbox().list(&record.session, ALL).map_err(|it| it.what)?;
    let rows = store.events().page(&record.session, 0, ALL, usize::MAX).map_err(|it| it.what)?;
    let log = rows.into_iter().map(|it| Ok((it.seq, serde_json::from_str(&it.body)?)));
    let log = log.collect::<Result<_, serde_json::Error>>()?;
    Ok(Seen { record: record.clone(), inbox, log })
}

/// Compares the messages of an inbox with those that the conversation shows.
fn shown(store: &Store, member: &Seen, counts: &mut Counts) -> Result<(), Trouble> {
    let mut shown: BTreeMap<String, usize> = BTreeMap::new();
    let session = &member.record.session;
    for row in store.transcripts().rows(session, Buffer::Context).map_err(|it| it.what)? {
        let ends = [("<message id=\\\"", '\\'), ("sent you this message (", ')')];
        for (begin, end) in ends {
            for (at, found) in row.body.match_indices(begin) {
                let rest = row.body.get(at + found.len()..).unwrap_or_default();
                let id = rest.split(end).next().unwrap_or_default();
                *shown.entry(id.to_owned()).or_default() += 1;
            }
        }
    }
    counts.messages += member.inbox.len();
    let mut by_id: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
    for arrival in &member.inbox {
        by_id.entry(&arrival.message).or_default().push(arrival);
    }
    for (id, arrivals) in by_id {
        let times = shown.remove(id).unwrap_or(0);
        if times != arrivals.len() {
            let texts: Vec<&str> = arrivals.iter().map(|it| it.text.as_str()).collect();
            counts.fault(format!(
                "{id} is {} times in the inbox of {session} and was shown {times} times: {texts:?}",
                arrivals.len()
            ));
        }
        counts.lost += arrivals.len().saturating_sub(times);
        counts.repeated += times.saturating_sub(arrivals.len());
    }
    for id in shown.keys() {
        counts.fault(format!("{session} was shown {id}, which is not in its inbox"));
    }
    Ok(())
}

/// Returns a text of a JSON object; an empty one is missing.
fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns whether a row of a log says that a call of this tool succeeded.
fn is_sent(row: &Value, tool: &str) -> bool {
    text(row, "event") == "answered" && text(row, "tool") == tool && row.get("ok") == Some(&Value::Bool(true))
}

/// Compares the answers of `group_send` and `send_channel` with the inboxes.
fn direct(member: &Seen, members: &[Seen], counts: &mut Counts) {
    for (_, row) in &member.log {
        if !is_sent(row, "group_send") {
            continue;
        }
        let answer: Value = serde_json::from_str(text(row, "text")).unwrap_or_default();
        let (to, message) = (text(&answer, "to"), text(&answer, "message_id"));
        let copies = members.iter().find(|it| it.record.id == to).map_or(0, |it| it.copies(message));
        if copies != 1 {
            counts.fault(format!("{message} to {to} was delivered, and is {copies} times in its inbox"));
        }
    }
}

/// Returns the rows of the turns that ended with an answer of their own. A turn that went on after an interrupted one may have
/// found the answer complete: that is one, unless another turn has answered in between.
fn answered(log: &[(u64, Value)]) -> impl Iterator<Item = u64> + '_ {
    let is_done = |row: &Value| text(row, "event") == "turn_ended" && text(row, "ended") == "done";
    log.iter().filter(move |it| is_done(&it.1)).filter_map(move |(seq, row)| {
        let is_own = row.get("steps").and_then(Value::as_u64) > Some(0);
        let cut = text(row, "key").strip_prefix("go on after ").and_then(|it| it.parse::<u64>().ok());
        let is_first =
            cut.is_some_and(|cut| !log.iter().any(|it| it.0 > cut && it.0 < *seq && is_done(&it.1)));
        (is_own || is_first).then_some(*seq)
    })
}

/// Compares the turns that ended with the messages by output wires.
fn wired(plan: &Plan, member: &Seen, members: &[Seen], counts: &mut Counts) {
    let spec = plan.recipe.all().find(|it| it.name == member.record.name);
    for wire in spec.iter().flat_map(|it| &it.wires) {
        let Some(target) = members.iter().find(|it| it.record.name == wire.to) else {
            counts.fault(format!("there is no member `{}`", wire.to));
            continue;
        };
        let begin = format!("{} {} row ", wire.id(), member.record.session);
        let keys: Vec<&str> =
            target.inbox.iter().filter_map(|it| it.key.strip_prefix(begin.as_str())).collect();
        let ended: BTreeSet<String> = answered(&member.log).map(|it| it.to_string()).collect();
        counts.wired += keys.len();
        let passed: BTreeSet<String> = keys.iter().map(|it| (*it).to_owned()).collect();
        if passed != ended || keys.len() != passed.len() {
            counts.fault(format!(
                "turns of {} ended at {ended:?}, and the wire to {} passed on {keys:?}",
                member.record.name, wire.to
            ));
        }
    }
}

/// Compares the messages on channels with the inboxes of those who listen.
fn broadcasts(
    store: &Store,
    plan: &Plan,
    shape: &Shape,
    members: &[Seen],
    counts: &mut Counts,
) -> Result<(), Trouble> {
    let mut on_channels = BTreeSet::new();
    for channel in &shape.channels {
        let scope = Scope::Environment(format!("env_{}", channel.graph));
        for message in store.channels().history(&scope, &channel.name, ALL).map_err(|it| it.what)? {
            counts.broadcasts += 1;
            on_channels.insert(message.message_id.clone());
            for edge in shape.edges.iter().filter(|it| it.listens && it.channel == channel.name) {
                let Some(listener) = members.iter().find(|it| it.record.session == edge.session) else {
                    continue;
                };
                let is_own = message.sender_id.as_deref() == Some(edge.session.as_str());
                // A trigger on the channel sends its message in place of the copy.
                let is_watched = plan.triggers.iter().any(|it| {
                    it.member == listener.record.name
                        && it.keys.get("channel_name").and_then(Value::as_str) == Some(channel.name.as_str())
                });
                let copies = listener.copies(&message.message_id);
                if copies != usize::from(!is_own && !is_watched) {
                    counts.fault(format!(
                        "{} on {} is {copies} times in the inbox of {}",
                        message.message_id, channel.name, edge.session
                    ));
                }
            }
        }
    }
    for member in members {
        for (_, row) in &member.log {
            if !is_sent(row, "send_channel") {
                continue;
            }
            let answer: Value = serde_json::from_str(text(row, "text")).unwrap_or_default();
            let message = text(&answer, "message_id");
            if !on_channels.contains(message) {
                counts
                    .fault(format!("{message} of {} was accepted, and is on no channel", member.record.name));
            }
        }
    }
    Ok(())
}

/// Checks a trigger: one message for each fire, one outcome for each time, and those that its policy says.
fn trigger(
    store: &Store,
    planned: &PlannedTrigger,
    shape: &Shape,
    members: &[Seen],
    counts: &mut Counts,
) -> Result<(), Trouble> {
    let Some(member) = members.iter().find(|it| it.record.name == planned.member) else { return Ok(()) };
    let session = &member.record.session;
    let row = store.triggers().get(session, &planned.id).map_err(|it| it.what)?;
    let Some(row) = row else {
        counts.fault(format!("the trigger {} is gone", planned.id));
        return Ok(());
    };
    let history = store.triggers().history(session, &row.id, ALL).map_err(|it| it.what)?;
    let of = |event: HistoryEvent| history.iter().filter(|it| it.event == event).count();
    let fired: Vec<&HistoryRow> = history.iter().filter(|it| it.event == HistoryEvent::Fired).collect();
    counts.fires += fired.len();
    let passed = of(HistoryEvent::Missed) + of(HistoryEvent::Asks);
    counts.passed += passed;
    one_message_each(&row, member, &fired, counts);
    match row.kind.as_str() {
        "add_schedule" => {
            let policy = planned.keys.get("missed").and_then(Value::as_str).unwrap_or_default();
            let by_policy = match policy {
                "once" => fired.len() == 1 && passed == 0,
                "skip" => fired.len() + of(HistoryEvent::Missed) == 1 && of(HistoryEvent::Asks) == 0,
                _ => fired.len() + of(HistoryEvent::Asks) == 1 && of(HistoryEvent::Missed) == 0,
            };
            if !by_policy {
                counts.missed += usize::from(fired.len() + passed == 0);
                counts.double += (fired.len() + passed).saturating_sub(1);
                counts.fault(format!("{} with missed={policy} has {history:?}", row.id));
            }
        }
        "add_timer" => {
            let times: BTreeSet<&str> = fired.iter().map(|it| it.text.as_str()).collect();
            counts.double += fired.len() - times.len();
        }
        _ => watched(store, &row, shape, session, &fired, counts)?,
    }
    Ok(())
}

fn one_message_each(row: &TriggerRow, member: &Seen, fired: &[&HistoryRow], counts: &mut Counts) {
    let mine = member.inbox.iter().filter_map(|it| fire_of(&it.key)).filter(|it| it.0 == row.id);
    let mut messages: Vec<u64> = mine.map(|it| it.1).collect();
    messages.sort_unstable();
    let mut fires: Vec<u64> = fired.iter().filter_map(|it| it.fire).collect();
    fires.sort_unstable();
    if messages != fires {
        let lacking = fires.iter().filter(|it| !messages.contains(it)).count();
        counts.missed += lacking;
        counts.double += (messages.len() + lacking).saturating_sub(fires.len());
        counts.fault(format!("{} fired {fires:?} and sent {messages:?}", row.id));
    }
}

/// Compares the fires of a watched channel with its messages.
fn watched(
    store: &Store,
    row: &TriggerRow,
    shape: &Shape,
    session: &str,
    fired: &[&HistoryRow],
    counts: &mut Counts,
) -> Result<(), Trouble> {
    let Some(graph) = shape.graphs.first() else { return Ok(()) };
    let scope = Scope::Environment(format!("env_{}", graph.id));
    let channel = row.channel.as_deref().unwrap_or_default();
    let history = store.channels().history(&scope, channel, ALL).map_err(|it| it.what)?;
    let others = history.iter().filter(|it| it.sender_id.as_deref() != Some(session)).count();
    if fired.len() != others {
        counts.missed += others.saturating_sub(fired.len());
        counts.double += fired.len().saturating_sub(others);
        counts.fault(format!("{} fired {} times for {others} messages on {channel}", row.id, fired.len()));
    }
    Ok(())
}
