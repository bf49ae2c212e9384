//! `/fork`, `/rename` and the list of conversations in the chat.

use super::{
    screens::says,
    stage::{SIZES, Stage},
};

#[test]
fn conversation_is_branched_and_chosen_again_from_the_list() {
    for size in SIZES {
        let stage = Stage::new(size, true);
        let script = says("First.") + &says("Second.") + &says("Third.");
        let mut chat = stage.chat(&script);
        chat.types("one\n").rests("First.").types("two\n").rests("Second.");
        chat.types("/rename Trunk\n").rests("This conversation is now: Trunk");
        chat.types("/fork 1\n").rests("goes back to it");
        // The branch has one answer, so the model gives its second.
        chat.types("again\n").rests("Second.").types("/rename Branch\n").rests("now: Branch");
        chat.types("/sessions\n").shows("› Branch").shows("Trunk").types("trunk").lacks("Branch");
        chat.key("Enter").rests("> two").types("three\n").rests("Third.");
        chat.types("/fork 9\n").rests("there is no message 9");
        chat.types("/sessions\n").shows("› Trunk").key("Esc").rests(">");
    }
}
