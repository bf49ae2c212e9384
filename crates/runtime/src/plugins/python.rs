//! Calls of a tool in a Python file.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use kit::{
    AnyTool, Cx, Fault, Kind, Origin, Output, Part, Prepared, Running, Spec, Touches, procs::Procs,
    quote::quote,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    Hosts, Version,
    attestation::Grant,
    call_rules::CallRules,
    declaration::Declaration,
    failure,
    host::{Asked, HostMessage, Lost},
    hosts::{Lease, Printed},
};
use crate::{execution::session_ended, result_parts};

/// How often haft repeats a call whose process ended before the call had begun.
const TRIES: usize = 5;

/// A tool in one version of a Python file.
pub(crate) struct PythonTool {
    version: Arc<Version>,
    declaration: Arc<Declaration>,
    grant: Grant,
    origin: Origin,
    /// Made when the tool is listed or called: most of many tools never are.
    inner: OnceLock<Arc<Inner>>,
}

struct Inner {
    terms: CallRules,
    /// Its command line.
    command: String,
}

/// A call of the tool.
struct PythonCall {
    tool: Arc<Inner>,
    arguments: Value,
    touches: Touches,
}

/// The request that starts a call.
#[derive(Serialize)]
struct Request<'a> {
    op: &'static str,
    id: u64,
    entry: &'a str,
    arguments: &'a Value,
    session: &'a str,
    /// Whether the process is to report when it begins.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tell: bool,
}

/// Further input for a generator.
#[derive(Serialize)]
struct More<'a> {
    op: &'static str,
    id: u64,
    /// The id of its call.
    of: u64,
    input: &'a Value,
    tell: bool,
}

impl PythonTool {
    /// Creates the tool of a version's declaration, with its grants.
    pub(crate) fn new(version: Arc<Version>, declaration: Arc<Declaration>, grant: Grant) -> Self {
        let origin = Origin::File(version.path.clone());
        Self { version, declaration, grant, origin, inner: OnceLock::new() }
    }

    fn inner(&self) -> &Arc<Inner> {
        self.inner.get_or_init(|| {
            let command = format!("python3 {}", quote(&self.version.path.display().to_string()));
            let described = self.declaration.described().clone();
            let terms = CallRules::new(self.version.clone(), described, self.grant.clone());
            Arc::new(Inner { terms, command })
        })
    }
}

impl AnyTool for PythonTool {
    fn spec(&self) -> &Spec {
        &self.inner().terms.spec
    }

    fn name(&self) -> &str {
        self.declaration.name()
    }

    fn origin(&self) -> &Origin {
        &self.origin
    }

    fn least_bytes(&self) -> usize {
        self.declaration.summary.bytes
    }

    fn prepare(&self, arguments: Value) -> Result<Box<dyn Prepared>, Fault> {
        let tool = self.inner();
        let touches = tool.terms.touches(&tool.command, &arguments)?;
        Ok(Box::new(PythonCall { tool: tool.clone(), arguments, touches }))
    }
}

impl Prepared for PythonCall {
    fn touches(&self) -> Touches {
        self.touches.clone()
    }

    fn time_limit(&self) -> Option<Duration> {
        self.tool.terms.time_limit()
    }

    fn title(&self) -> String {
        self.tool.terms.spec.name.clone()
    }

    fn run(self: Box<Self>, cx: Cx) -> Running {
        Box::pin(async move {
            self.call(&cx).await.map_err(|fault| failure::lapsed(fault, self.tool.terms.lapsed.as_deref()))
        })
    }
}

impl PythonCall {
    async fn call(&self, cx: &Cx) -> Result<Output, Fault> {
        let Some(hosts) = cx.shelf().find::<Hosts>() else { return Err(session_ended()) };
        let mut gone = None;
        for _ in 0..TRIES {
            let lease = tokio::select! {
                biased;
                () = cx.cancelled() => return Err(not_begun()),
                lease = hosts.lease(&self.tool.terms.served) => lease?,
            };
            match self.call_in(&hosts, &lease, cx).await {
                Ok(done) => return done,
                Err(lost) => gone = Some(lost),
            }
        }
        let how = gone.map(|it| failure::how(&it)).unwrap_or_default();
        let tool = &self.tool.terms.spec.name;
        Err(Fault::new(
            Kind::Unavailable,
            format!("the process of `{tool}` ended {TRIES} times before this call could begin: {how}; it did nothing"),
        )
        .next("Call it again when its other calls are over."))
    }

