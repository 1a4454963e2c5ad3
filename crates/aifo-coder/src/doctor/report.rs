//! What a check found, and how it is told.

use aifo_types::escape_line;
use serde::Serialize;

use crate::paint::Paint;

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) check: String,
    pub(super) status: Status,
    pub(super) finding: String,
    /// What to do about it.
    pub(super) fix: Option<String>,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Ok,
    /// Sessions work, but not as well as they could.
    Warn,
    /// Sessions of this sort do not work.
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

    /// A failure in the words of an error; a hint in its text is the fix.
    pub(super) fn failure(check: impl Into<String>, error: &impl ToString, fix: &str) -> Self {
        let text = error.to_string();
        let (finding, hint) = text.split_once("\nhint: ").unwrap_or((text.as_str(), fix));
        Finding::fail(check, finding, hint)
    }

    /// `ok    what: finding`, and an indented `fix:` below what is not.
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
        let told = Finding::failure("versions", &"not found\nhint: set it", "unused");
        assert_eq!(told, Finding::fail("versions", "not found", "set it"));
        let silent = Finding::failure("versions", &"not found", "look");
        assert_eq!(silent.fix.as_deref(), Some("look"));
    }

    #[test]
    fn json_for_programs() {
        let warn = serde_json::to_string(&Finding::warn("a", "b", "c")).unwrap();
        assert_eq!(warn, r#"{"check":"a","status":"warn","finding":"b","fix":"c"}"#);
    }
}
