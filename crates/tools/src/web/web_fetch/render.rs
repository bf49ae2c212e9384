//! Rendering a page with its scripts, in a browser.
//!
//! A browser runs untrusted content, so it has a sandbox of its own without the workspace and without network
//! except for the proxy, which checks each address that the page requests, and each redirect.

use std::{path::PathBuf, time::Duration};

use kit::{
    Cx, Fault, Kind, OrFault, base64,
    net::Url,
    procs::{Ending, Exit, Process, Program, Stdin, Streams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use super::{
    content::is_html,
    devtools::{DevTools, at},
    get::{Got, LARGEST_PAGE},
};

/// Time limits of a browser: to start, to load a page, and to become idle after that.
const START: Duration = Duration::from_secs(20);
const LOAD: Duration = Duration::from_secs(25);
const SETTLE: Duration = Duration::from_secs(6);

/// Time limit for reading its page.
const TELL: Duration = Duration::from_secs(15);

/// Time to wait for a browser's exit status.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The size of the window, in pixels.
const WIDTH: u32 = 1280;
const HEIGHT: u32 = 1024;

/// Maximum size of a PNG, in base64; a larger picture is sent as JPEG.
const LARGEST_PNG: usize = 1_200_000;

/// Names of Chromium programs.
const NAMES: &str = "chromium chromium-browser google-chrome google-chrome-stable chrome";

/// Starts the first existing one. Only the sandbox knows the proxy's address.
const START_SCRIPT: &str = r#"
for name in $0; do command -v "$name" >/dev/null 2>&1 && browser=$name && break; done
[ -n "$browser" ] || exit 127
profile=${TMPDIR:-/tmp}/haft-browser-$$
mkdir -p "$profile/Default" && printf '{"intl":{"charset_default":"UTF-8"}}' > "$profile/Default/Preferences"
exec "$browser" --proxy-server="$http_proxy" --user-data-dir="$profile" "$@" about:blank
"#;

const OPTIONS: &[&str] = &[
    "--headless",
    "--remote-debugging-pipe",
    // Its own sandbox needs namespaces, which are not available inside haft's; it is alone in there, without
    // the workspace.
    "--no-sandbox",
    // Requests for this machine go to the proxy too, which refuses them.
    "--proxy-bypass-list=<-loopback>",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-sync",
    "--disable-features=Translate,MediaRouter,OptimizationHints,AutofillServerCommunication",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--hide-scrollbars",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
    "--window-size=1280,1024",
];

/// Marks hidden elements, opens folded ones, and moves shadow trees to where they are shown.
const READ_PAGE: &str = r#"(() => {
    for (const it of document.querySelectorAll('noscript')) it.remove();
    for (const it of document.querySelectorAll('details')) it.open = true;
    const options = {opacityProperty: true, visibilityProperty: true, checkOpacity: true, checkVisibilityCSS: true};
    const mark = root => {
        for (const it of root.querySelectorAll('*')) {
            if (!it.checkVisibility(options)) it.setAttribute('hidden', '');
            if (it.shadowRoot) mark(it.shadowRoot);
        }
    };
    const unfold = root => {
        for (const it of [...root.querySelectorAll('*')].filter(it => it.shadowRoot)) {
            unfold(it.shadowRoot);
            const inner = document.createElement('div');
            for (const part of it.shadowRoot.childNodes) inner.append(part.cloneNode(true));
            it.prepend(inner);
        }
    };
    if (document.body) {
        mark(document.body);
        unfold(document.body);
    }
    return {url: location.href, html: document.documentElement.outerHTML.slice(0, LONGEST)};
})()"#;

/// The result of rendering.
pub(super) enum Rendered {
    /// The page as a browser has it, and a picture if requested.
    Page(Box<Got>, Option<Picture>),
    /// The address has no page, for this reason.
    NoPage(String),
}

/// A picture of a page.
pub(super) struct Picture {
    pub(super) mime: &'static str,
    pub(super) data: Vec<u8>,
}

