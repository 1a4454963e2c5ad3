//! A call in a session log (`spec/log.md`).

use std::fmt;

use crate::plumbing::plumbing_class;

/// A call as a session log has it. Missing fields are zero, empty or `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedCall {
    /// When the request was complete, in milliseconds since 1970.
    pub time: u64,
    /// Its id.
    pub exec_id: String,
    /// The tool as typed.
    pub tool: String,
    /// The arguments, quoted, with secrets removed.
    pub argv: String,
    /// The sidecar that ran it.
    pub kind: Option<String>,
    /// The reported exit code.
    pub exit_code: u8,
    /// How the call ended.
    pub ending: CallEnding,
    /// The limit of its sidecar that was reached while it ran, if it failed.
    pub limit: Option<String>,
    /// The rule by which it ran without network.
    pub no_network: Option<String>,
    /// Why it was refused, or another remark.
    pub reason: Option<String>,
    /// From start to end; `None` if it is not known.
    pub wall_ms: Option<u64>,
    /// The largest resident set among tool and children; `None` if it is not known.
    pub max_rss_kib: Option<u64>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnding {
    /// By itself, with an exit code.
    Exited,
    /// By a signal.
    Signaled,
    /// By the session's time limit.
    Timeout,
    /// Not known.
    Unknown,
    /// Nothing was started.
    Refused,
    /// It ran in place, and how it ended is not known (`spec/log.md#calls-in-place`).
    InPlace,
}

impl LoggedCall {
    /// Returns the tool with its arguments.
    pub fn command(&self) -> String {
        format!("{} {}", self.tool, self.argv).trim_end().to_owned()
    }

    /// Returns the ending in words: `exit 1`, `signal 9`, else the name of the ending.
    pub fn ending_text(&self) -> String {
        match self.ending {
            CallEnding::Exited => format!("exit {}", self.exit_code),
            CallEnding::Signaled => format!("signal {}", self.exit_code.saturating_sub(128)),
            CallEnding::InPlace => "in place".to_owned(),
            ending => ending.to_string(),
        }
    }

    /// Returns whether the call ended in any way but exit code 0.
    pub fn has_failed(&self) -> bool {
        self.ending.has_failed(self.exit_code)
    }

    /// Returns its class, if an agent made it for itself.
    pub fn plumbing(&self) -> Option<&'static str> {
        agents_own_class(self.kind.as_deref(), self.ending, (&self.tool, &self.argv))
    }

    /// Returns when the call ended, in milliseconds since 1970; its time, if the duration is not known.
    pub fn ended(&self) -> u64 {
        self.time.saturating_add(self.wall_ms.unwrap_or_default())
    }
}

/// Returns the class of a call that an agent made for itself; `kind` is that of the call's place, and `argv` is as
/// logged. A refused call and one that is not recognised have none.
pub fn agents_own_class(
    kind: Option<&str>,
    ending: CallEnding,
    (tool, argv): (&str, &str),
) -> Option<&'static str> {
    let is_agents = kind == Some("agent") && ending != CallEnding::Refused;
    is_agents.then(|| plumbing_class(tool, argv)).flatten()
}

impl CallEnding {
    const ALL: [CallEnding; 6] = [
        CallEnding::Exited,
        CallEnding::Signaled,
        CallEnding::Timeout,
        CallEnding::Unknown,
        CallEnding::Refused,
        CallEnding::InPlace,
    ];

    /// Parses the name of an ending; any other name is [`CallEnding::Unknown`].
    pub fn parse(name: &str) -> Self {
        CallEnding::ALL.into_iter().find(|it| it.as_str() == name).unwrap_or(CallEnding::Unknown)
    }

    /// Returns the name in the log.
    pub fn as_str(self) -> &'static str {
        match self {
            CallEnding::Exited => "exited",
            CallEnding::Signaled => "signaled",
            CallEnding::Timeout => "timeout",
            CallEnding::Unknown => "unknown",
            CallEnding::Refused => "refused",
            CallEnding::InPlace => "in-place",
        }
    }

    /// Returns whether a call with this exit code is known to have ended in any way but exit code 0.
    pub fn has_failed(self, exit_code: u8) -> bool {
        match self {
            CallEnding::InPlace => false,
            ending => ending != CallEnding::Exited || exit_code != 0,
        }
    }
}

impl fmt::Display for CallEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings() {
        for ending in CallEnding::ALL {
            assert_eq!(CallEnding::parse(ending.as_str()), ending);
        }
        assert_eq!(CallEnding::parse("vanished"), CallEnding::Unknown);
        assert_eq!(CallEnding::parse(""), CallEnding::Unknown);
        for (ending, exit_code, has_failed) in [
            (CallEnding::Exited, 0, false),
            (CallEnding::Exited, 1, true),
            (CallEnding::Signaled, 137, true),
            (CallEnding::Timeout, 124, true),
            (CallEnding::Unknown, 0, true),
            (CallEnding::Refused, 86, true),
            (CallEnding::InPlace, 0, false),
        ] {
            assert_eq!(ending.has_failed(exit_code), has_failed, "{ending} {exit_code}");
        }
    }
}
