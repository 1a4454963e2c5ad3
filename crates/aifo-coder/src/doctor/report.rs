//! The findings of checks, as text and JSON.

use aifo_terminal::paint::Paint;
use aifo_types::escape_line;
use serde::Serialize;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: String,
    pub(super) status: Status,
    pub(super) finding: String,
    /// The remedy.
    pub(super) fix: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    /// Sessions work, with restrictions.
    Warn,
    /// Sessions of this kind do not work.
    Fail,
}

impl Finding {
    pub(super) fn ok(check: impl Into<String>, finding: impl Into<String>) -> Self {
        let (check, finding) = (check.into(), finding.into());
        Finding { check, status: Status::Ok, finding, fix: None }
    }

    pub(super) fn warn(
        check: impl Into<String>,
        finding: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let fix = Some(fix.into());
        Finding { status: Status::Warn, fix, ..Finding::ok(check, finding) }
    }

    pub(super) fn fail(
        check: impl Into<String>,
        finding: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Finding { status: Status::Fail, ..Finding::warn(check, finding, fix) }
    }

    /// A failure with an error's text; its hint, if any, is the fix.
    pub(super) fn failure(check: impl Into<String>, error: &impl ToString, fix: &str) -> Self {
        let text = error.to_string();
        let (finding, hint) = text.split_once("\nhint: ").unwrap_or((text.as_str(), fix));
        Finding::fail(check, finding, hint)
    }

    /// `ok    check: finding`, and for others an indented line with the fix.
    pub(super) fn lines(&self, paint: Paint) -> String {
        let word = match self.status {
            Status::Ok => paint.good("ok  "),
            Status::Warn => paint.bad("warn"),
            Status::Fail => paint.bad("fail"),
        };
        let mut lines =
            format!("{word}  {}: {}\n", escape_line(&self.check), escape_line(&self.finding));
        if let Some(fix) = &self.fix {
            lines += &format!("      fix: {}\n", escape_line(fix));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people() {
        let ok = Finding::ok("kernel", "Linux 6.1");
        assert_eq!(ok.lines(Paint::Plain), "ok    kernel: Linux 6.1\n");
        let fail = Finding::fail("docker", "no\nanswer", "start it");
        assert_eq!(fail.lines(Paint::Plain), "fail  docker: no\\nanswer\n      fix: start it\n");
    }

    #[test]
    fn a_hint_is_the_fix() {
        let hinted = Finding::failure("versions", &"not found\nhint: set it", "unused");
        assert_eq!(hinted, Finding::fail("versions", "not found", "set it"));
        let silent = Finding::failure("versions", &"not found", "look");
        assert_eq!(silent.fix.as_deref(), Some("look"));
    }

    #[test]
    fn json_for_programs() {
        let warn = serde_json::to_string(&Finding::warn("a", "b", "c")).unwrap();
        assert_eq!(warn, r#"{"check":"a","status":"warn","finding":"b","fix":"c"}"#);
    }
}
