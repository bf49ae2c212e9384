//! The server: lets requests in, finds the route of each, and checks its role.

use std::{
    convert::Infallible, io, net::TcpListener as StdListener, path::PathBuf, sync::Arc, time::Duration,
};

use futures_util::future::join_all;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use hyper::body::Incoming;
use kit::{Fault, Kind};
use serve::gate::{Answers, Connection, Exchange, Guarded, Idle, Names, Pace, accept};
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{Access, FileToken, Who},
    answer::Answer,
    assets,
    call::{Call, DESCRIBED, Link, fields},
    openapi,
    problem::Problem,
    protocols::Protocols,
    role::Role,
    route::{Route, matches},
    routes::table,
    shared::Shared,
    workspaces::{Folders, Workspace, Workspaces},
};

/// Time for answers to be sent when the server ends.
const FINISH: Duration = Duration::from_millis(500);

/// The interval between looks whether the principals of MCP still have access.
const LOOK: Duration = Duration::from_secs(1);

/// Time after which an MCP session without a client ends.
const IDLE: Duration = Duration::from_secs(3600);

/// Time for closing WebSockets, and for the requests of their clients to end.
const SOCKETS: Duration = Duration::from_secs(3);

/// The error of a page of another site, and its next step.
const OTHER_ORIGIN: &str = "pages of another origin may not use this server";
const OWN_ORIGIN: &str = "Use the server's own page, or a program that sends no `Origin`.";

/// The paths of other protocols.
const PROTOCOLS: [&str; 2] = ["/mcp", "/acp"];

/// The settings of a server.
pub struct Settings {
    /// Its names besides those of loopback.
    pub public: Vec<String>,
    /// The tokens of the token file.
    pub tokens: Vec<FileToken>,
    /// The folder where sign-ins, tokens and shares are kept.
    pub folder: PathBuf,
    /// The version of the program.
    pub version: String,
    /// MCP and ACP, as the program speaks them.
    pub protocols: Arc<dyn Protocols>,
    /// The folders that the owner may have opened while it serves.
    pub folders: Arc<dyn Folders>,
    /// A WebSocket of which no byte comes for this long is dropped.
    pub silence: Duration,
    /// The address by which people reach the server, without a slash at its end.
    pub url: String,
}

/// A server before it serves.
pub struct Server {
    front: Front,
    listener: StdListener,
}

/// The front of the server: answers the requests of all connections.
struct Front {
    shared: Arc<Shared>,
    names: Names,
    table: Vec<Route>,
}

impl Server {
    /// A server on this socket, for these workspaces.
    ///
    /// # Errors
    /// When sign-ins can't be kept, or the socket can't be used.
    pub fn new(listener: StdListener, settings: Settings, workspaces: Vec<Workspace>) -> Result<Self, Fault> {
        let broken =
            |error: io::Error| Fault::new(Kind::Unavailable, format!("the socket can't be used: {error}"));
        let address = listener.local_addr().map_err(broken)?;
        listener.set_nonblocking(true).map_err(broken)?;
        let Settings { public, tokens, folder, version, protocols, folders, silence, url } = settings;
        let workspaces = Workspaces::new(workspaces);
        let access = Access::new(folder, tokens)?;
        let table = table();
        let is_private = address.ip().is_loopback() && public.is_empty();
        let mut shared = Shared::new(access, workspaces, protocols, folders, version, address, is_private);
        shared.silence = silence;
        shared.url = url;
        // It is new, so nobody has set it before.
        let _ = shared.described.set(openapi::describe(&table, &shared.version));
        let names = Names::new(&public, &[], address.port());
        Ok(Self { front: Front { shared: Arc::new(shared), names, table }, listener })
    }

    /// Makes a one-use code for the owner.
    ///
    /// # Errors
    /// When there are no random bytes.
    pub fn code(&self) -> Result<String, Fault> {
        self.front.shared.access.new_code("owner", Role::Own)
    }

