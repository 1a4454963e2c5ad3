//! Every way a proxy says no.

use crate::{ExecId, Kind, ToolName, exit};

/// A request that did not run a tool to its end, with the reason.
///
/// This is the only place that maps a cause to a status line, a body and the exit code a shim
/// reports. The texts are part of the protocol (`spec/toolexec.md#answers`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Refusal {
    /// 400: the request itself is wrong; the reason is told.
    BadRequest(String),
    /// 401: no token, or a wrong one.
    Unauthorized,
    /// 403: no allowlist of a running sidecar names the tool.
    ToolNotAllowed {
        /// What was asked for.
        tool: ToolName,
        /// The sidecars that run.
        running: Vec<Kind>,
    },
    /// 403: this notification may not be run; the reason is told.
    NotificationRefused(String),
    /// 404: an unknown path, or a signal to an exec that is not there.
    NotFound,
    /// 405: anything but POST.
    MethodNotAllowed,
    /// 408: the request stalled.
    RequestTimeout,
    /// 409: another exec has this id.
    ExecIdInUse(ExecId),
    /// 409: the tool is known, but no running sidecar offers it.
    ToolUnavailable {
        /// What was asked for.
        tool: ToolName,
        /// The kinds that could offer it, preferred first.
        offered_by: Vec<Kind>,
    },
    /// 413: the decoded body is larger than the limit.
    BodyTooLarge {
        /// The limit in MiB.
        limit_mib: usize,
    },
    /// 426: credentials were right, the protocol version was not.
    UnsupportedProtocol,
    /// 426 for a notification, which version 1 does not have.
    UnsupportedNotifyProtocol,
    /// 429: as many tools run as the session allows.
    TooManyExecutions {
        /// How many that is.
        limit: usize,
    },
    /// 431: too many headers, or too long.
    HeadTooLarge,
    /// 500: something on our side failed before the tool ran.
    Internal(String),
    /// 500: the tool itself could not be started.
    StartFailed {
        /// What the kernel said, in words.
        cause: String,
        /// 126 or 127.
        exit_code: u8,
    },
    /// 500: the tool ran, and its ending is unknown.
    EndingUnknown(String),
}

