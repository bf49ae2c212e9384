//! Several hundred hostile files, made from small valid ones by a seeded generator: the same on every machine.
//!
//! `HAFT_HOSTILE_FILES=3000` makes more of them than the sample that every test run takes.

use std::time::Instant;

use image::ImageFormat;
use serde_json::{Value, json};

use super::{LONGEST, MOST_MEMORY, attacks, document, goes_on, tree::Watch};
use crate::{
    media::pictures::{animated, halves, turned, written},
    support::Server,
    web::site::{Site, ok},
};

/// The default number of files.
const FILES: usize = 320;

/// The decoder of a kind of file.
#[derive(Clone, Copy)]
enum By {
    /// By `image_view`, and by `read`.
    Sight,
    /// By `web_fetch`, under this media type.
    Web(&'static str),
    /// By `render_3d`.
    Mesh,
    /// By `notebook_read`.
    Notebook,
}

/// Calls all tools on all files, some at once.
pub(super) fn run() {
    let count = std::env::var("HAFT_HOSTILE_FILES").ok().and_then(|it| it.parse().ok()).unwrap_or(FILES);
    let files = files(count);
    let pages: Vec<(&'static str, Vec<u8>)> = files
        .iter()
        .map(|(by, _, bytes)| (if let By::Web(kind) = by { *kind } else { "text/plain" }, bytes.clone()))
        .collect();
    let site = Site::new(move |asked| {
        let number = asked.path.trim_start_matches('/').parse::<usize>().unwrap();
        let (kind, bytes) = &pages[number];
        ok(kind, bytes.clone())
    });
    let test_ws = crate::web::test_ws(&[&site], "");
    test_ws.put("a.png", written(&halves(60, 30), ImageFormat::Png));
    let server = test_ws.serve();
    goes_on(&server);
    let watch = Watch::over(server.process());
    for (number, (by, name, bytes)) in files.iter().enumerate() {
        test_ws.put(name, bytes);
        let calls: Vec<(&str, Value)> = match by {
            By::Sight => vec![("image_view", json!({"path": name})), ("read", json!({"path": name}))],
            By::Web(_) => vec![("web_fetch", json!({"url": site.url(&format!("/{number}"))}))],
            By::Mesh => {
                vec![("render_3d", json!({"path": name, "views": ["iso"], "width": 64, "height": 64}))]
            }
            By::Notebook => vec![("notebook_read", json!({"path": name}))],
        };
        ends(&server, name, &calls);
        if number % 20 == 19 {
            goes_on(&server);
        }
    }
    goes_on(&server);
    let peak = watch.peak();
    assert!(peak < MOST_MEMORY, "{peak} MiB");
}

/// Checks that all calls end in time, with a result or a fault that is not a bug.
#[track_caller]
fn ends(server: &Server, name: &str, calls: &[(&str, Value)]) {
    let begun = Instant::now();
    let started: Vec<_> = calls.iter().map(|(tool, arguments)| server.start_call(tool, arguments)).collect();
    for (call, (tool, _)) in started.into_iter().zip(calls) {
        let said = call.result().unwrap_or_else(|| panic!("{tool} {name}: no answer"));
        assert!(
            !said.text.contains("(bug)") && !said.text.contains("panicked"),
            "{tool} {name}: {}",
            said.text
        );
        assert!(begun.elapsed() < LONGEST, "{tool} {name} took {:?}", begun.elapsed());
    }
}

/// Returns so many files, each with its decoder and its name.
fn files(count: usize) -> Vec<(By, String, Vec<u8>)> {
    let seeds = seeds();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    (0..count)
        .map(|number| {
            let (by, extension, seed) = &seeds[number % seeds.len()];
            (*by, format!("{number}.{extension}"), mutated(seed, &mut random))
        })
        .collect()
}

/// Small valid files of every format that is decoded, and some that are hostile already.
fn seeds() -> Vec<(By, &'static str, Vec<u8>)> {
    let picture = |format| written(&halves(40, 24), format);
    let html = "<!doctype html><html><head><meta charset=utf-8><title>A page</title></head><body><nav>menu</nav>\
        <article><h1>Head</h1><p>Some <b>text</b> with a <a href='/x'>link</a>, again and again.</p>\
        <table><tr><th>a<th>b<tr><td>1<td colspan=2>2</table><ul><li>one<li>two</ul><pre>code</pre></article></body></html>";
    let rss = "<?xml version='1.0'?><rss version='2.0'><channel><title>F</title><link>http://a.example/</link>\
        <description>d</description><item><title>One</title><link>http://a.example/1</link>\
        <description>&lt;p&gt;text&lt;/p&gt;</description><pubDate>Mon, 06 Sep 2021 00:01:00 +0000</pubDate></item></channel></rss>";
    let atom = "<?xml version='1.0'?><feed xmlns='http://www.w3.org/2005/Atom'><title>F</title><id>x</id>\
        <updated>2021-01-01T00:00:00Z</updated><entry><title>One</title><id>1</id><link href='http://a.example/1'/>\
        <updated>2021-01-01T00:00:00Z</updated><summary>text</summary></entry></feed>";
    let json_feed = r#"{"version":"https://jsonfeed.org/version/1.1","title":"F","items":[{"id":"1","url":"http://a.example/1","content_text":"text","date_published":"2021-01-01T00:00:00Z"}]}"#;
    let svg = "<svg xmlns='http://www.w3.org/2000/svg' width='60' height='40'><defs><linearGradient id='g'><stop offset='0' \
        stop-color='red'/><stop offset='1' stop-color='blue'/></linearGradient><filter id='f'><feGaussianBlur \
        stdDeviation='2'/></filter></defs><rect width='30' height='20' fill='url(#g)' filter='url(#f)'/>\
        <path d='M 0 0 L 10 10 A 5 5 0 0 1 20 20 Z' stroke='black' stroke-dasharray='2 3'/><use href='#g'/></svg>";
    let lettered = "<svg xmlns='http://www.w3.org/2000/svg' width='60' height='40'><text x='5' y='20' \
        font-size='12'>text <tspan dx='3'>more</tspan></text></svg>";
    let stl_text = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid a\n";
    let mut stl = vec![0; 80];
    stl.extend(2_u32.to_le_bytes());
    for z in [0.0_f32, 1.0] {
        let points = [0.0_f32, 0.0, 1.0, 0.0, 0.0, z, 1.0, 0.0, z, 0.0, 1.0, z];
        stl.extend(points.iter().flat_map(|it| it.to_le_bytes()));
        stl.extend([0, 0]);
    }
    let notebook = json!({"cells": [{"cell_type": "code", "execution_count": 1, "metadata": {}, "source": ["x\n"],
        "outputs": [{"output_type": "display_data", "metadata": {},
            "data": {"image/png": kit::base64::encoded(&picture(ImageFormat::Png)), "text/plain": ["p"]}}]}],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5});
    let mut seeds = vec![
        (By::Sight, "pdf", document()),
        (By::Sight, "pdf", fonts()),
        (By::Sight, "pdf", drawing()),
        (By::Web("application/pdf"), "pdf", document()),
        (By::Sight, "svg", svg.as_bytes().to_vec()),
        (By::Sight, "svg", lettered.as_bytes().to_vec()),
        (By::Sight, "png", picture(ImageFormat::Png)),
        (By::Sight, "jpg", picture(ImageFormat::Jpeg)),
        (By::Sight, "jpg", turned()),
        (By::Sight, "gif", animated()),
        (By::Sight, "webp", picture(ImageFormat::WebP)),
        (By::Sight, "bmp", picture(ImageFormat::Bmp)),
        (By::Sight, "tiff", picture(ImageFormat::Tiff)),
        (By::Web("text/html"), "html", html.as_bytes().to_vec()),
        (By::Web("application/rss+xml"), "xml", rss.as_bytes().to_vec()),
        (By::Web("application/atom+xml"), "xml", atom.as_bytes().to_vec()),
        (By::Web("application/feed+json"), "json", json_feed.as_bytes().to_vec()),
        (By::Mesh, "stl", stl),
        (By::Mesh, "stl", stl_text.as_bytes().to_vec()),
        (By::Notebook, "ipynb", notebook.to_string().into_bytes()),
    ];
    seeds.extend(attacks::quick().into_iter().map(|(_, bytes)| (By::Sight, "pdf", bytes)));
    seeds
}

/// Returns a document with an embedded TrueType font of few tables, an encoding and a map of letters.
fn fonts() -> Vec<u8> {
    let table = |tag: &[u8; 4], at: u32, length: u32| {
        [&tag[..], &0_u32.to_be_bytes(), &at.to_be_bytes(), &length.to_be_bytes()].concat()
    };
    let head: Vec<u8> = [&[0, 1, 0, 0, 0, 1, 0, 0][..], &[0; 8], &[0, 11, 3, 232], &[0; 34]].concat();
    let mut font = vec![0, 1, 0, 0, 0, 4, 0, 64, 0, 2, 0, 0];
    font.extend(table(b"glyf", 76, 32));
    font.extend(table(b"head", 108, 54));
    font.extend(table(b"loca", 162, 8));
    font.extend(table(b"maxp", 170, 6));
    // One triangle.
    font.extend([0, 1, 0, 0, 0, 0, 1, 244, 1, 244, 0, 2, 0, 0, 1, 1, 1, 0, 0, 1, 244, 0, 0, 0, 0, 0, 1, 244]);
    font.extend([0; 4]);
    font.extend(head);
    font.extend([0, 0, 0, 0, 0, 16, 0, 16, 0, 0, 80, 0, 0, 2]);
    let simple = b"<</Type/Font/Subtype/TrueType/BaseFont/A/FirstChar 65/LastChar 66/Widths[500 500]/FontDescriptor 6 0 R\
        /ToUnicode 8 0 R/Encoding<</Differences[65/A/B]>>>>";
    let about = b"<</Type/FontDescriptor/FontName/A/Flags 4/FontBBox[0 0 500 500]/FontFile2 7 0 R>>";
    let map =
        b"/CIDInit /ProcSet findresource begin begincmap 1 begincodespacerange <00> <ff> endcodespacerange \
        1 beginbfrange <41> <42> <0041> endbfrange endcmap end";
    let objects = [simple.to_vec(), about.to_vec(), attacks::stream("", &font), attacks::stream("", map)];
    attacks::page("/Font<</F 5 0 R>>", b"BT /F 12 Tf 20 150 Td (AB) Tj 1 Tr [(A)-200(B)] TJ ET", &objects)
}

/// Returns a document with shadings, patterns, a form, a mask and a packed picture.
fn drawing() -> Vec<u8> {
    let objects = [
        b"<</ShadingType 3/ColorSpace/DeviceRGB/Coords[50 50 0 50 50 40]/Function 6 0 R>>".to_vec(),
        b"<</FunctionType 2/Domain[0 1]/C0[1 0 0]/C1[0 0 1]/N 1>>".to_vec(),
        attacks::stream(
            "/Type/XObject/Subtype/Form/BBox[0 0 50 50]/Group<</S/Transparency>>",
            b"0 0 50 50 re f",
        ),
        attacks::stream(
            "/Type/XObject/Subtype/Image/Width 4/Height 4/ColorSpace/DeviceGray/BitsPerComponent 8/Filter/ASCIIHexDecode",
            b"00112233445566778899aabbccddeeff>",
        ),
        attacks::stream(
            "/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 4 4]/XStep 4/YStep 4/Resources<<>>",
            b"0 0 2 2 re f",
        ),
        b"<</Type/ExtGState/ca 0.5/SMask<</S/Luminosity/G 7 0 R>>>>".to_vec(),
    ];
    attacks::page(
        "/Shading<</S 5 0 R>>/XObject<</X 7 0 R/I 8 0 R>>/Pattern<</P 9 0 R>>/ExtGState<</G 10 0 R>>",
        b"q /G gs /S sh /X Do Q q 50 0 0 50 9 9 cm /I Do Q /Pattern cs /P scn 0 0 90 90 re f [3 2] 0 d 0 0 m 99 99 l S",
        &objects,
    )
}

/// Applies one to four mutations of the kinds that break decoders.
fn mutated(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(4) {
        let length = bytes.len().max(1);
        let at = random.below(length);
        match random.below(8) {
            // Bits.
            0 => {
                for _ in 0..=random.below(16) {
                    let at = random.below(length);
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << random.below(8);
                    }
                }
            }
            // The end.
            1 => bytes.truncate(at),
            // A length or an offset.
            2 => {
                let wrong = [[0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0; 4], [0, 0, 0, 0x80]][random.below(4)];
                for (byte, new) in bytes.iter_mut().skip(at).zip(wrong) {
                    *byte = new;
                }
            }
            // A number in digits.
            3 => number(&mut bytes, at, random),
            // A part, again and again.
            4 => {
                let part = bytes[at..(at + 1 + random.below(64)).min(bytes.len()).max(at)].to_vec();
                let again = part.repeat(1 + random.below(2_000));
                bytes.splice(at.min(bytes.len())..at.min(bytes.len()), again);
            }
            // Openings without an end.
            5 => {
                let open = ["<g>", "<div>", "[", "{", "<<", "(", "<table><tr><td>", "<entry>", "q "];
                let open = open[random.below(open.len())].repeat(1 + random.below(30_000));
                bytes.splice(at.min(bytes.len())..at.min(bytes.len()), open.into_bytes());
            }
            // A part that is lost.
            6 => {
                let end = (at + random.below(32)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            // Noise.
            _ => {
                let noise: Vec<u8> = (0..random.below(256)).map(|_| random.next().to_le_bytes()[0]).collect();
                bytes.splice(at.min(bytes.len())..at.min(bytes.len()), noise);
            }
        }
    }
    bytes
}

/// Makes the next number in digits one that is none.
fn number(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(from) = bytes.iter().skip(at).position(u8::is_ascii_digit).map(|it| it + at) else { return };
    let to = bytes.iter().skip(from).position(|it| !it.is_ascii_digit()).map_or(bytes.len(), |it| it + from);
    let numbers = ["4294967295", "-1", "0", "99999999999999999999", "0.0000001", "1e999", "2147483648"];
    bytes.splice(from..to, numbers[random.below(numbers.len())].bytes());
}

/// Numbers without a pattern, the same in each run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most.max(1) as u64).unwrap()
    }
}