    /// Serves until `stop`.
    ///
    /// # Errors
    /// When the socket can't be used.
    pub async fn serve(self, stop: CancellationToken) -> io::Result<()> {
        let listener = TcpListener::from_std(self.listener)?;
        let server = Arc::new(self.front);
        drop(tokio::task::spawn_blocking(assets::prepare));
        server.shared.workspaces.all().iter().for_each(Workspace::take_up);
        let tasks = TaskTracker::new();
        tokio::select! {
            never = accept(&listener, &server, &tasks) => match never {},
            never = dismiss_revoked(&server.shared) => match never {},
            () = stop.cancelled() => {}
        }
        drop(listener);
        tasks.close();
        let shared = &server.shared;
        shared.closing.cancel();
        shared.sockets.close();
        join_all(shared.protocols.open_mcp().iter().map(|it| it.finish())).await;
        let _ = timeout(FINISH, tasks.wait()).await;
        let _ = timeout(SOCKETS, shared.sockets.wait()).await;
        Ok(())
    }
}

/// Ends the MCP sessions of principals whose access has ended, and those that nobody uses.
async fn dismiss_revoked(shared: &Shared) -> Infallible {
    loop {
        sleep(LOOK).await;
        for endpoint in shared.protocols.open_mcp() {
            for principal in endpoint.principals() {
                if shared.access.of_principal(&principal).is_none_or(|it| it.role < Role::Approve) {
                    tracing::info!("ending the MCP sessions of an access that has ended");
                    endpoint.dismiss(&principal).await;
                }
            }
            endpoint.end_idle(IDLE).await;
        }
    }
}

impl Answers for Front {
    type Body = Guarded<Idle>;

    async fn answer(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
        pace: &Arc<Pace>,
    ) -> Response<Self::Body> {
        self.shared.counts.request();
        let (head, body) = request.into_parts();
        let exchange = Exchange::begin(&head, pace);
        let is_openai = is_openai(&head);
        let link = Link { connection: connection.clone(), pace: pace.clone() };
        let answer = exchange.caught(self.let_in(head, body, link)).await.unwrap_or_else(|| {
            let problem = Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "bug",
                "haft failed at this; it is a defect of haft",
            )
            .next(
                "Send it again; if it fails again, report it with what standard error of `haft serve` says.",
            );
            if is_openai { problem.answer_of_openai() } else { problem.answer() }
        });
        let mut reply = answer.0;
        self.shared.counts.status(reply.status());
        protect(reply.headers_mut());
        exchange.end(reply, self.shared.closing.is_cancelled())
    }

    fn closing(&self) -> &CancellationToken {
        &self.shared.closing
    }
}

/// Returns whether a request is one of OpenAI's API, whose errors have its shape.
fn is_openai(head: &Parts) -> bool {
    head.uri.path().starts_with("/v1/")
}

