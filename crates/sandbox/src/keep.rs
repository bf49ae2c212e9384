//! The keeper process: enters the sandbox, then starts the session's commands.

use std::{
    io::Write,
    net::TcpListener,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
    process::ExitCode,
};

use kit::procs::{Looked, Orders, Watch};

use super::{
    enter::{self, Side},
    limits::Ended,
    plan::{Confined, Plan, Report, Trouble},
    tracker,
    usage::Usage,
    watch,
};

/// Runs this process as a keeper: takes its orders from the socket that is its standard input, enters the
/// sandbox that they describe, and starts commands until that socket closes. Call it before anything else in
/// `main`, while there is one thread.
pub fn keep() -> ExitCode {
    let Ok(orders) = Orders::take() else { return ExitCode::FAILURE };
    let plan = match orders.plan() {
        [] => Plan::default(),
        plan => match serde_json::from_slice(plan) {
            Ok(plan) => plan,
            Err(_) => return ExitCode::FAILURE,
        },
    };
    match plan.confined {
        Confined::Not => serve(orders),
        Confined::ByRules => match enter::settle_outside(&plan) {
            Ok(()) => serve(orders),
            Err(trouble) => fail(&orders, trouble),
        },
        Confined::Apart => apart(orders, &plan),
        Confined::Wrapped => match enter::settle_wrapped(&plan) {
            Ok(proxy) => serve_apart(orders, &plan, &proxy, None),
            Err(trouble) => fail(&orders, trouble),
        },
    }
}

fn apart(orders: Orders, plan: &Plan) -> ExitCode {
    let mut orders = Some(orders);
    let side = enter::leave(|| drop(orders.take()));
    let Some(orders) = orders else {
        return match side {
            Ok(Side::Outside(code)) => {
                // No process of the sandbox runs any more, even if haft has crashed.
                watch::take_away(&plan.alone);
                code
            }
            _ => ExitCode::FAILURE,
        };
    };
    let settled = side.and_then(|_| enter::settle(plan));
    match settled {
        Ok((proxy, uppers)) => serve_apart(orders, plan, &proxy, uppers),
        Err(trouble) => fail(&orders, trouble),
    }
}

fn serve_apart(orders: Orders, plan: &Plan, proxy: &TcpListener, uppers: Option<OwnedFd>) -> ExitCode {
    let Ok((mut ours, theirs)) = UnixStream::pair() else { return ExitCode::FAILURE };
    // A reader that does not listen must not block this process.
    let _ = ours.set_nonblocking(true);
    let port = proxy.local_addr().ok().map(|it| it.port());
    let report = Report { proxy: port, ..Report::default() };
    let tell = move |ended: &Ended| {
        if let Ok(mut line) = serde_json::to_vec(ended) {
            line.push(b'\n');
            let _ = ours.write_all(&line);
        }
    };
    let mut files = vec![proxy.as_fd(), theirs.as_fd()];
    files.extend(uppers.as_ref().map(AsFd::as_fd));
    if say(&orders, &report, &files).is_err() {
        return ExitCode::FAILURE;
    }
    // From here on only haft holds it.
    drop(uppers);
    let inside = Inside::prepare();
    orders
        .serve(&|socket| inside.begin(socket), Some(&mut UsageWatch { usage: Usage::new(plan.limits), tell }))
}

fn serve(orders: Orders) -> ExitCode {
    match say(&orders, &Report::default(), &[]) {
        Ok(()) => {
            let inside = Inside::prepare();
            orders.serve(&|socket| inside.begin(socket), None)
        }
        Err(_) => ExitCode::FAILURE,
    }
}

/// The resource watch, with a function that reports what it ended.
struct UsageWatch<T> {
    usage: Usage,
    tell: T,
}

impl<T: FnMut(&Ended)> Watch for UsageWatch<T> {
    fn look(&mut self, is_supervisor: &dyn Fn(i32) -> bool) -> Looked {
        self.usage.look(is_supervisor, &mut self.tell)
    }
}

/// The prepared first step of a tracked command: it may not allocate.
struct Inside {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    filter: Vec<libc::sock_filter>,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl Inside {
    fn prepare() -> Self {
        Self { filter: tracker::program() }
    }

    fn begin(&self, socket: Option<BorrowedFd<'_>>) -> std::io::Result<()> {
        socket.map_or(Ok(()), |socket| tracker::install(&self.filter, socket))
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
impl Inside {
    fn prepare() -> Self {
        Self {}
    }

    fn begin(&self, _: Option<BorrowedFd<'_>>) -> std::io::Result<()> {
        Ok(())
    }
}

fn fail(orders: &Orders, trouble: Trouble) -> ExitCode {
    let report = Report { trouble: Some(trouble), proxy: None };
    // If haft does not receive it, it sees the keeper end.
    let _ = say(orders, &report, &[]);
    ExitCode::FAILURE
}

fn say(orders: &Orders, report: &Report, files: &[BorrowedFd<'_>]) -> std::io::Result<()> {
    orders.report(&serde_json::to_vec(report)?, files)
}
