//! The session service: conversations apart from any connection.
//!
//! A session has one owner, the process that runs its agent, and any number of watchers, in any process. What happens is a
//! numbered row on the disk before a watcher sees it; a watcher that reconnects goes on after the number that it had, also
//! after the owner was killed. What people do is an operation with an idempotency key, done once.

mod approvals;
mod client;
mod command_outputs;
mod compaction;
mod doing;
mod event;
mod fault;
mod fold;
mod headless;
mod hub;
mod log;
mod opener;
mod operation;
mod owner;
mod records;
mod server;
mod sessions;
mod socket;
mod streams;
#[cfg(feature = "testing")]
pub mod testing;
mod unfinished;
mod watcher;
mod wire;

pub use approvals::{ApprovalTable, OpenApproval};
pub use command_outputs::{CommandOutputs, attach_command};
pub use doing::{Doer, begin, check_pictures};
pub use event::{Approval, Asked, Decision, Event, Job, Row, TurnEnd};
pub use fault::Failure;
pub use fold::{Agent, Fold, Item, Turn as FoldedTurn};
pub use hub::{Attendance, Hub};
pub use log::Log;
pub use opener::{After, Begin, Command, Opened, Opener};
pub use operation::{Attachment, Operation, Prompt, Report};
pub use owner::{Began, Owner, Pending, Prepared, RunningTurn, State, Turn, Work};
pub use records::Records;
pub use sessions::{Attending, Guard, Handle, Sessions};
pub use unfinished::lines;
pub use watcher::Watcher;