/// Opens the page in a browser, and reads it.
pub(super) async fn render(cx: &Cx, url: &Url, screenshot: bool, wait: Duration) -> Result<Rendered, Fault> {
    let (mut tools, ends) = DevTools::open().or_fault(Kind::Unavailable, "a pipe can't be made")?;
    let named = cx.preferences().programs.chromium.clone();
    let process = cx.procs().start(program(named.as_ref(), ends)).await?;
    let done = tokio::select! {
        biased;
        () = cx.cancelled() => Err(Fault::new(Kind::Cancelled, "the page was not shown to its end")),
        shown = show(&mut tools, url, screenshot, wait) => shown,
    };
    // Its pipes close before its exit status is known.
    let gone = match &done {
        Err(fault) if fault.kind == Kind::Failed => timeout(LAST_WORDS, process.exited()).await.ok(),
        _ => process.exit(),
    };
    process.end(Ending::NOW).await;
    let notes = refused_places(&cx.denials(gone.unwrap_or(Exit::Code(0)), ""));
    match done {
        Ok(Shown { refused: Some(why), .. }) => {
            Err(Fault::denied(why).seen(kit::Output::text(notes.join("\n"))))
        }
        Ok(shown) => Ok(shown.rendered(notes)),
        Err(fault) => Err(explained(fault, gone, &process, named)),
    }
}

/// Lists the refused addresses of the page, at most a few: a page may request any number.
fn refused_places(denials: &[String]) -> Vec<String> {
    let mut places: Vec<&str> = Vec::new();
    let mut others = Vec::new();
    for denial in denials {
        match denial.split_once("rule `net`: ").and_then(|(_, it)| it.split_once(" was refused")) {
            Some((place, _)) if places.contains(&place) => {}
            Some((place, _)) => places.push(place),
            None => others.push(denial.clone()),
        }
    }
    let (shown, more) = (places.iter().take(REFUSED), places.len().saturating_sub(REFUSED));
    let named = shown.map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    if !named.is_empty() {
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        others.insert(
            0,
            format!("refused to the page: {named}{more}; a person can put `host:port` into `allow` of `[net]` in haft.toml"),
        );
    }
    others
}

/// Maximum number that are listed.
const REFUSED: usize = 3;

fn program(named: Option<&PathBuf>, ends: Vec<(i32, std::os::fd::OwnedFd)>) -> Program {
    let names = named.map_or_else(|| NAMES.to_owned(), |it| it.display().to_string());
    let first = ["sh", "-c", START_SCRIPT, &names].map(str::to_owned);
    Program {
        argv: first.into_iter().chain(OPTIONS.iter().map(|it| (*it).to_owned())).collect(),
        cwd: PathBuf::from("/"),
        env: Vec::new(),
        stdin: Stdin::Null,
        streams: Streams::Together,
        files: ends,
    }
}

/// Explains what to do if no browser starts.
fn explained(fault: Fault, gone: Option<Exit>, process: &Process, named: Option<PathBuf>) -> Fault {
    match gone {
        Some(Exit::Code(127)) => {
            let what = match named {
                Some(path) => {
                    format!("there is no Chromium at `{}`, so no page can be rendered", path.display())
                }
                None => "there is no Chromium on this machine, so no page can be rendered".to_owned(),
            };
            Fault::new(Kind::Unavailable, what).next(
                "A person can install one (`apt install chromium`), or name it as `chromium` in `[programs]` of haft.toml; \
                 without `render` the page is fetched as it is sent.",
            )
        }
        Some(_) => {
            let said = process.output().tail(600).text;
            Fault::new(Kind::Failed, format!("the browser ended before the page was there: {}", said.trim()))
                .next("Without `render` the page is fetched as it is sent.")
        }
        None => fault,
    }
}

/// The state of a browser's page.
#[derive(Default)]
struct Shown {
    url: String,
    html: String,
    status: u16,
    mime: String,
    picture: Option<Picture>,
    notes: Vec<String>,
    /// The reason why the proxy refused the page itself.
    refused: Option<String>,
}

