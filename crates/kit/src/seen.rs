//! What has this session shown the model, file by file?

/// The views of one session.
#[derive(Debug, Default)]
pub struct Views {}