    /// Calls the tool in this process. `Err` means that the process is gone and the call had not begun.
    async fn call_in(&self, hosts: &Hosts, lease: &Lease, cx: &Cx) -> Result<Result<Output, Fault>, Lost> {
        // The call's grants last as long as these values live.
        let procs = lease.execution.of_call_to(
            &self.tool.terms.spec.name,
            &self.touches,
            &self.tool.terms.served.section.net,
        );
        let calling = lease.host.call().await;
        let _changes = cx.procs().during(lease.host.process());
        let printed = lease.printed();
        let began = Instant::now();
        let mut asked = lease.host.ask(Some(cx), |id, tell| Request {
            op: "call",
            id,
            entry: &self.tool.terms.described.entry,
            arguments: &self.arguments,
            session: hosts.session(),
            tell,
        })?;
        let first = asked.id();
        let limit = self.tool.terms.time_limit();
        let (kind, what) = loop {
            tokio::select! {
                biased;
                said = asked.answer() => {
                    if said.as_ref().is_ok_and(|said| said.ok && said.more) {
                        match self.go_on(said?, first, lease, &printed, cx).await {
                            Ok(next) => asked = next?,
                            Err(fault) => return Ok(Err(fault)),
                        }
                        continue;
                    }
                    drop(calling);
                    if let Ok(said) = &said {
                        lease.host.end_left(said.started).await;
                    }
                    return self.answered(cx, said, lease, printed, &procs);
                }
                () = cx.cancelled() => {
                    let after = began.elapsed().as_secs_f32();
                    break (
                        Kind::Cancelled,
                        format!("`{}` was stopped after {after:.1} s", self.tool.terms.spec.name),
                    );
                }
                () = self.tool.terms.too_long(cx) => {
                    let limit = limit.unwrap_or_default().as_secs_f32();
                    break (
                        Kind::Timeout,
                        format!("`{}` did not end within its {limit} s", self.tool.terms.spec.name),
                    );
                }
            }
        };
        let stopped = self.stopped(Fault::new(kind, what), asked, &printed, &procs).await;
        drop(calling);
        // A caller that stopped the call does not wait for that.
        let host = lease.host.clone();
        tokio::spawn(async move { host.end_left(true).await });
        Ok(stopped)
    }

    /// Passes on an intermediate result, waits for input, and requests the next result.
    async fn go_on(
        &self,
        said: HostMessage,
        first: u64,
        lease: &Lease,
        printed: &Printed,
        cx: &Cx,
    ) -> Result<Result<Asked, Lost>, Fault> {
        lease.keep(printed.clone());
        let input = match cx.caller().hand_over(output(said)).await {
            Ok(input) => input,
            Err(fault) => {
                lease.host.tell_to_stop(first);
                return Err(fault);
            }
        };
        let asked =
            lease.host.ask(Some(cx), |id, tell| More { op: "input", id, of: first, input: &input, tell });
        // The call has begun: the generator is gone with its process.
        Ok(asked.map_err(|lost| Lost { begun: true, ..lost }))
    }

    fn answered(
        &self,
        cx: &Cx,
        said: Result<HostMessage, Lost>,
        lease: &Lease,
        printed: Printed,
        procs: &Procs,
    ) -> Result<Result<Output, Fault>, Lost> {
        Ok(match said {
            Ok(said) if said.ok => {
                lease.keep(printed);
                let mut output = output(said);
                output
                    .parts
                    .extend(lease.execution.made().iter().map(|it| result_parts::note(&cx.named(it))));
                Ok(output)
            }
            Ok(said) => Err(failure::raised(said, &printed.text(), procs)),
            Err(lost) if !lost.begun => return Err(lost),
            Err(lost) => Err(failure::lost(&self.tool.terms.spec.name, &lost, &printed.text(), procs)),
        })
    }

    /// Returns the fault of a call that was stopped; it may have finished at that moment.
    async fn stopped(
        &self,
        fault: Fault,
        asked: Asked,
        printed: &Printed,
        procs: &Procs,
    ) -> Result<Output, Fault> {
        match asked.stop().await {
            Some(said) if said.ok => Ok(output(said)),
            Some(said) if said.error == "cancelled" => Err(failure::with_printed(fault, &printed.text())),
            Some(said) => {
                let raised = failure::raised(said, &printed.text(), procs);
                Err(Fault { seen: raised.seen, ..fault })
            }
            None => {
                let fault = failure::with_printed(fault, &printed.text());
                let what = format!("{}; its process did not obey, so it was ended", fault.what);
                Err(Fault { what, ..fault })
            }
        }
    }
}

fn not_begun() -> Fault {
    Fault::new(Kind::Cancelled, "the call was stopped before its tool began; it did nothing")
}

/// Converts a result to the output.
fn output(said: HostMessage) -> Output {
    let mut parts: Vec<Part> = said.parts.into_iter().map(result_parts::part).collect();
    if let (true, Some(structured)) = (parts.is_empty(), &said.structured) {
        parts.push(Part::Text { text: structured.to_string() });
    }
    parts.extend(said.notes.iter().map(|it| result_parts::note(it)));
    Output { parts, structured: said.structured, exit: said.exit, paged: false }
}