/// An HTTP status with its reason phrase.
pub type Status = (u16, &'static str);

impl Refusal {
    /// The status line's code and phrase.
    pub fn status(&self) -> Status {
        match self {
            Refusal::BadRequest(_) => (400, "Bad Request"),
            Refusal::Unauthorized => (401, "Unauthorized"),
            Refusal::ToolNotAllowed { .. } | Refusal::NotificationRefused(_) => (403, "Forbidden"),
            Refusal::NotFound => (404, "Not Found"),
            Refusal::MethodNotAllowed => (405, "Method Not Allowed"),
            Refusal::RequestTimeout => (408, "Request Timeout"),
            Refusal::ExecIdInUse(_) | Refusal::ToolUnavailable { .. } => (409, "Conflict"),
            Refusal::BodyTooLarge { .. } => (413, "Content Too Large"),
            Refusal::UnsupportedProtocol | Refusal::UnsupportedNotifyProtocol => {
                (426, "Upgrade Required")
            }
            Refusal::TooManyExecutions { .. } => (429, "Too Many Requests"),
            Refusal::HeadTooLarge => (431, "Request Header Fields Too Large"),
            Refusal::Internal(_) | Refusal::StartFailed { .. } | Refusal::EndingUnknown(_) => {
                (500, "Internal Server Error")
            }
        }
    }

    /// What a shim exits with: 86, but 126 or 127 for a failed start and 125 for a lost ending.
    pub fn exit_code(&self) -> u8 {
        match self {
            Refusal::StartFailed { exit_code, .. } => *exit_code,
            Refusal::EndingUnknown(_) => exit::UNKNOWN,
            _ => exit::NOTHING_RAN,
        }
    }

    /// The body, with its final newline.
    pub fn body(&self) -> String {
        match self {
            Refusal::BadRequest(why) => format!("bad request: {why}\n"),
            Refusal::Unauthorized => "unauthorized\n".to_owned(),
            Refusal::ToolNotAllowed { tool, running } if running.is_empty() => {
                format!("forbidden: tool '{tool}' is not allowed in any sidecar\n")
            }
            Refusal::ToolNotAllowed { tool, running } => {
                let kinds = join(running, " or ", |kind| kind.to_string());
                format!("forbidden: tool '{tool}' is not allowed in the {kinds} sidecar\n")
            }
            Refusal::NotificationRefused(why) => format!("{why}\n"),
            Refusal::NotFound => "not found\n".to_owned(),
            Refusal::MethodNotAllowed => "method not allowed\n".to_owned(),
            Refusal::RequestTimeout => "request timeout\n".to_owned(),
            Refusal::ExecIdInUse(id) => format!("exec id '{id}' is in use\n"),
            Refusal::ToolUnavailable { tool, offered_by } => {
                let flags = join(offered_by, " or ", |kind| format!("--toolchain {kind}"));
                format!(
                    "tool '{tool}' not available in running sidecars; \
                     start an appropriate toolchain (e.g., {flags})\n"
                )
            }
            Refusal::BodyTooLarge { limit_mib } => {
                format!("request body exceeds {limit_mib} MiB\n")
            }
            // The text names 1 and 2 whatever else is spoken: deployed clients match it.
            Refusal::UnsupportedProtocol => {
                "Unsupported shim protocol; expected 1 or 2\n".to_owned()
            }
            Refusal::UnsupportedNotifyProtocol => {
                "unsupported notify protocol; expected 2\n".to_owned()
            }
            Refusal::TooManyExecutions { limit } => {
                format!("too many concurrent executions: the limit is {limit}\n")
            }
            Refusal::HeadTooLarge => "request headers too large\n".to_owned(),
            Refusal::Internal(cause)
            | Refusal::StartFailed { cause, .. }
            | Refusal::EndingUnknown(cause) => format!("aifo-coder proxy error: {cause}\n"),
        }
    }
}

fn join<T>(items: &[T], separator: &str, show: impl Fn(&T) -> String) -> String {
    items.iter().map(show).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_texts_and_exit_codes() {
        let tool = |name: &str| ToolName::parse(name.as_bytes()).unwrap();
        let kind = |name: &str| Kind::parse(name).unwrap();
        let rows: Vec<(Refusal, u16, &str, u8)> = vec![
            (
                Refusal::BadRequest("cwd must be absolute".into()),
                400,
                "bad request: cwd must be absolute\n",
                86,
            ),
            (Refusal::Unauthorized, 401, "unauthorized\n", 86),
            (
                Refusal::ToolNotAllowed { tool: tool("ls"), running: vec![kind("rust")] },
                403,
                "forbidden: tool 'ls' is not allowed in the rust sidecar\n",
                86,
            ),
            (
                Refusal::ToolNotAllowed {
                    tool: tool("ls"),
                    running: vec![kind("rust"), kind("go")],
                },
                403,
                "forbidden: tool 'ls' is not allowed in the rust or go sidecar\n",
                86,
            ),
            (
                Refusal::ToolNotAllowed { tool: tool("ls"), running: vec![] },
                403,
                "forbidden: tool 'ls' is not allowed in any sidecar\n",
                86,
            ),
            (
                Refusal::NotificationRefused("command 'echo' not allowed for notifications".into()),
                403,
                "command 'echo' not allowed for notifications\n",
                86,
            ),
            (
                Refusal::UnsupportedNotifyProtocol,
                426,
                "unsupported notify protocol; expected 2\n",
                86,
            ),
            (Refusal::NotFound, 404, "not found\n", 86),
            (Refusal::MethodNotAllowed, 405, "method not allowed\n", 86),
            (Refusal::RequestTimeout, 408, "request timeout\n", 86),
            (
                Refusal::ExecIdInUse(ExecId::parse(b"x").unwrap()),
                409,
                "exec id 'x' is in use\n",
                86,
            ),
            (
                Refusal::ToolUnavailable {
                    tool: tool("make"),
                    offered_by: vec![kind("c-cpp"), kind("rust")],
                },
                409,
                "tool 'make' not available in running sidecars; start an appropriate toolchain \
                (e.g., --toolchain c-cpp or --toolchain rust)\n",
                86,
            ),
            (Refusal::BodyTooLarge { limit_mib: 1 }, 413, "request body exceeds 1 MiB\n", 86),
            (Refusal::UnsupportedProtocol, 426, "Unsupported shim protocol; expected 1 or 2\n", 86),
            (
                Refusal::TooManyExecutions { limit: 512 },
                429,
                "too many concurrent executions: the limit is 512\n",
                86,
            ),
            (Refusal::HeadTooLarge, 431, "request headers too large\n", 86),
            (Refusal::Internal("x".into()), 500, "aifo-coder proxy error: x\n", 86),
            (
                Refusal::StartFailed { cause: "x".into(), exit_code: 127 },
                500,
                "aifo-coder proxy error: x\n",
                127,
            ),
            (Refusal::EndingUnknown("x".into()), 500, "aifo-coder proxy error: x\n", 125),
        ];
        for (refusal, status, body, code) in rows {
            assert_eq!(refusal.status().0, status, "{refusal:?}");
            assert_eq!(refusal.body(), body, "{refusal:?}");
            assert_eq!(refusal.exit_code(), code, "{refusal:?}");
        }
    }
}
