//! Plans of groups: what a seed decides.

use groups::{
    recipe::{Limits, MemberSpec, ROOT, Recipe},
    wiring::Wire,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum number of members.
const MEMBERS: u64 = 12;
/// Hops of the task: each message is answered by messages with one hop less.
const HOPS: u64 = 3;
/// More exchanges than a run has: no members are paused.
const EXCHANGES: usize = 1_000_000;
/// How much the clock of triggers goes on while no process runs, in milliseconds.
pub(super) const GAP_MS: u64 = 100_000;

/// Pseudorandom numbers (xorshift).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the numbers of a seed.
    pub fn new(seed: u64) -> Self {
        // Seeds that differ in one bit would begin alike.
        let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(if mixed == 0 { 1 } else { mixed ^ (mixed >> 31) })
    }

    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end.max(1)
    }

    /// Returns true one time of `times`.
    pub fn one_of(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// A trigger of a member.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PlannedTrigger {
    /// The name of the member.
    pub member: String,
    /// Its id.
    pub id: String,
    /// Its keys, without the time of a trigger that occurs once.
    pub keys: Map<String, Value>,
    /// When it is due after the group began, for one that occurs once, in milliseconds.
    pub due_after: Option<u64>,
}

/// A group and its triggers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of its models.
    pub seed: u64,
    /// The members, channels and wires.
    pub recipe: Recipe,
    /// The triggers.
    pub triggers: Vec<PlannedTrigger>,
}

impl Plan {
    /// Creates the plan of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let has_root = random.one_of(2);
        let count = 2 + random.below(MEMBERS - 1) - u64::from(has_root);
        let channels: Vec<String> = (0..=random.below(4)).map(|it| format!("c{it}")).collect();
        let some = |random: &mut Random| -> Vec<String> {
            channels.iter().filter(|_| random.one_of(3)).cloned().collect()
        };
        let mut members = Vec::new();
        for at in 0..count {
            let mut wires = Vec::new();
            // Only to members before it: no circle of wires goes on for ever.
            if at > 0 && random.one_of(3) {
                let with_content = !random.one_of(4);
                wires.push(Wire { with_content, ..Wire::to(format!("a{}", random.below(at))) });
            }
            if has_root && random.one_of(4) {
                wires.push(Wire::to(ROOT));
            }
            members.push(MemberSpec {
                name: format!("a{at}"),
                listen: some(&mut random),
                // The first one gets the task.
                send: if at == 0 { channels.clone() } else { some(&mut random) },
                wires,
                ..MemberSpec::default()
            });
        }
        let mut root = has_root.then(|| MemberSpec {
            name: ROOT.to_owned(),
            send: some(&mut random),
            ..MemberSpec::default()
        });
        let triggers = (0..=random.below(4)).map(|at| trigger(at, &mut random, count, &channels)).collect();
        // In a third of the groups, about half of the members have a process of their own.
        let mut apart = Random::new(seed.rotate_left(17));
        if apart.one_of(3) {
            members.iter_mut().chain(&mut root).for_each(|it: &mut MemberSpec| it.process = apart.one_of(2));
        }
        let recipe = Recipe {
            name: "kills".to_owned(),
            root,
            members,
            channels: channels.iter().map(|it| (it.clone(), String::new())).collect(),
            limits: Limits { exchanges: Some(EXCHANGES), ..Limits::default() },
            ..Recipe::default()
        };
        Self { seed, recipe, triggers }
    }

    /// Returns the text of the task.
    pub fn task(&self) -> String {
        format!("hop={HOPS} the task")
    }
}

fn trigger(at: u64, random: &mut Random, members: u64, channels: &[String]) -> PlannedTrigger {
    let member = format!("a{}", random.below(members));
    let policy = ["once", "skip", "ask"].get(random.below(3) as usize).copied().unwrap_or("once");
    let (id, keys, due_after) = match random.below(4) {
        0 => {
            let interval = 0.02 * (1 + random.below(4)) as f64;
            let keys = json!({"interval": interval, "overlap": random.one_of(2),
                "max_per_day": 1 + random.below(4), "prompt": "hop=1 by a timer"});
            (format!("timer{at}"), keys, None)
        }
        1 => {
            let channel = channels.get(random.below(channels.len() as u64) as usize);
            (format!("watch{at}"), json!({"channel_name": channel, "prompt": "seen: {content}"}), None)
        }
        _ => {
            let soon = 30 + random.below(400);
            let due = if random.one_of(2) { soon } else { soon + random.below(3 * GAP_MS) };
            (format!("once{at}"), json!({"missed": policy, "prompt": "hop=1 by the clock"}), Some(due))
        }
    };
    PlannedTrigger { member, id, keys: keys.as_object().cloned().unwrap_or_default(), due_after }
}
