//! The findings of checks, as text and JSON.

use aifo_terminal::paint::Paint;
use aifo_types::{Finding, FindingStatus, escape_line};
use serde::Serialize;

/// A finding in JSON.
#[derive(Serialize)]
pub(super) struct Row<'a> {
    check: &'a str,
    status: &'static str,
    finding: &'a str,
    fix: Option<&'a str>,
}

impl<'a> Row<'a> {
    pub(super) fn of(finding: &'a Finding) -> Self {
        let status = match finding.status {
            FindingStatus::Ok => "ok",
            FindingStatus::Warn => "warn",
            FindingStatus::Fail => "fail",
        };
        let Finding { check, text, fix, .. } = finding;
        Row { check, status, finding: text, fix: fix.as_deref() }
    }
}

/// `ok    check: finding`, and for others an indented line with the fix.
pub(super) fn lines(finding: &Finding, paint: Paint) -> String {
    let word = match finding.status {
        FindingStatus::Ok => paint.good("ok  "),
        FindingStatus::Warn => paint.bad("warn"),
        FindingStatus::Fail => paint.bad("fail"),
    };
    let (check, text) = (escape_line(&finding.check), escape_line(&finding.text));
    let fix = finding.fix.as_ref().map(|fix| format!("      fix: {}\n", escape_line(fix)));
    format!("{word}  {check}: {text}\n{}", fix.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people() {
        let ok = Finding::ok("kernel", "Linux 6.1");
        assert_eq!(lines(&ok, Paint::Plain), "ok    kernel: Linux 6.1\n");
        let fail = Finding::fail("docker", "no\nanswer", "start it");
        assert_eq!(lines(&fail, Paint::Plain), "fail  docker: no\\nanswer\n      fix: start it\n");
    }

    #[test]
    fn json_for_programs() {
        let warn = Finding::warn("a", "b", "c");
        let warn = serde_json::to_string(&Row::of(&warn)).unwrap();
        assert_eq!(warn, r#"{"check":"a","status":"warn","finding":"b","fix":"c"}"#);
    }
}
