//! PNG files without the chunks that decoders would unpack.

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The chunks of the picture and its animation.
const NEEDED: [&[u8; 4]; 8] = [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND", b"acTL", b"fcTL", b"fdAT"];

/// Maximum size of the chunk with the orientation, in bytes.
const LONGEST_EXIF: usize = 64 << 10;

/// Returns the file without colour profiles and texts, which may unpack to a thousand times the file's size;
/// `None` if it has none, or is not a PNG.
pub(super) fn bare_png(data: &[u8]) -> Option<Vec<u8>> {
    let mut rest = data.strip_prefix(SIGNATURE)?;
    let mut bare = None;
    let mut at = SIGNATURE.len();
    while let Some((length, kind)) = heading(rest) {
        // A chunk's length, name and checksum are around it; the last may be truncated.
        let end = length.saturating_add(12).min(rest.len());
        let (chunk, after) = rest.split_at_checked(end)?;
        let is_needed = NEEDED.contains(&&kind) || (&kind == b"eXIf" && length <= LONGEST_EXIF);
        match &mut bare {
            None if !is_needed => bare = Some(data.get(..at)?.to_vec()),
            Some(bare) if is_needed => bare.extend_from_slice(chunk),
            _ => {}
        }
        at += end;
        rest = after;
    }
    bare
}

fn heading(data: &[u8]) -> Option<(usize, [u8; 4])> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let kind = rest.first_chunk::<4>()?;
    Some((usize::try_from(u32::from_be_bytes(*length)).ok()?, *kind))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "tests")]

    use std::io::Cursor;

    use image::{DynamicImage, ImageFormat};

    use super::*;

    fn chunk(kind: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        // Checksums are not verified: the chunk is dropped.
        [&length[..], kind, body, &[0; 4]].concat()
    }

    #[test]
    fn profiles_and_texts_are_left_out_and_the_picture_stays() {
        let mut png = Vec::new();
        DynamicImage::new_rgb8(3, 2).write_to(&mut Cursor::new(&mut png), ImageFormat::Png).unwrap();
        assert_eq!(bare_png(&png), None, "nothing to leave out");
        let after_header = SIGNATURE.len() + 25;
        let mut full = png.clone();
        let more = [chunk(b"iCCP", b"x\0\0packed"), chunk(b"zTXt", b"t"), chunk(b"gAMA", &[0; 4])].concat();
        full.splice(after_header..after_header, more);
        assert_eq!(bare_png(&full).unwrap(), png);
        full.truncate(full.len() - 2);
        assert_eq!(bare_png(&full).unwrap(), png[..png.len() - 2], "cut off");
        assert_eq!(bare_png(b"GIF89a"), None);
        assert_eq!(bare_png(&[SIGNATURE, &[0xff; 8]].concat()).unwrap(), SIGNATURE);
    }
}
