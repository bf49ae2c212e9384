//! STL files in both forms: their triangles, checked. Decoded in a worker only.

use std::{ops::ControlFlow, time::Duration};

use kit::{Fault, Kind, decoders::MEMORY, text::Content};

/// A point, in millimetres.
pub(super) type Point = [f32; 3];
/// Three corners, counterclockwise as seen from outside.
pub(super) type Triangle = [Point; 3];

/// The longest file: 2.6 million triangles.
pub(super) const LONGEST: u64 = 128 << 20;
/// Time limit of a decoder of meshes.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
/// Maximum coordinate; a larger one is a mistake.
const FARTHEST: f32 = 1e9;

const HEADER: usize = 80;
const RECORD: usize = 50;

/// Returns the memory limit of a decoder for a file of `bytes` bytes. Its data on a triangle takes several
/// times the triangle's size.
pub(super) fn memory(bytes: u64) -> u64 {
    MEMORY + 7 * bytes
}

/// Triangles. Those of a binary file are read from its bytes, so that they are in memory only once.
pub(super) struct Mesh {
    form: Form,
    /// The least and the greatest of each coordinate.
    pub(super) low: Point,
    pub(super) high: Point,
}

enum Form {
    Binary(Content),
    Text(Vec<Triangle>),
}

impl Mesh {
    /// Reads a file of either form, detected by its content.
    ///
    /// # Errors
    /// [`Kind::Failed`] when it is not an STL, or is truncated, or has invalid coordinates.
    pub(super) fn read(name: &str, bytes: impl Into<Content>) -> Result<Self, Fault> {
        let bytes = bytes.into();
        let form = if is_binary(&bytes) {
            Form::Binary(bytes)
        } else if is_text(&bytes) {
            Form::Text(text(name, &bytes)?)
        } else {
            return Err(not_whole(name, &bytes));
        };
        let mut mesh = Self { form, low: [f32::INFINITY; 3], high: [f32::NEG_INFINITY; 3] };
        if mesh.is_empty() {
            return Err(Fault::new(Kind::Failed, format!("`{name}` holds no triangles")));
        }
        mesh.measure(name)?;
        Ok(mesh)
    }

