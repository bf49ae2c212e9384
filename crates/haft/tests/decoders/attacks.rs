//! Documents of a few bytes that take a decoder's memory, its stack or its time.

/// A name, and the document.
pub(super) type Attack = (&'static str, Vec<u8>);

/// Documents that end a decoder, or keep it busy for minutes.
pub(super) fn all() -> Vec<Attack> {
    let mut attacks = quick();
    attacks.push(("shadings.pdf", shadings()));
    attacks
}

/// Returns the attacks that are refused without a deadline.
pub(super) fn quick() -> Vec<Attack> {
    vec![("widths.pdf", widths()), ("function.pdf", function()), ("fax.pdf", fax()), ("dashes.pdf", dashes())]
}

/// Widths for four billion glyphs.
fn widths() -> Vec<u8> {
    let font = "<</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[6 0 R]>>";
    let glyphs = "<</Type/Font/Subtype/CIDFontType2/BaseFont/A/FontDescriptor 7 0 R/W[0 4294967295 1]\
        /CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>>";
    let about = "<</Type/FontDescriptor/FontName/A/Flags 4>>";
    let objects = [font, glyphs, about].map(|it| it.as_bytes().to_vec());
    page("/Font<</F 5 0 R>>", b"BT /F 12 Tf 20 150 Td (Hello) Tj ET", &objects)
}

/// Returns a function that is nested 300,000 deep.
fn function() -> Vec<u8> {
    let shading =
        "<</ShadingType 2/ColorSpace/DeviceRGB/Coords[0 0 300 200]/Function 6 0 R>>".as_bytes().to_vec();
    let function = stream("/FunctionType 4/Domain[0 1]/Range[0 1 0 1 0 1]", "{".repeat(300_000).as_bytes());
    page("/Shading<</S 5 0 R>>", b"/S sh", &[shading, function])
}

/// Returns a fax of two billion columns.
fn fax() -> Vec<u8> {
    let image = stream(
        "/Type/XObject/Subtype/Image/Width 6000/Height 6000/ColorSpace/DeviceGray/BitsPerComponent 1\
         /Filter/CCITTFaxDecode/DecodeParms<</K -1/Columns 2000000000/Rows 2000000000>>",
        &b"\x00\x10\x01".repeat(2000),
    );
    page("/XObject<</I 5 0 R>>", b"q 300 0 0 200 0 0 cm /I Do Q", &[image])
}

/// Returns a line of 10^15 dashes.
fn dashes() -> Vec<u8> {
    page("", b"[0.000001] 0 d 1 w 0 0 m 1000000000 0 l S", &[])
}

/// Returns a document of 2,000 areas whose colour is a long calculation at each place.
pub(super) fn shadings() -> Vec<u8> {
    let shading =
        "<</ShadingType 1/ColorSpace/DeviceRGB/Domain[0 300 0 200]/Function 6 0 R>>".as_bytes().to_vec();
    let work = format!("{{ {} dup dup }}", "dup mul sin cos ".repeat(20_000));
    let function = stream("/FunctionType 4/Domain[0 300 0 200]/Range[0 1 0 1 0 1]", work.as_bytes());
    page("/Shading<</S 5 0 R>>", "/S sh ".repeat(2000).as_bytes(), &[shading, function])
}

/// Returns a document of one page with these resources; the objects are numbered from 5 on.
pub(super) fn page(resources: &str, content: &[u8], objects: &[Vec<u8>]) -> Vec<u8> {
    let page =
        format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<<{resources}>>>>");
    let first = [
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>".to_vec(),
        page.into_bytes(),
        stream("", content),
    ];
    let mut pdf = b"%PDF-1.4\n".to_vec();
    for (number, object) in (1..).zip(first.iter().chain(objects)) {
        pdf.extend(format!("{number} 0 obj ").into_bytes());
        pdf.extend(object);
        pdf.extend(b" endobj\n");
    }
    pdf.extend(b"trailer <</Root 1 0 R>>\n%%EOF\n");
    pdf
}

pub(super) fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let head = format!("<<{dictionary}/Length {}>> stream\n", content.len());
    [head.as_bytes(), content, b"\nendstream"].concat()
}
