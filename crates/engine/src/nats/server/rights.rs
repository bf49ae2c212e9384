//! The least rights of workers and senders on the subjects of their account.
//!
//! Both change records, as whoever observes a lost lease takes it over. A sender can't announce a worker, write events or take
//! work out of a queue; a worker can't offer work or give orders to other workers; neither can create, change or delete
//! streams, nor read the answers to others.

use super::inbox;

/// Reading of what is stored, and blobs.
const BOTH: [&str; 22] = [
    "$JS.API.STREAM.INFO.KV_haft",
    "$JS.API.STREAM.INFO.OBJ_haft_blobs",
    "$JS.API.STREAM.INFO.haft_queue",
    "$JS.API.STREAM.INFO.haft_workers",
    "$JS.API.STREAM.MSG.GET.KV_haft",
    "$JS.API.STREAM.MSG.GET.OBJ_haft_blobs",
    "$JS.API.DIRECT.GET.OBJ_haft_blobs",
    "$JS.API.DIRECT.GET.OBJ_haft_blobs.>",
    // An ordered consumer has no name, and its name is not in the subject.
    "$JS.API.CONSUMER.CREATE.KV_haft",
    "$JS.API.CONSUMER.CREATE.KV_haft.>",
    "$JS.API.CONSUMER.INFO.KV_haft.*",
    "$JS.API.CONSUMER.DELETE.KV_haft.*",
    "$JS.API.CONSUMER.CREATE.haft_workers",
    "$JS.API.CONSUMER.CREATE.haft_workers.>",
    "$JS.API.CONSUMER.INFO.haft_workers.*",
    "$JS.API.CONSUMER.DELETE.haft_workers.*",
    "$JS.FC.>",
    "$KV.haft.w.*",
    "haft.queue.*.*",
    "haft.notice.*",
    "$O.haft_blobs.C.*",
    "$O.haft_blobs.M.*",
];

const SENDER: [&str; 3] = ["$KV.haft.t.*", "$KV.haft.r.*", "haft.control.*"];

const WORKER: [&str; 15] = [
    "$KV.haft.o",
    "$KV.haft.e.*.*",
    "haft.worker.*",
    "$JS.API.STREAM.MSG.GET.haft_workers",
    "$JS.API.CONSUMER.CREATE.haft_queue.>",
    "$JS.API.CONSUMER.INFO.haft_queue.*",
    "$JS.API.CONSUMER.MSG.NEXT.haft_queue.*",
    "$JS.ACK.haft_queue.>",
    // Workers remove old work, and their own announcements.
    "$JS.API.STREAM.PURGE.KV_haft",
    "$JS.API.STREAM.PURGE.OBJ_haft_blobs",
    "$JS.API.STREAM.PURGE.haft_workers",
    "$JS.API.CONSUMER.CREATE.OBJ_haft_blobs",
    "$JS.API.CONSUMER.CREATE.OBJ_haft_blobs.>",
    "$JS.API.CONSUMER.INFO.OBJ_haft_blobs.*",
    "$JS.API.CONSUMER.DELETE.OBJ_haft_blobs.*",
];

pub(super) fn of_worker(nkey: &str) -> String {
    permissions(&WORKER, &[&format!("{}.>", inbox(nkey)), "haft.control.*", "haft.notice.*"])
}

pub(super) fn of_sender(nkey: &str) -> String {
    permissions(&SENDER, &[&format!("{}.>", inbox(nkey))])
}

fn permissions(own: &[&str], subscribe: &[&str]) -> String {
    let list = |all: &mut dyn Iterator<Item = &&str>| {
        all.map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ")
    };
    let publish = list(&mut BOTH.iter().chain(own));
    format!("{{ publish: [ {publish} ], subscribe: [ {} ] }}", list(&mut subscribe.iter()))
}
