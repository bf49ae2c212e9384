//! `render_3d`: draws a part from some sides, in a worker.

mod letters;
mod picture;
mod raster;
mod smooth;
mod view;

use std::time::Duration;

use image::{
    ExtendedColorType, ImageEncoder,
    codecs::png::{CompressionType, FilterType, PngEncoder},
};
use kit::{
    Part,
    decoders::{Decoded, Decoder},
    files::{Before, Loaded},
    prelude::*,
};

use serde::Serialize;

use self::{picture::Picture, smooth::Smooth, view::View};
use super::stl::{self, Mesh};

/// Limits of a picture: its sides, and its pixels.
const SIDE: std::ops::RangeInclusive<usize> = 64..=2048;
const PIXELS: usize = 2048 * 1536;
/// Maximum number of pictures of one call.
const VIEWS: usize = 3;
/// The signature of a PNG file.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// Draw an STL file as up to three PNG pictures, with axes and a scale in mm; you see them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Render3d {
    /// The STL file, binary or text.
    path: String,
    /// From where to look: at most three; iso, front and top by default.
    #[serde(default = "usual")]
    views: Vec<View>,
    /// PNG file to write; `-front` and the like go before `.png` if there are several. Beside the STL by default.
    #[serde(default)]
    output: String,
    /// Pixels; 800 by default.
    #[serde(default = "wide")]
    width: usize,
    /// Pixels; 600 by default.
    #[serde(default = "high")]
    height: usize,
}

fn usual() -> Vec<View> {
    vec![View::Iso, View::Front, View::Top]
}

fn wide() -> usize {
    800
}

fn high() -> usize {
    600
}

impl Tool for Render3d {
    const NAME: &str = "render_3d";
    const AT_MOST: Kinds = Kinds::WRITE;

    fn touches(&self) -> Touches {
        let written = self.views.iter().take(VIEWS).map(|it| Touch::Write(self.file(*it)));
        written.fold(Touches::read(&self.path), Touches::and)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        self.draw(cx).await
    }
}

impl Render3d {
    /// Returns the path of the picture of a view.
    fn file(&self, view: View) -> String {
        let stem = |path: &str, end: &str| {
            let cut = path.len().saturating_sub(end.len());
            let is = path.get(cut..).is_some_and(|it| it.eq_ignore_ascii_case(end));
            path.get(..if is { cut } else { path.len() }).unwrap_or_default().to_owned()
        };
        if self.output.is_empty() {
            format!("{}-{}.png", stem(&self.path, ".stl"), view.name())
        } else if self.views.len() == 1 {
            format!("{}.png", stem(&self.output, ".png"))
        } else {
            format!("{}-{}.png", stem(&self.output, ".png"), view.name())
        }
    }

    fn check(&self) -> Result<(), Fault> {
        let name = std::path::Path::new(&self.output);
        let ending = name.extension().map(|it| it.to_string_lossy().to_ascii_lowercase());
        let is_folder = self.output.ends_with('/') || name.file_name().is_none();
        if !self.output.is_empty() && (is_folder || ending.as_deref().is_some_and(|it| it != "png")) {
            return Err(Fault::bad_args(format!(
                "`output` is `{}`, and what is written is PNG",
                self.output
            ))
            .next("Let its name end in `.png`."));
        }
        if self.views.is_empty() || self.views.len() > VIEWS {
            return Err(Fault::bad_args(format!("`views` has {}", self.views.len())).next("Give 1 to 3."));
        }
        for (name, value) in [("width", self.width), ("height", self.height)] {
            if !SIDE.contains(&value) {
                return Err(Fault::bad_args(format!("`{name}` is {value}")).next(format!(
                    "Give {} to {} pixels.",
                    SIDE.start(),
                    SIDE.end()
                )));
            }
        }
        if self.width * self.height > PIXELS {
            let what = format!("{} × {} pixels are too many", self.width, self.height);
            return Err(Fault::bad_args(what).next("At most 2048 × 1536."));
        }
        Ok(())
    }

    async fn draw(self, cx: &Cx) -> Result<Output, Fault> {
        self.check()?;
        let path = self.path.clone();
        let stl = cx.blocking(move |cx| Ok(cx.files().load(&path, stl::LONGEST)?.bytes)).await?;
        let mut views = self.views.clone();
        views.dedup();
        cx.progress(0.0, Some(1.0), "drawing");
        let draw = Draw { name: self.path.clone(), views: views.clone(), size: (self.width, self.height) };
        let Decoded { answer, blobs } = cx.decode(&format!("`{}`", self.path), draw, stl).await?;
        cx.blocking(move |cx| {
            let mut lines = vec![answer];
            let mut pictures = Vec::new();
            for (view, data) in views.iter().zip(blobs) {
                let file = self.file(*view);
                let before = before(cx, &file)?;
                let expected = before.as_ref().map_or(Before::Absent, Before::Was);
                cx.files().save(&file, expected, data.as_slice())?;
                lines.push(format!("{}: {file} ({} × {})", view.name(), self.width, self.height));
                pictures.push(Part::Image { mime: "image/png".to_owned(), data });
            }
            if self.views.len() > views.len() {
                lines.push("a view that was asked for twice was drawn once".to_owned());
            }
            let mut output = Output::text(lines.join("\n"));
            output.parts.extend(pictures);
            Ok(output)
        })
        .await
    }
}

/// Draws an STL file from some sides: returns a line about it, and a PNG for each side.
#[derive(Serialize, Deserialize)]
pub(crate) struct Draw {
    /// The name of the file.
    name: String,
    views: Vec<View>,
    size: (usize, usize),
}

impl Decoder for Draw {
    type Answer = String;

    const NAME: &'static str = "mesh_draw";
    const DEADLINE: Duration = stl::DEADLINE;

    fn memory(bytes: u64) -> u64 {
        stl::memory(bytes)
    }

    fn decode(self, data: Vec<u8>) -> Result<Decoded<String>, Fault> {
        let mesh = Mesh::read(&self.name, data)?;
        let smooth = Smooth::of(&mesh);
        let draw = |view: &View| png(&Picture::of(&mesh, smooth.as_ref(), *view, self.size));
        let blobs = self.views.iter().map(draw).collect::<Result<_, _>>()?;
        Ok(Decoded { answer: format!("{}: {} triangles, {}", self.name, mesh.len(), mesh.size()), blobs })
    }
}

/// Loads the existing file, if it is a picture: nothing else is replaced.
fn before(cx: &Cx, file: &str) -> Result<Option<Loaded>, Fault> {
    if !cx.files().exists(file)? {
        return Ok(None);
    }
    let loaded = cx.files().load(file, stl::LONGEST)?;
    if loaded.bytes.starts_with(PNG) {
        return Ok(Some(loaded));
    }
    Err(Fault::bad_args(format!("`{file}` exists and is not a PNG; it was not replaced"))
        .next("Name another `output`."))
}

fn png(picture: &Picture) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let (width, height) = (picture.width as u32, picture.height as u32);
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Adaptive)
        .write_image(&picture.pixels, width, height, ExtendedColorType::Rgb8)
        .map_err(|error| Fault::bug(format!("the picture can't be written as PNG: {error}")))?;
    Ok(bytes)
}
