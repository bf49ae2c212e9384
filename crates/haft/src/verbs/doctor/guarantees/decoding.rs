//! Isolation of decoders: a hostile document causes a fault, the next call works, and a decoder can't leave its sandbox.

use std::{fs, net::TcpListener, path::Path};

use kit::{
    Kind,
    decoders::{Decoder as _, Decoders},
};
use runtime::{Call, Session};
use sandbox::decoding::Escape;
use serde_json::json;

/// A document of one page, whose font gives a width to four billion glyphs: no memory is enough for it.
const HOSTILE: &str = "%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>> endobj
4 0 obj <</Length 22>> stream
BT /F 12 Tf (doctor) Tj ET
endstream endobj
5 0 obj <</Type/Font/Subtype/Type0/BaseFont/A/Encoding/Identity-H/DescendantFonts[6 0 R]>> endobj
6 0 obj <</Type/Font/Subtype/CIDFontType2/BaseFont/A/FontDescriptor 7 0 R/W[0 4294967295 1]\
/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)/Supplement 0>>>> endobj
7 0 obj <</Type/FontDescriptor/FontName/A/Flags 4>> endobj
trailer <</Root 1 0 R>>
%%EOF
";

/// Tests this in the workspace of the self-test, which is in `folder`.
pub(super) async fn is_apart(session: &Session, folder: &Path) -> Result<(), String> {
    fs::write(folder.join("ws/hostile.pdf"), HOSTILE).map_err(|error| error.to_string())?;
    let call = || Call::new("image_view", json!({"path": "hostile.pdf"}));
    match session.call(call()).await.result {
        Err(fault) if matches!(fault.kind, Kind::TooBig | Kind::Failed) => {}
        Err(fault) => return Err(format!("a hostile PDF gave {}: {}", fault.kind, fault.what)),
        Ok(_) => return Err("a hostile PDF was decoded".to_owned()),
    }
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let escape = || Escape { file: folder.join("outside"), port };
    let inside = session.decoders().run("the self-test", escape(), Vec::new()).await;
    let reached = inside.map_err(|fault| fault.what)?.answer;
    if !reached.is_empty() {
        return Err(format!("a decoder reached: {}", reached.join(", ")));
    }
    let missing = Decoders::missing();
    if !missing.is_empty() {
        return Err(format!("decoders run with less isolation here: {missing}"));
    }
    // The positive control: the escape works outside the sandbox.
    let outside = escape().decode(Vec::new()).map_err(|fault| fault.what)?.answer;
    // The positive control wrote this file.
    let _ = fs::remove_file(folder.join("outside.written"));
    if outside.len() == Escape::TRIES {
        Ok(())
    } else {
        Err(format!("outside, only this works: {outside:?}"))
    }
}
