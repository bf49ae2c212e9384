//! Files that the person attaches to what they say.
//!
//! They are the person's own, wherever they lie, so they are opened by name; what is no regular file is refused, as it may
//! have no end.

use std::{fs::File, io::Read, path::Path};

use agent::Input;
use kit::Fault;
use runtime::Session;

/// A picture has at most so many bytes.
const LARGEST: u64 = 64 << 20;

/// Attaches the picture in this file of the person's.
///
/// # Errors
/// When it can't be read, or is no picture that a model can be shown.
pub(crate) async fn image(input: &mut Input, session: &Session, path: &Path) -> Result<(), Fault> {
    let shown = path.display();
    let unreadable = |why: String| {
        Fault::bad_args(format!("the picture `{shown}` can't be read: {why}"))
            .next("Name a png, jpeg, webp or gif file with `--image FILE`.")
    };
    let about = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    // A pipe or a device may have no end.
    if !about.is_file() {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    if about.len() > LARGEST {
        return Err(unreadable(format!("it has {} bytes; at most {LARGEST} are read", about.len())));
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|it| it.take(LARGEST).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(error.to_string()))?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    input.attach_picture(session, &name, bytes).await
}