    pub(super) fn len(&self) -> usize {
        match &self.form {
            Form::Binary(bytes) => records(bytes).len(),
            Form::Text(triangles) => triangles.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes on every triangle with its number, until `take` breaks.
    pub(super) fn each(&self, mut take: impl FnMut(usize, &Triangle) -> ControlFlow<()>) {
        match &self.form {
            Form::Binary(bytes) => {
                for (number, record) in records(bytes).iter().enumerate() {
                    if take(number, &decode(record)).is_break() {
                        return;
                    }
                }
            }
            Form::Text(triangles) => {
                for (number, triangle) in triangles.iter().enumerate() {
                    if take(number, triangle).is_break() {
                        return;
                    }
                }
            }
        }
    }

    /// Formats its size, as `60 × 40 × 20 mm`.
    pub(super) fn size(&self) -> String {
        let sides = self.high.iter().zip(&self.low).map(|(high, low)| short(f64::from(high - low)));
        format!("{} mm", sides.collect::<Vec<_>>().join(" × "))
    }

    fn measure(&mut self, name: &str) -> Result<(), Fault> {
        let (mut low, mut high) = (self.low, self.high);
        let mut wrong = None;
        self.each(|number, triangle| {
            let mut sound = true;
            for point in triangle {
                for ((low, high), value) in low.iter_mut().zip(&mut high).zip(point) {
                    *low = low.min(*value);
                    *high = high.max(*value);
                    // Also false for NaN.
                    sound &= value.abs() <= FARTHEST;
                }
            }
            if sound {
                return ControlFlow::Continue(());
            }
            let value = triangle.iter().flatten().copied().find(|it| it.is_nan() || it.abs() > FARTHEST);
            wrong = Some((number + 1, value.unwrap_or(f32::NAN)));
            ControlFlow::Break(())
        });
        if let Some((number, value)) = wrong {
            let what = format!(
                "triangle {number} of `{name}` has the coordinate {value:e}, which is no place of a part"
            );
            return Err(Fault::new(Kind::Failed, what).next("Write the file again from its source."));
        }
        (self.low, self.high) = (low, high);
        Ok(())
    }
}

/// Formats a number with the significant decimals: up to three, none for a large whole one.
pub(super) fn short(value: f64) -> String {
    let decimals = if value.abs() < 1e6 { 3 } else { 0 };
    let text = format!("{value:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// Returns whether this is a file of either form, judged by its beginning and its length.
pub(super) fn is_one(bytes: &[u8]) -> bool {
    is_binary(bytes) || is_text(bytes)
}

/// Returns whether its length matches its triangle count. Only then it is binary, whatever it begins with.
fn is_binary(bytes: &[u8]) -> bool {
    declared_triangles(bytes).is_some_and(|count| length(count) == bytes.len() as u64)
}

/// Returns the declared number of triangles.
fn declared_triangles(bytes: &[u8]) -> Option<u32> {
    let count = bytes.get(HEADER..HEADER + 4)?;
    Some(u32::from_le_bytes(count.try_into().ok()?))
}

/// Returns the length of a file of this many triangles.
fn length(count: u32) -> u64 {
    (HEADER + 4) as u64 + u64::from(count) * RECORD as u64
}

fn records(bytes: &[u8]) -> &[[u8; RECORD]] {
    bytes.get(HEADER + 4..).unwrap_or_default().as_chunks().0
}

/// Decodes a record without its normal, which follows from the corners and is often wrong.
fn decode(record: &[u8; RECORD]) -> Triangle {
    let mut triangle = Triangle::default();
    let numbers = record.get(12..48).unwrap_or_default().as_chunks::<4>().0;
    for (value, bytes) in triangle.iter_mut().flatten().zip(numbers) {
        *value = f32::from_le_bytes(*bytes);
    }
    triangle
}

fn is_text(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(1024)).unwrap_or_default();
    let begins = head.trim_ascii_start().get(..5).is_some_and(|it| it.eq_ignore_ascii_case(b"solid"));
    begins && !head.contains(&0)
}

fn not_whole(name: &str, bytes: &[u8]) -> Fault {
    let has = bytes.len();
    if name.to_ascii_lowercase().ends_with(".scad") {
        return Fault::new(Kind::Failed, format!("`{name}` is OpenSCAD source and no STL file"))
            .hint("[?`tool:model_3d` makes the STL of it; give that.?]");
    }
    // A text file has no count, whatever is in its place.
    let head = bytes.get(..has.min(1024)).unwrap_or_default();
    let what = match declared_triangles(bytes).filter(|_| {
        head.iter().any(|it| !it.is_ascii() || it.is_ascii_control() && !it.is_ascii_whitespace())
    }) {
        Some(count) => {
            let needs = length(count);
            format!(
                "`{name}` is not a whole STL file: it says {count} triangles, which take {needs} bytes, and has {has}"
            )
        }
        None => format!("`{name}` is not an STL file: it has {has} bytes, and does not begin with `solid`"),
    };
    Fault::new(Kind::Failed, what).next("Write it again from its source, or name another file.")
}

/// Reads the text form.
fn text(name: &str, bytes: &[u8]) -> Result<Vec<Triangle>, Fault> {
    let mut triangles = Vec::new();
    let mut corners: Vec<Point> = Vec::new();
    let mut ended = false;
    for (row, line) in bytes.split(|it| *it == b'\n').enumerate() {
        let wrong = |what: &str| {
            let shown: String = String::from_utf8_lossy(line).trim().chars().take(80).collect();
            Fault::new(
                Kind::Failed,
                format!("line {} of `{name}` is not an STL, {what}: `{}`", row + 1, shown.escape_debug()),
            )
        };
        let line = std::str::from_utf8(line).unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if first.eq_ignore_ascii_case("vertex") {
            let mut point = Point::default();
            for value in &mut point {
                let word = words.next().and_then(|it| it.parse().ok());
                *value = word.ok_or_else(|| wrong("where a vertex has three numbers"))?;
            }
            corners.push(point);
            if corners.len() > 3 {
                return Err(wrong("where a facet has three vertices"));
            }
        } else if first.eq_ignore_ascii_case("endloop") {
            let triangle =
                corners.as_slice().try_into().map_err(|_| wrong("where a facet has three vertices"))?;
            triangles.push(triangle);
            corners.clear();
        } else if first.eq_ignore_ascii_case("endsolid") {
            ended = true;
        } else if !["solid", "facet", "outer", "endfacet"].iter().any(|it| first.eq_ignore_ascii_case(it)) {
            return Err(wrong("where `facet`, `vertex` and the like stand"));
        }
    }
    if !ended || !corners.is_empty() {
        return Err(Fault::new(
            Kind::Failed,
            format!("`{name}` is cut off: {} triangles, and no `endsolid` at its end", triangles.len()),
        ));
    }
    Ok(triangles)
}

/// Returns a binary file of these triangles, with this header.
#[cfg(test)]
pub(super) fn binary(header: &[u8], triangles: &[Triangle]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    bytes.resize(HEADER, 0);
    bytes.extend(u32::try_from(triangles.len()).unwrap_or(u32::MAX).to_le_bytes());
    for triangle in triangles {
        bytes.extend([0; 12]);
        bytes.extend(triangle.iter().flatten().flat_map(|it| it.to_le_bytes()));
        bytes.extend([0; 2]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    const ONE: Triangle = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 3.0]];

    fn fault(bytes: &[u8]) -> String {
        Mesh::read("a.stl", bytes.to_vec()).err().unwrap().as_text()
    }

    #[test]
    fn binary_and_text_stl_are_told_apart_by_content() {
        for header in [b"solid of something".as_slice(), b"", b"\xff\xff"] {
            let mesh = Mesh::read("a", binary(header, &[ONE, ONE])).unwrap();
            assert_eq!((mesh.len(), mesh.low, mesh.high), (2, [0.0; 3], [1.0, 2.0, 3.0]));
        }
        let text = "  Solid x\n facet normal 0 0 1\r\n outer loop\n vertex 0 0 0\nvertex 1e0 0 0\n vertex 0 2.0 +3\n endloop\n endfacet\nENDSOLID x\n";
        let mesh = Mesh::read("a", text.as_bytes().to_vec()).unwrap();
        let mut seen = Vec::new();
        mesh.each(|_, it| {
            seen.push(*it);
            ControlFlow::Continue(())
        });
        assert_eq!(seen, [ONE]);
    }

    #[test]
    fn errors_about_damaged_files_name_the_damage() {
        let whole = binary(b"", &[ONE, ONE]);
        assert!(fault(&whole[..150]).contains("says 2 triangles, which take 184 bytes, and has 150"));
        let mut lying = whole.clone();
        lying[80..84].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(fault(&lying).contains("says 4294967295 triangles"), "{}", fault(&lying));
        assert!(fault(b"").contains("not an STL file: it has 0 bytes"));
        assert!(fault(b"hello").contains("not an STL file"));
        assert!(fault(b"solid a\nendsolid a\n").contains("no triangles"));
        assert!(fault(&binary(b"", &[])).contains("no triangles"));
        assert!(fault(b"solid a\nfacet\nouter loop\nvertex 1 2 x\n").contains("line 4"));
        assert!(fault(b"solid a\nfacet\nouter loop\nvertex 1 2 3\n").contains("cut off"));
        assert!(fault(b"solid a\nvertex 1 2 3\nendloop\n").contains("three vertices"));
        assert!(fault(b"solid a\nhello there\n").contains("`hello there`"));
    }

    #[test]
    fn coordinates_that_are_not_finite_or_too_large_are_refused() {
        for value in [f32::NAN, f32::INFINITY, -1e30] {
            let mut triangle = ONE;
            triangle[1][2] = value;
            let fault = fault(&binary(b"", &[ONE, triangle]));
            assert!(fault.contains("triangle 2 ") && fault.contains("no place"), "{fault}");
        }
        assert!(
            fault(b"solid\nvertex 1 2 nan\nvertex 1 2 3\nvertex 1 2 3\nendloop\nendsolid").contains("NaN")
        );
    }
}
