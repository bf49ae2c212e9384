//! The store: SQLite and files that outlive a call, with one writer thread.
//!
//! One SQLite database per workspace, and beside it folders for before-images, spills, live processes and
//! locks. One thread of this process commits the work that all others queue; those wait for the disk only if they ask to.
//! Who waits for a row while nothing is queued commits it in its own thread.

mod blobs;
mod clock;
mod connection;
mod conversations;
mod database;
mod error;
mod events;
mod grants;
mod inbox;
mod live;
mod masking;
mod memory;
mod operations;
mod owners;
mod paths;
mod prune;
mod queue;
mod reader;
mod savepoint;
mod schema;
mod search_index;
mod search_query;
mod sessions;
mod shared_connection;
mod signals;
mod transcript;
mod triggers;
mod writer;

pub mod changes;
pub mod channels;
pub mod credentials;
pub mod groups;
pub mod history;
pub mod journal;
pub mod shares;
pub mod spill;
pub mod tracked;
pub mod undo;

pub use blobs::{Blobs, Found, Hash};
pub use clock::now_ms;
pub use conversations::{Archived, Conversation, Conversations, Cut, Deleted, Forked};
pub use database::{Stamp, Store, folder_of};
pub use events::{EventRow, Events, Write};
pub use grants::{GrantRecord, Grants};
pub use inbox::{
    AllArrivals, Arrival, ArrivalState, Claim, Inbox, LONGEST_MESSAGE, MOST_QUEUED, NewMessage, Posted,
    Refused, Source, message_id,
};
pub use live::corpse;
pub use operations::{Noted, Operation, Operations};
pub use owners::{OwnerRecord, Owners};
pub use paths::{SPILL_PREFIX, create_folder, replace_file, spill_number};
pub use prune::{DiskUse, PruneLimits, Pruned, Tended, Upkeep};
pub use sessions::{SessionRecord, Sessions};
pub use transcript::{Buffer, Row, SessionLease, Transcripts, is_lease_taken};
pub use triggers::{
    Expected, Fire, Fired, HistoryEvent, HistoryRow, NewTriggerRow, TRIGGERS_CHANGED, Then, TriggerRow,
    TriggerState, Triggers, fire_of,
};
