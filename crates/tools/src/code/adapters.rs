//! Other toolsets' names and arguments for running Python.

use std::time::Duration;

use kit::{prelude::*, procs::Exit};

use super::{
    INTERPRETER,
    python::{command, title},
    run::{Code, End, Folder, Last, Ran, Reach},
};

/// Run Python code in a fresh interpreter, in an empty temporary folder. No state is kept between calls.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeExec {
    /// Python code to run.
    #[serde(default)]
    code: String,
    /// Seconds it may take. Default: 30.
    timeout: Option<f64>,
}

/// Run Python code in a subprocess.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// The fields have defaults so that a missing one gets that toolset's own message.
#[schemars(extend("required" = ["code"]))]
pub(crate) struct TerrariumPython {
    /// Python code to execute.
    #[serde(default)]
    code: String,
    /// Seconds it may take; 0 for as long as the runtime allows. Default: 60.
    timeout: Option<f64>,
}

/// The maximum time, in seconds.
const LONGEST: f64 = 600.0;

impl Tool for CodeExec {
    const NAME: &'static str = "code_exec";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        touches(&self.code)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds(self.timeout, 30.0).unwrap_or(LONGEST) + 5.0))
    }

    fn shared_process(&self) -> Option<&'static str> {
        Some(INTERPRETER)
    }

    fn title(&self) -> String {
        title(&self.code)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let seconds = seconds(self.timeout, 30.0)?;
        run(&self.code, Folder::Scratch, seconds, cx).await
    }
}

impl Tool for TerrariumPython {
    const NAME: &'static str = "python";
    const AT_MOST: Kinds = Kinds::RUN.with(Kinds::EXCLUSIVE);

    fn touches(&self) -> Touches {
        touches(&self.code)
    }

    fn time_limit(&self) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds(self.timeout, 60.0).unwrap_or(LONGEST) + 5.0))
    }

    fn shared_process(&self) -> Option<&'static str> {
        Some(INTERPRETER)
    }

    fn title(&self) -> String {
        title(&self.code)
    }

    async fn run(self, cx: &Cx) -> Result<Output, Fault> {
        let seconds = seconds(self.timeout, 60.0)?;
        run(&self.code, Folder::Named(""), seconds, cx).await
    }
}

fn touches(code: &str) -> Touches {
    Touches::run(command(code, &[])).and(Touch::Exclusive)
}

/// Returns the requested time; 0 requests the maximum.
fn seconds(asked: Option<f64>, default: f64) -> Result<f64, Fault> {
    match asked.unwrap_or(default) {
        seconds if !seconds.is_finite() || seconds < 0.0 => {
            Err(Fault::bad_args(format!("timeout must be finite and >= 0, got {seconds}")))
        }
        0.0 => Ok(LONGEST),
        seconds => Ok(seconds.min(LONGEST)),
    }
}

async fn run(text: &str, folder: Folder<'_>, seconds: f64, cx: &Cx) -> Result<Output, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::bad_args("No code provided"));
    }
    let ran = Code {
        text,
        arguments: &[],
        folder,
        stdin: None,
        at_most: Duration::from_secs_f64(seconds),
        last: Last::Ignored,
        reach: Reach::Session,
    }
    .run(cx)
    .await?;
    match ran.end {
        End::Exited(exit) => Ok(answer(&ran, exit, cx)),
        End::TimedOut => {
            Err(Fault::new(Kind::Timeout, format!("Python execution timed out after {seconds}s"))
                .seen(Output::text(ran.shown())))
        }
        End::Stopped => Err(ran.stopped()),
    }
}

fn answer(ran: &Ran, exit: Exit, cx: &Cx) -> Output {
    let mut lines = vec![ran.shown()];
    if !exit.is_success() {
        lines.push(format!("Python exited with code {}", exit.code()));
    }
    lines.extend(ran.denials(exit, cx));
    Output { exit: Some(exit.code()), ..Output::text(lines.join("\n")) }
}

#[cfg(test)]
mod tests {
    use kit::testing::TestWorkspace;
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_code_gives_the_original_s_error() {
        let test_ws = TestWorkspace::empty();
        assert_eq!(test_ws.says::<TerrariumPython>(&json!({})), "bad_args: No code provided");
        assert_eq!(test_ws.says::<CodeExec>(&json!({"code": " \n"})), "bad_args: No code provided");
    }

    #[test]
    fn an_invalid_time_is_refused() {
        let test_ws = TestWorkspace::empty();
        assert_eq!(
            test_ws.says::<TerrariumPython>(&json!({"code": "1", "timeout": -1})),
            "bad_args: timeout must be finite and >= 0, got -1"
        );
    }
}
