//! Pictures for tests, ordinary ones and decompression bombs.

use std::io::{Cursor, Write as _};

use flate2::{Compression, Crc, write::ZlibEncoder};
use image::{DynamicImage, Frame, ImageFormat, Rgb, RgbImage, RgbaImage, codecs::gif::GifEncoder};

/// Red on its left half, blue on its right one.
pub(crate) fn halves(width: u32, height: u32) -> DynamicImage {
    let colour = |x| if x < width / 2 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) };
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |x, _| colour(x)))
}

pub(crate) fn written(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Vec::new();
    picture.write_to(&mut Cursor::new(&mut bytes), format).unwrap();
    bytes
}

/// Returns a photo that its camera held upright, as EXIF says.
pub(crate) fn turned() -> Vec<u8> {
    let jpeg = written(&halves(64, 32), ImageFormat::Jpeg);
    let exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    let length = u16::try_from(exif.len() + 2).unwrap().to_be_bytes();
    [&jpeg[..2], &[0xff, 0xe1], &length, exif, &jpeg[2..]].concat()
}

/// Eight by eight pixels for a printer: each of four inks at its half.
pub(crate) fn cmyk() -> Vec<u8> {
    let mut bytes = vec![0xff, 0xd8];
    let mut segment = |marker: u8, body: &[u8]| {
        bytes.extend([0xff, marker]);
        bytes.extend(u16::try_from(body.len() + 2).unwrap().to_be_bytes());
        bytes.extend(body);
    };
    segment(0xee, b"Adobe\0\x64\0\0\0\0\0");
    segment(0xdb, &[&[0][..], &[1; 64]].concat());
    let inks: Vec<u8> = (1..=4).flat_map(|ink| [ink, 0x11, 0]).collect();
    segment(0xc0, &[&[8, 0, 8, 0, 8, 4][..], &inks].concat());
    // One code each, of one bit, which stands for nothing: no difference, and no more of the block.
    for class in [0x00, 0x10] {
        let mut table = vec![class, 1];
        table.extend([0; 15]);
        table.push(0);
        segment(0xc4, &table);
    }
    let scanned: Vec<u8> = (1..=4).flat_map(|ink| [ink, 0]).collect();
    segment(0xda, &[&[4][..], &scanned, &[0, 63, 0]].concat());
    bytes.extend([0, 0xff, 0xd9]);
    bytes
}

pub(crate) fn animated() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = GifEncoder::new(&mut bytes);
    let frame = |shade| Frame::new(RgbaImage::from_pixel(10, 6, image::Rgba([shade, 0, 0, 255])));
    encoder.encode_frames([frame(255), frame(120), frame(0)]).unwrap();
    drop(encoder);
    bytes
}

/// Returns a PNG that says it has this size, with this as its packed pixels.
pub(crate) fn png_of(width: u32, height: u32, packed: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut chunk = |name: &[u8], body: &[u8]| {
        let mut crc = Crc::new();
        crc.update(name);
        crc.update(body);
        bytes.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        bytes.extend(name);
        bytes.extend(body);
        bytes.extend(crc.sum().to_be_bytes());
    };
    let size = [width.to_be_bytes(), height.to_be_bytes()].concat();
    chunk(b"IHDR", &[&size[..], &[8, 2, 0, 0, 0]].concat());
    chunk(b"IDAT", packed);
    chunk(b"IEND", b"");
    bytes
}

/// Compresses so many MiB of zeros.
pub(crate) fn packed(megabytes: usize) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    let nothing = vec![0; 1 << 20];
    for _ in 0..megabytes {
        encoder.write_all(&nothing).unwrap();
    }
    encoder.finish().unwrap()
}

/// Returns a document with a page for each of these texts, in a size of 300 by 200 points.
pub(crate) fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids: Vec<String> = (0..pages.len()).map(|it| format!("{} 0 R", 4 + 2 * it)).collect();
    let mut pdf = b"%PDF-1.4\n%\xff\xfe\xfd\n".to_vec();
    let mut add = |text: &str| pdf.extend(text.as_bytes());
    add("1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n");
    add(&format!("2 0 obj <</Type/Pages/Kids[{}]/Count {}>> endobj\n", kids.join(" "), pages.len()));
    add("3 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>> endobj\n");
    for (at, text) in pages.iter().enumerate() {
        let content = format!("1 0 0 rg 0 0 150 50 re f BT /F 20 Tf 20 150 Td ({text}) Tj ET");
        add(&format!(
            "{} 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents {} 0 R\
             /Resources<</Font<</F 3 0 R>>>>>> endobj\n",
            4 + 2 * at,
            5 + 2 * at
        ));
        add(&format!(
            "{} 0 obj <</Length {}>> stream\n{content}\nendstream endobj\n",
            5 + 2 * at,
            content.len()
        ));
    }
    add("trailer <</Root 1 0 R>>\n%%EOF\n");
    pdf
}

/// The same with a stream in it that unpacks to so many megabytes.
pub(crate) fn pdf_bomb(megabytes: usize) -> Vec<u8> {
    let bomb = packed(megabytes);
    let head = format!("5 0 obj <</Filter/FlateDecode/Length {}>> stream\n", bomb.len());
    let begin = b"%PDF-1.4\n1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj\n2 0 obj <</Type/Pages/Kids[4 0 R]/Count 1>> endobj\n\
        4 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 5 0 R>> endobj\n";
    [begin, head.as_bytes(), &bomb, b"\nendstream endobj\ntrailer <</Root 1 0 R>>\n%%EOF\n"].concat()
}

/// Elements that use each other, ten times ten times ten times…
pub(crate) fn laughing_svg() -> String {
    let mut svg = "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><defs>".to_owned();
    svg.push_str("<rect id='l0' width='1' height='1'/>");
    for level in 1..12 {
        let uses = format!("<use href='#l{}'/>", level - 1).repeat(10);
        svg.push_str(&format!("<g id='l{level}'>{uses}</g>"));
    }
    svg + "</defs><use href='#l11'/></svg>"
}

/// Entities that stand for each other.
pub(crate) fn laughing_xml() -> String {
    let mut svg = "<!DOCTYPE svg [<!ENTITY a0 'lol'>".to_owned();
    for level in 1..12 {
        let uses = format!("&a{};", level - 1).repeat(10);
        svg.push_str(&format!("<!ENTITY a{level} '{uses}'>"));
    }
    svg + "]><svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><text>&a11;</text></svg>"
}
