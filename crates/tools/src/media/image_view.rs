//! `image_view`: shows a picture, an SVG or a page of a PDF to the model.

use kit::{
    net::{Request, Url, host_of},
    prelude::*,
};

use super::view::{Wish, view};

/// Maximum size of a file that is viewed, in bytes.
const MOST_BYTES: usize = 20 << 20;

/// Look at a picture: png, jpeg, gif, webp, bmp, tiff, svg, or a page of a PDF.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageView {
    /// File to look at.
    #[serde(default)]
    path: Option<String>,
    /// Or its address on the web.
    #[serde(default)]
    url: Option<String>,
    /// Page of a PDF, from 1.
    #[serde(default)]
    page: Option<usize>,
    /// Only this part, larger: [left, top, width, height] in pixels.
    #[serde(default)]
    region: Option<[u32; 4]>,
}

impl Tool for ImageView {
    const NAME: &str = "image_view";
    const AT_MOST: Kinds = Kinds::READ.with(Kinds::WEB);

    fn touches(&self) -> Touches {
        match self.source() {
            Ok(Source::File(path)) => Touches::read(path),
            Ok(Source::Web(_, place)) => Touches::none().and(Touch::Web(place)),
            Err(_) => Touches::none(),
        }
    }

    fn address(&self) -> Address {
        match self.source() {
            Ok(Source::Web(url, _)) => Address::Plain(url),
            Ok(Source::File(_)) | Err(_) => Address::Composed,
        }
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let wish = Wish { page: self.page, region: self.region };
        match self.source()? {
            Source::File(path) => {
                let name = path.to_owned();
                let data = cx.blocking(move |cx| load(cx, &name)).await?;
                view(cx, path, data, wish).await
            }
            Source::Web(url, _) => {
                let data = fetch(cx, &url).await?;
                view(cx, url.as_str(), data, wish).await
            }
        }
    }
}

enum Source<'a> {
    File(&'a str),
    /// An address, and its host.
    Web(Url, String),
}

impl ImageView {
    fn source(&self) -> Result<Source<'_>, Fault> {
        match (self.path.as_deref(), self.url.as_deref()) {
            (Some(path), None) if !is_address(path) => Ok(Source::File(path)),
            (Some(url), None) | (None, Some(url)) => {
                let url = Url::parse(url)
                    .map_err(|error| Fault::bad_args(format!("`{url}` is not an address: {error}")))?;
                let (host, port) = host_of(&url)?;
                let usual = url.port().is_none();
                Ok(Source::Web(url, if usual { host } else { format!("{host}:{port}") }))
            }
            (None, None) => Err(Fault::bad_args("neither `path` nor `url` says what to look at")),
            (Some(_), Some(_)) => {
                Err(Fault::bad_args("`path` and `url` are both given; one of them is enough"))
            }
        }
    }
}

fn is_address(path: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|it| path.get(..it.len()).is_some_and(|head| head.eq_ignore_ascii_case(it)))
}

fn load(cx: &Cx, path: &str) -> Result<Vec<u8>, Fault> {
    let open = cx.files().open(path)?;
    let size = open.identity.size;
    if size > MOST_BYTES as u64 {
        return Err(Fault::new(
            Kind::TooBig,
            format!("`{path}` has {size} bytes; at most {MOST_BYTES} are looked at"),
        )
        .next("Make a smaller copy of it with a program first, and look at that."));
    }
    // One byte more, to notice if it grows meanwhile.
    open.head(MOST_BYTES).or_fault(Kind::Unavailable, &format!("`{path}` can't be read"))
}

async fn fetch(cx: &Cx, url: &Url) -> Result<Vec<u8>, Fault> {
    let answer = cx.net().send(Request::get(url.clone()));
    let mut response = tokio::select! {
        response = answer => response?,
        () = cx.cancelled() => return Err(Fault::new(Kind::Cancelled, "the call was stopped before it was done")),
    };
    if !response.status.is_success() {
        return Err(Fault::new(Kind::Failed, format!("{url} answered {}", response.status)));
    }
    if response.length().is_some_and(|it| it > MOST_BYTES as u64) {
        return Err(Fault::new(
            Kind::TooBig,
            format!("what stands at {url} has more than {MOST_BYTES} bytes"),
        ));
    }
    tokio::select! {
        body = response.bytes(MOST_BYTES) => body,
        () = cx.cancelled() => Err(Fault::new(Kind::Cancelled, "the call was stopped before it was done")),
    }
}