/// Sets the headers that every answer has.
fn protect(headers: &mut http::HeaderMap) {
    let all = [
        ("x-content-type-options", "nosniff"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in all {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    let policy = HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox");
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(policy);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

impl Front {
    /// Checks the head of a request, and has its route answer.
    async fn let_in(&self, head: Parts, body: Incoming, link: Link) -> Answer {
        let address = match self.names.check(&head) {
            Ok(address) => address,
            Err(reply) => {
                let (what, next) = match reply.status() {
                    StatusCode::BAD_REQUEST => {
                        ("the request has not one Host header", "Send one, with the name of this server.")
                    }
                    _ if head.headers.contains_key(header::ORIGIN) => (OTHER_ORIGIN, OWN_ORIGIN),
                    _ => (
                        "this server does not go by the name in the Host header",
                        "Use an address that it printed; `haft serve --public HOSTNAME` gives it one more name.",
                    ),
                };
                let problem = Problem::new(reply.status(), "denied", what).next(next);
                return if is_openai(&head) { problem.answer_of_openai() } else { problem.answer() };
            }
        };
        let (is_openai, is_protocol) = (is_openai(&head), PROTOCOLS.contains(&head.uri.path()));
        let routed = self.routed(head, body, link, address).await;
        routed.unwrap_or_else(|it| match it.status {
            _ if is_openai => it.answer_of_openai(),
            StatusCode::UNAUTHORIZED if is_protocol => it.answer().header(header::WWW_AUTHENTICATE, "Bearer"),
            _ => it.answer(),
        })
    }

    async fn routed(
        &self,
        head: Parts,
        body: Incoming,
        link: Link,
        address: String,
    ) -> Result<Answer, Problem> {
        let query = fields(head.uri.query().unwrap_or_default());
        if let Some(name) =
            ["token", "access_token", "code", "key"].into_iter().find(|it| query.contains_key(*it))
        {
            let what = format!("`{name}` in an address ends up in logs and histories: it is refused");
            return Err(Problem::bad(what).next("Send `Authorization: Bearer TOKEN`, or sign in."));
        }
        let path = head.uri.path().to_owned();
        if path.starts_with("/api/") || PROTOCOLS.contains(&path.as_str()) {
            Self::is_of_own_page(&head)?;
        }
        let mut who = self.shared.who(&head);
        let found: Vec<(&Route, Vec<String>)> =
            self.table.iter().filter_map(|it| Some((it, matches(it.path, &path)?))).collect();
        let asset = path.strip_prefix("/assets/").filter(|_| head.method == Method::GET).map(str::to_owned);
        let mut run = None;
        if asset.is_none() {
            let methods: Vec<&str> = found.iter().map(|it| it.0.method.as_str()).collect();
            if methods.is_empty() {
                return Err(Problem::missing(format!("there is nothing at {path}"))
                    .next("GET /api/v1/openapi.json describes all there is."));
            }
            let one = found.into_iter().find(|it| it.0.method == head.method);
            let (route, names) = one.ok_or_else(|| {
                let what = format!("{path} takes {}, and not {}", methods.join(", "), head.method);
                Problem::new(StatusCode::METHOD_NOT_ALLOWED, "bad_args", what).next(DESCRIBED)
            })?;
            self.may(route, &head, who.as_ref())?;
            run = Some((route.run, names));
        }
        if who.is_some() {
            // Only now: others must not be kept out by connections that show no token.
            link.connection.has_authenticated();
        }
        let nobody =
            || Who { name: "nobody".to_owned(), role: Role::View, by_cookie: false, hash: String::new() };
        let who = who.take().unwrap_or_else(nobody);
        let (run, names) = match run {
            Some((run, names)) => (Some(run), names),
            None => (None, Vec::new()),
        };
        let call =
            Call { server: self.shared.clone(), who, names, query, address, head, body: Some(body), link };
        match (run, asset) {
            (Some(run), _) => run(call).await,
            (None, Some(name)) => assets::asset(&call, &name),
            (None, None) => Err(Problem::missing(format!("there is nothing at {path}")).next(DESCRIBED)),
        }
    }

    /// Refuses requests that a page of another site has a browser send. A page on another port of this machine counts as of
    /// the same site, and would be sent with the cookie.
    fn is_of_own_page(head: &Parts) -> Result<(), Problem> {
        let site = head.headers.get("sec-fetch-site").and_then(|it| it.to_str().ok());
        if matches!(site, None | Some("same-origin" | "none")) {
            return Ok(());
        }
        Err(Problem::new(StatusCode::FORBIDDEN, "denied", OTHER_ORIGIN).next(OWN_ORIGIN))
    }

    /// Checks that whoever asks may use this route.
    fn may(&self, route: &Route, head: &Parts, who: Option<&Who>) -> Result<(), Problem> {
        let is_about_server = ["/readyz", "/metrics"].contains(&route.path);
        let needs = match route.needs {
            None if is_about_server && !self.shared.is_private => Some(Role::View),
            needs => needs,
        };
        let Some(needs) = needs else {
            return if route.method == Method::GET { Ok(()) } else { is_sent_by_own_page(head) };
        };
        let who = who.ok_or_else(|| match head.headers.contains_key(header::AUTHORIZATION) {
            true => Problem::unknown_token(),
            false => Problem::not_signed_in(),
        })?;
        if who.by_cookie && route.method != Method::GET {
            is_sent_by_own_page(head)?;
        }
        if who.role < needs {
            let what = format!(
                "this needs the role `{}`, and `{}` has `{}`",
                needs.name(),
                who.name,
                who.role.name()
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, "denied", what)
                .next("Ask the owner for a token with that role."));
        }
        Ok(())
    }
}

/// Checks for the header that a form of another page can't set.
fn is_sent_by_own_page(head: &Parts) -> Result<(), Problem> {
    if head.headers.get("x-haft").is_some_and(|it| it == "1") {
        return Ok(());
    }
    let what = "a request that is signed in by a cookie, or signs in, needs the header `X-Haft: 1`";
    Err(Problem::new(StatusCode::FORBIDDEN, "denied", what)
        .next("Send that header, or `Authorization: Bearer TOKEN` in place of the cookie."))
}
