//! The result of a check of this machine, an engine or a cluster.

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The check.
    pub check: String,
    /// Whether sessions work.
    pub status: FindingStatus,
    /// A sentence.
    pub text: String,
    /// The remedy.
    pub fix: Option<String>,
}

/// Whether sessions work, as far as a check can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingStatus {
    /// They do.
    Ok,
    /// With restrictions.
    Warn,
    /// Those of this kind do not.
    Fail,
}

impl Finding {
    /// All is well.
    pub fn ok(check: impl Into<String>, text: impl Into<String>) -> Self {
        let (check, text) = (check.into(), text.into());
        Finding { check, status: FindingStatus::Ok, text, fix: None }
    }

    /// A restriction, with its remedy.
    pub fn warn(check: impl Into<String>, text: impl Into<String>, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into());
        Finding { status: FindingStatus::Warn, fix, ..Finding::ok(check, text) }
    }

    /// A failure, with its remedy.
    pub fn fail(check: impl Into<String>, text: impl Into<String>, fix: impl Into<String>) -> Self {
        Finding { status: FindingStatus::Fail, ..Finding::warn(check, text, fix) }
    }

    /// A failure with an error's text; its hint, if any, is the fix.
    pub fn failure(check: impl Into<String>, error: &impl ToString, fix: &str) -> Self {
        let text = error.to_string();
        let (text, hint) = text.split_once("\nhint: ").unwrap_or((text.as_str(), fix));
        Finding::fail(check, text, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_the_fix() {
        let hinted = Finding::failure("versions", &"not found\nhint: set it", "unused");
        assert_eq!(hinted, Finding::fail("versions", "not found", "set it"));
        let silent = Finding::failure("versions", &"not found", "look");
        assert_eq!(silent.fix.as_deref(), Some("look"));
    }
}
