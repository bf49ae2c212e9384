//! Lint findings, with their places.

/// Maximum number of findings: each needs a scan of the source for its line number.
pub(super) const MOST: usize = 200;

/// The findings about one source.
pub(super) struct Report<'a> {
    file: &'a str,
    source: &'a str,
    findings: Vec<Finding>,
}

/// A finding.
pub(super) struct Finding {
    at: usize,
    severity: Severity,
    what: String,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// OpenSCAD refuses it, or drops a part of it.
    Error,
    /// OpenSCAD accepts it, but it is hardly intended.
    Warning,
}

impl Finding {
    pub(super) fn error(at: usize, what: String) -> Self {
        Self { at, severity: Severity::Error, what }
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &'a str, source: &'a str) -> Self {
        Self { file, source, findings: Vec::new() }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        if !self.is_full() {
            self.findings.push(finding);
        }
    }

    pub(super) fn error(&mut self, at: usize, what: String) {
        self.add(Finding::error(at, what));
    }

    pub(super) fn warning(&mut self, at: usize, what: String) {
        self.add(Finding { at, severity: Severity::Warning, what });
    }

    pub(super) fn len(&self) -> usize {
        self.findings.len()
    }

    /// Returns whether the limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.findings.len() >= MOST
    }

    /// Returns the line and column of a byte, from 1; empty once the limit is reached.
    pub(super) fn place(&self, at: usize) -> String {
        if self.is_full() { String::new() } else { self.position(at) }
    }

    fn position(&self, at: usize) -> String {
        let before = self.source.get(..at).unwrap_or(self.source);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().trim_start_matches('\u{feff}');
        format!("{line}:{}", column.chars().count() + 1)
    }

    /// Returns every finding as `file:line:column severity message`, in the order of the source.
    pub(super) fn lines(mut self) -> Vec<String> {
        self.findings.sort_by_key(|it| it.at);
        let line = |it: &Finding| {
            let severity = match it.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            format!("{}:{} {severity} {}", self.file, self.position(it.at), it.what)
        };
        let mut lines: Vec<String> = self.findings.iter().map(line).collect();
        lines.dedup();
        lines
    }
}
