//! `haft mcp --http`: the address to listen on, and the bearer tokens to accept.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    net::{SocketAddr, TcpListener},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use kit::{Fault, Kind};
use serve::{Http, Principal};

use crate::{
    Place, print,
    verbs::listening::{address, is_name, listen, private},
};

/// The variable that may hold the token.
pub(super) const VARIABLE: &str = "HAFT_MCP_TOKEN";

/// The file with the token that haft created.
pub(super) const FILE: &str = "mcp-token";

/// The name of a principal whose token has no name.
const DEFAULT: &str = "default";

/// Serve over HTTP.
#[derive(Debug, Default, Args)]
pub(super) struct HttpArgs {
    /// Serve over HTTP at this address, at the path /mcp, instead of on standard input and output; port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    http: Option<String>,
    /// File with the bearer tokens to accept: one alone, or lines of `NAME TOKEN` [default: $HAFT_MCP_TOKEN, else a token
    /// that haft creates and keeps in its state folder]
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
    /// Accept requests without a token, from this machine only
    #[arg(long, requires = "http", conflicts_with = "token_file")]
    no_token: bool,
    /// Host name that clients use: HOST, HOST:PORT or a URL; required for an address other than loopback, repeatable
    #[arg(long, value_name = "HOSTNAME", requires = "http")]
    public: Vec<String>,
    /// Origin whose web pages may use the server: https://app.example.com; repeatable
    #[arg(long, value_name = "URL", requires = "http")]
    allow_origin: Vec<String>,
    /// Authorization server that issues the tokens, for clients to discover; repeatable
    #[arg(long, value_name = "URL", requires = "http")]
    authorization_server: Vec<String>,
    /// End a session and its jobs after this many seconds without its client
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, value_parser = clap::value_parser!(u64).range(1..), requires = "http")]
    idle: u64,
}

/// A listening socket, and the settings of the server.
pub(super) struct Listening {
    pub(super) listener: TcpListener,
    pub(super) settings: Http,
}

impl HttpArgs {
    pub(super) fn is_wanted(&self) -> bool {
        self.http.is_some()
    }

    /// Listens at the requested address, and prints it for the person.
    ///
    /// # Errors
    /// When the address, a token or a name is not valid, or another process listens there.
    pub(super) fn listen(&self, place: &Place) -> Result<Option<Listening>, Fault> {
        let Some(address) = &self.http else { return Ok(None) };
        let address = self.address(address)?;
        self.public.iter().try_for_each(|it| is_name(it))?;
        if let Some(origin) = self.allow_origin.iter().find(|it| !serve::is_origin(it)) {
            return Err(Fault::bad_args(format!("`--allow-origin {origin}` is not an origin")).next(
                "Give it as a browser does: https://app.example.com, with the port where it has one.",
            ));
        }
        let (principals, made) = self.principals(place)?;
        let listener = listen(address)?;
        let address = listener.local_addr().unwrap_or(address);
        print::err(&format!("haft: MCP at http://{address}/mcp"));
        if self.no_token {
            print::err(
                "haft: WARNING: no token is required: every program and user of this machine can use the tools",
            );
        }
        match made {
            Some(Made::Now(token, file)) => {
                print::err(&format!("haft: Authorization: Bearer {token}"));
                print::err(&format!("haft: the token is in {}; it is not shown again", file.display()));
            }
            Some(Made::Before(file)) => {
                print::err(&format!("haft: the bearer token is in {}", file.display()));
            }
            None => {}
        }
        let settings = Http {
            principals,
            public: self.public.clone(),
            origins: self.allow_origin.clone(),
            authorization_servers: self.authorization_server.clone(),
            idle: Duration::from_secs(self.idle),
            ..Http::default()
        };
        Ok(Some(Listening { listener, settings }))
    }

    fn address(&self, text: &str) -> Result<SocketAddr, Fault> {
        let address = address("--http", text)?;
        if address.ip().is_loopback() {
            return Ok(address);
        }
        if self.no_token {
            return Err(Fault::bad_args(format!(
                "`--no-token` is only for loopback, and {address} is not loopback"
            ))
            .next("Leave `--no-token` out, or listen on 127.0.0.1."));
        }
        if self.public.is_empty() {
            let what = format!("other machines can reach {address}, and `--public` is missing");
            return Err(Fault::bad_args(what)
                .next("Listen on 127.0.0.1, or name the host that clients use: `--public HOSTNAME`."));
        }
        Ok(address)
    }

    /// Returns the principals that may connect, and the token that haft keeps if nobody gave one.
    fn principals(&self, place: &Place) -> Result<(Vec<Principal>, Option<Made>), Fault> {
        if self.no_token {
            return Ok((Vec::new(), None));
        }
        if let Some(file) = &self.token_file {
            return Ok((of_file(file)?, None));
        }
        let given = place.variables.iter().find(|(name, value)| name == VARIABLE && !value.is_empty());
        if let Some((_, token)) = given {
            let principal = Principal::new(DEFAULT, token.trim())
                .map_err(|why| Fault::bad_args(format!("{VARIABLE}: {why}")))?;
            return Ok((vec![principal], None));
        }
        let (token, made) = saved_token(&place.state.join(FILE))?;
        let principal = Principal::new(DEFAULT, token).map_err(|why| {
            Fault::bad_args(format!("{}: {why}", place.state.join(FILE).display()))
                .next("Remove the file; haft then creates a new token.")
        })?;
        Ok((vec![principal], Some(made)))
    }
}

/// A token that haft keeps.
enum Made {
    Now(String, PathBuf),
    Before(PathBuf),
}

/// Returns the token that haft created, now or at an earlier start: a client that reconnects can use the same token.
fn saved_token(file: &Path) -> Result<(String, Made), Fault> {
    let broken = |error: io::Error| {
        Fault::new(Kind::Unavailable, format!("the token can't be saved in {}: {error}", file.display()))
            .next("Give one with `--token-file FILE`.")
    };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(broken)?;
    }
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| broken(io::Error::other(error)))?;
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // haft writes the file under another name first: two processes that start at the same time then share one token.
    let fresh = file.with_extension(format!("{}", std::process::id()));
    let mut made = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)
        .map_err(broken)?;
    let linked = made.write_all(token.as_bytes()).and_then(|()| fs::hard_link(&fresh, file));
    let _ = fs::remove_file(&fresh);
    match linked {
        Ok(()) => Ok((token.clone(), Made::Now(token, file.to_owned()))),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let token = private(file).map_err(broken)?;
            Ok((token.trim().to_owned(), Made::Before(file.to_owned())))
        }
        Err(error) => Err(broken(error)),
    }
}

fn of_file(file: &Path) -> Result<Vec<Principal>, Fault> {
    let wrong = |why: String| {
        Fault::bad_args(format!("`--token-file {}`: {why}", file.display()))
            .next("It holds one token, or lines of `NAME TOKEN`; `chmod 600` keeps it to you.")
    };
    let text = private(file).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut principals: Vec<Principal> = Vec::new();
    for line in lines {
        let (name, token) = line.split_once(char::is_whitespace).unwrap_or((DEFAULT, line));
        let principal = Principal::new(name, token.trim()).map_err(&wrong)?;
        if principals.iter().any(|it| it.name() == name || it.has_token_of(&principal)) {
            return Err(wrong(format!("the name or the token of `{name}` is in another line already")));
        }
        principals.push(principal);
    }
    if principals.is_empty() {
        return Err(wrong("it has no token".to_owned()));
    }
    Ok(principals)
}
