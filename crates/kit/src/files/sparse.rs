//! Copies of files that keep their holes: a sparse file takes no more space than before.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom},
    os::unix::fs::MetadataExt,
};

/// Copies the first `size` bytes of a file into a new or emptied one. Returns the number of bytes that `to` has then:
/// fewer, if `from` is shorter.
///
/// # Errors
/// Those of the system.
pub fn copy_with_holes(from: &File, to: &File, size: u64) -> io::Result<u64> {
    let about = from.metadata()?;
    let size = size.min(about.len());
    // A file without holes has blocks for all its bytes.
    let done = if about.blocks() * 512 >= about.len() { None } else { copy_data(from, to, size)? };
    match done {
        Some(()) => {}
        None => {
            let (mut from, mut to) = (from, to);
            from.rewind()?;
            to.rewind()?;
            io::copy(&mut from.take(size), &mut to)?;
        }
    }
    to.set_len(size)?;
    Ok(size)
}

/// Copies the parts that are not holes; `None` if the file system does not tell them.
#[cfg(target_os = "linux")]
fn copy_data(mut from: &File, mut to: &File, size: u64) -> io::Result<Option<()>> {
    use rustix::{fs::seek, io::Errno};

    let mut at = 0;
    while at < size {
        let begin = match seek(from, rustix::fs::SeekFrom::Data(at)) {
            Ok(begin) if begin < size => begin,
            // The rest is a hole.
            Ok(_) | Err(Errno::NXIO) => break,
            Err(Errno::INVAL) if at == 0 => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, rustix::fs::SeekFrom::Hole(begin))?.min(size);
        from.seek(SeekFrom::Start(begin))?;
        to.seek(SeekFrom::Start(begin))?;
        io::copy(&mut from.take(end - begin), &mut to)?;
        at = end;
    }
    Ok(Some(()))
}

#[cfg(not(target_os = "linux"))]
fn copy_data(_: &File, _: &File, _: u64) -> io::Result<Option<()>> {
    Ok(None)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{io::Write, os::unix::fs::FileExt};

    use super::*;

    #[test]
    fn copy_has_the_bytes_and_the_holes_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            File::options().read(true).write(true).create_new(true).open(dir.path().join(name)).unwrap()
        };
        let from = open("from");
        from.write_all_at(b"begin", 0).unwrap();
        from.write_all_at(b"middle", 4 << 20).unwrap();
        from.set_len(8 << 20).unwrap();
        let to = open("to");
        assert_eq!(copy_with_holes(&from, &to, u64::MAX).unwrap(), 8 << 20);
        assert!(
            std::fs::read(dir.path().join("from")).unwrap() == std::fs::read(dir.path().join("to")).unwrap()
        );
        assert!(to.metadata().unwrap().blocks() <= from.metadata().unwrap().blocks().max(64));
        let part = open("part");
        assert_eq!(copy_with_holes(&from, &part, 3).unwrap(), 3);
        assert_eq!(std::fs::read(dir.path().join("part")).unwrap(), b"beg");
        let mut dense = open("dense");
        dense.write_all(&[7; 10_000]).unwrap();
        let copy = open("copy");
        assert_eq!(copy_with_holes(&dense, &copy, 10_000).unwrap(), 10_000);
        assert_eq!(std::fs::read(dir.path().join("copy")).unwrap(), [7; 10_000]);
    }
}
