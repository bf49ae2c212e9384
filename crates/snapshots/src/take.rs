//! Taking a snapshot.

use kit::Fault;

use crate::{Blobs, Manifest, Source, git::Repository, manifest::FORMAT, survey};

/// Takes a snapshot of a folder: all files that git does not ignore, those that it tracks among them, but `.git`, hidden paths
/// and files with secrets. Stores the contents that `blobs` lacks. A file that changes meanwhile is read again, so that each
/// content is one that the file had at one moment. Blocks.
///
/// # Errors
/// [`Kind::TooBig`](kit::Kind::TooBig) over the limits, those of the disk, and those of `blobs`.
pub fn take(source: &Source, blobs: &dyn Blobs) -> Result<Manifest, Fault> {
    let repository = Repository::around(source.roots.workspace());
    let ignores = repository.as_ref().map(Repository::outer_rules).unwrap_or_default();
    let tracked = repository.as_ref().and_then(Repository::tracked).unwrap_or_default();
    let mut survey = survey::survey(source, &ignores, &tracked)?;
    survey::store(source, &mut survey, blobs, |_, _| true)?;
    Ok(Manifest {
        format: FORMAT,
        git: repository.map(|it| it.head()),
        files: survey.files,
        left_out: survey.left_out,
        ignores,
    })
}