impl Shown {
    fn rendered(self, denials: Vec<String>) -> Rendered {
        if !is_html(&self.mime) && !self.mime.is_empty() {
            return Rendered::NoPage(format!("it is {} and no page, so nothing was rendered", self.mime));
        }
        let Ok(url) = Url::parse(&self.url) else {
            return Rendered::NoPage(format!("the page went on to `{}`, which is not a page", self.url));
        };
        let mut got = Got::page(url, self.status, self.html.into_bytes());
        got.more = got.body.len() >= LARGEST_PAGE;
        got.notes = self.notes.into_iter().chain(denials).collect();
        Rendered::Page(Box::new(got), self.picture)
    }
}

async fn show(tools: &mut DevTools, url: &Url, screenshot: bool, wait: Duration) -> Result<Shown, Fault> {
    let begun = timeout(START, begin(tools)).await;
    let frame =
        begun.unwrap_or_else(|_| Err(Fault::new(Kind::Timeout, "the browser did not begin in time")))?;
    let mut shown = Shown::default();
    let until = Instant::now() + LOAD;
    let went = timeout_at(until, tools.call("Page.navigate", json!({"url": url.as_str()}))).await;
    match went {
        Ok(went) => {
            let went = went?;
            if let Some(error) = at(&went, "/errorText").as_str().filter(|it| !it.is_empty()) {
                let came = arrive(tools, &frame, Instant::now(), &mut shown).await;
                return failed(url, error, shown, came.is_ok());
            }
            if !arrive(tools, &frame, until, &mut shown).await? {
                shown
                    .notes
                    .push(format!("it still loaded after {} s; this is what was there", LOAD.as_secs()));
            }
        }
        Err(_) => {
            return Err(Fault::new(Kind::Timeout, format!("{url} sent nothing for {} s", LOAD.as_secs())));
        }
    }
    let until = Instant::now() + wait;
    // Events are consumed, so that the browser goes on.
    while let Ok(event) = timeout_at(until, tools.event()).await {
        event?;
    }
    let told = timeout(TELL, read_page(tools, &frame, screenshot, &mut shown)).await;
    told.unwrap_or_else(|_| {
        Err(Fault::new(Kind::Timeout, format!("the scripts of {url} keep the browser busy")))
    })?;
    Ok(shown)
}

/// Opens a page, and returns its frame.
async fn begin(tools: &mut DevTools) -> Result<String, Fault> {
    let made = tools.call("Target.createTarget", json!({"url": "about:blank"})).await?;
    let page = tools
        .call("Target.attachToTarget", json!({"targetId": at(&made, "/targetId"), "flatten": true}))
        .await?;
    // Downloads are refused without a dialog.
    tools.call("Browser.setDownloadBehavior", json!({"behavior": "deny"})).await?;
    tools.attach(at(&page, "/sessionId").as_str().unwrap_or_default());
    tools.call("Page.enable", json!({})).await?;
    tools.call("Network.enable", json!({})).await?;
    tools.call("Page.setLifecycleEventsEnabled", json!({"enabled": true})).await?;
    let size = json!({"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": false});
    tools.call("Emulation.setDeviceMetricsOverride", size).await?;
    let tree = tools.call("Page.getFrameTree", json!({})).await?;
    // Events until now are of the empty page.
    while tools.happened().is_some() {}
    Ok(at(&tree, "/frameTree/frame/id").as_str().unwrap_or_default().to_owned())
}

