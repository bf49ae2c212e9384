//! Refused files of a patch: the present lines with fresh anchors, and the change that was not made.

use kit::{
    Fault, Kind, Output,
    edit::{Edit, plan_large},
    files::Loaded,
    seen::Identity,
    text::{Content, Text},
};
use runtime::Landing;
use similar::TextDiff;

use crate::{manifest::Node, patch::Change};

/// Maximum length of a change that is shown with its refusal, in bytes. A longer one is kept as an output.
const SHOWN: usize = 4_000;

/// Maximum length of a text that is compared, in bytes.
const COMPARED: usize = 4 << 20;

/// Returns the fault for a file that is no longer as the snapshot had it. `contents` are those before and after the work, as far
/// as they can be had.
pub(crate) fn moved_on(
    call: &Landing,
    path: &str,
    is_now: &str,
    now: Option<&Loaded>,
    change: &Change,
    contents: &[Option<Content>; 2],
) -> Fault {
    let since = if change.before.is_some() { "since the snapshot" } else { "where the snapshot had nothing" };
    let what = format!("`{path}` {is_now} {since}; it was left as it is");
    let why = Fault::new(Kind::Stale, what);
    let [before, after] = contents.each_ref().map(|it| it.as_ref().and_then(text));
    match (before, after) {
        (Some(before), Some(after)) => {
            let diff = unified(&before, &after);
            let fault = match now {
                Some(now) => with_anchors(call, now, &diff, why),
                None => why,
            };
            with_change(call, fault, "The change that was not made", &diff)
        }
        (None, Some(after)) => with_change(call, why, "The content that was not written", &after),
        (_, None) => match (&change.after, &contents[1]) {
            (None, _) => why.next("The work removed it. Remove it here if nothing in it is needed any more."),
            (Some(Node::Link { target }), _) => {
                why.next(format!("The work made it a symlink to `{target}`."))
            }
            (Some(Node::File { .. }), Some(content)) => match call.keep_output(content) {
                Ok(handle) => why.next(format!("The content of the work is kept as `{handle}`.")),
                Err(_) => why,
            },
            (Some(Node::File { .. }), None) => why,
        },
    }
}

fn text(content: &Content) -> Option<String> {
    if content.len() > COMPARED || content.contains(&0) {
        return None;
    }
    std::str::from_utf8(content).ok().map(str::to_owned)
}

fn unified(before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().context_radius(3).to_string()
}

/// Adds the lines that the change is about as they are now, with anchors by which an `edit` can make it.
fn with_anchors(call: &Landing, now: &Loaded, diff: &str, why: Fault) -> Fault {
    let Ok(current) = Text::share(now.bytes.clone()) else { return why };
    let identity = Identity::from(&now.identity);
    let (views, file) = (call.views(), now.location.absolute());
    let edits = [Edit::Diff(diff.to_owned())];
    let fault = match plan_large(&current, Some(&identity), views, &file, &edits, || Ok(())) {
        Ok(plan) => plan.refused(views, &file, Some(&identity), why),
        // Its lines are those nearest to the ones that the change is about.
        Err(Fault { seen: Some(seen), .. }) => why.seen(*seen),
        // No line of it is like them.
        Err(_) => {
            let fault = with_change(
                call,
                why,
                "The file is now",
                std::str::from_utf8(&now.bytes).unwrap_or_default(),
            );
            return fault.next("If the change is still wanted, read the file and make it again.");
        }
    };
    fault.next("If the change is still wanted, make it again on these lines, which are those of now.")
}

fn with_change(call: &Landing, fault: Fault, title: &str, change: &str) -> Fault {
    let masked = call.masked(change);
    let shown = if masked.len() <= SHOWN {
        format!("{title}:\n{masked}")
    } else {
        match call.keep_output(masked.as_bytes()) {
            Ok(handle) => format!("{title} is kept as `{handle}`."),
            Err(_) => format!("{title} has {} bytes.", masked.len()),
        }
    };
    let seen = match &fault.seen {
        Some(seen) => format!("{}\n{shown}", seen.as_text()),
        None => shown,
    };
    fault.seen(Output::page(seen))
}