/// Waits until the page is loaded and idle; returns false after the time limit.
async fn arrive(tools: &mut DevTools, frame: &str, until: Instant, shown: &mut Shown) -> Result<bool, Fault> {
    let (mut loaded, mut until) = (false, until);
    loop {
        let event = match timeout_at(until, tools.event()).await {
            Ok(event) => event?,
            Err(_) => return Ok(loaded),
        };
        let params = at(&event, "/params");
        match at(&event, "/method").as_str().unwrap_or_default() {
            "Network.responseReceived"
                if at(params, "/type") == "Document" && at(params, "/frameId") == frame =>
            {
                let answer = at(params, "/response");
                shown.status =
                    at(answer, "/status").as_u64().and_then(|it| u16::try_from(it).ok()).unwrap_or(0);
                shown.mime = at(answer, "/mimeType").as_str().unwrap_or_default().to_ascii_lowercase();
                shown.refused = refusal(answer);
            }
            // It navigates to another page.
            "Page.frameNavigated" if at(params, "/frame/id") == frame => loaded = false,
            "Page.lifecycleEvent" if at(params, "/frameId") == frame => {
                match at(params, "/name").as_str().unwrap_or_default() {
                    "load" if !loaded => {
                        loaded = true;
                        until = until.min(Instant::now() + SETTLE);
                    }
                    "networkIdle" if loaded => return Ok(true),
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

/// Returns why haft's own proxy answered in place of the host, if it did.
fn refusal(answer: &Value) -> Option<String> {
    let says = at(answer, "/statusText").as_str().unwrap_or_default();
    let is_ours = at(answer, "/status") == 403 && says.starts_with("Blocked by haft's sandbox");
    is_ours.then(|| {
        format!(
            "{} was not granted, so the page was not shown",
            at(answer, "/url").as_str().unwrap_or("the address")
        )
    })
}

fn failed(url: &Url, error: &str, shown: Shown, is_known: bool) -> Result<Shown, Fault> {
    if is_known && error == "net::ERR_ABORTED" && !shown.mime.is_empty() {
        return Ok(Shown { url: url.to_string(), ..shown });
    }
    let kind = if error.contains("TIMED_OUT") { Kind::Timeout } else { Kind::Unavailable };
    let next = match error {
        "net::ERR_TUNNEL_CONNECTION_FAILED" => {
            "The host can't be reached, or is at an address that is not public; a person can put `host:port` into `allow` of `[net]`."
        }
        _ => "Without `render` the page is fetched as it is sent, and a fault says more.",
    };
    Err(Fault::new(kind, format!("the browser can't show {url}: {error}")).next(next))
}

/// Reads the page as it is now.
async fn read_page(
    tools: &mut DevTools,
    frame: &str,
    screenshot: bool,
    shown: &mut Shown,
) -> Result<(), Fault> {
    // Before the page is changed for reading.
    if screenshot {
        shown.picture = Some(picture(tools).await?);
    }
    // An isolated world: scripts of the page can't change haft's functions.
    let world =
        tools.call("Page.createIsolatedWorld", json!({"frameId": frame, "worldName": "haft"})).await?;
    let script = READ_PAGE.replace("LONGEST", &LARGEST_PAGE.to_string());
    let asked =
        json!({"expression": script, "contextId": at(&world, "/executionContextId"), "returnByValue": true});
    let mut told = tools.call("Runtime.evaluate", asked).await?;
    let value = told.pointer_mut("/result/value").map(Value::take).unwrap_or_default();
    let (Some(url), Some(html)) = (at(&value, "/url").as_str(), at(&value, "/html").as_str()) else {
        return Err(Fault::new(Kind::Failed, "the browser does not tell what the page shows"));
    };
    shown.url = url.to_owned();
    shown.html = html.to_owned();
    Ok(())
}

async fn picture(tools: &mut DevTools) -> Result<Picture, Fault> {
    let mut told = tools.call("Page.captureScreenshot", json!({"format": "png"})).await?;
    let mut mime = "image/png";
    if at(&told, "/data").as_str().is_some_and(|it| it.len() > LARGEST_PNG) {
        told = tools.call("Page.captureScreenshot", json!({"format": "jpeg", "quality": 80})).await?;
        mime = "image/jpeg";
    }
    let data = at(&told, "/data").as_str().and_then(base64::decoded);
    let data = data.ok_or_else(|| Fault::new(Kind::Failed, "the browser gave no picture"))?;
    Ok(Picture { mime, data })
}
