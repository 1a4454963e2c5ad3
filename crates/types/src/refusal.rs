//! The proxy's refusals.

use std::path::Path;

use crate::{Ending, ExecId, Kind, Signal, ToolName, exit};

/// Why a request did not run a tool to completion.
///
/// The only mapping from a cause to status, body and the shim's exit code. The texts are part of
/// the protocol (`spec/toolexec.md#responses`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Refusal {
    /// 400: the request is invalid, for this reason.
    BadRequest(String),
    /// 401: the token is missing or wrong.
    Unauthorized,
    /// 403: no allowlist of a running sidecar names the tool.
    ToolNotAllowed {
        /// The requested tool.
        tool: ToolName,
        /// The running sidecars.
        running: Vec<Kind>,
    },
    /// 403: the program that the call names by its path is no interpreter.
    ProgramNotAllowed {
        /// The path.
        program: String,
    },
    /// 403: the tool is not one of those that run in place.
    NotInPlace {
        /// The requested tool.
        tool: ToolName,
    },
    /// 403: the notification is not allowed, for this reason.
    NotificationRefused(String),
    /// 403: a rule denies the call.
    DeniedByRule {
        /// The rule.
        rule: String,
        /// Its reason; may be empty.
        reason: String,
    },
    /// 403: a user had to approve the call, and did not.
    NotApproved {
        /// The call, in one line.
        call: String,
        /// The rule and its reason.
        why: String,
        /// The event.
        cause: ApprovalFailure,
    },
    /// 403: the call is too long to be shown for approval.
    TooLongForApproval {
        /// Its length in bytes.
        len: usize,
        /// The limit in KiB.
        limit_kib: usize,
    },
    /// 409: a signal ended the wait for approval.
    SignalledBeforeApproval {
        /// Its Linux number, 1 to 64.
        number: u8,
    },
    /// 429: too many calls wait for approval.
    TooManyUnapproved {
        /// The limit.
        limit: usize,
    },
    /// 404: an unknown path, or a signal to an exec that does not run.
    NotFound,
    /// 405: the method is not POST.
    MethodNotAllowed,
    /// 408: the request stalled.
    RequestTimeout,
    /// 409: another exec has this id.
    ExecIdInUse(ExecId),
    /// 409: no running sidecar has the tool.
    ToolUnavailable {
        /// The requested tool.
        tool: ToolName,
        /// The session's kinds that may run it but have not installed it.
        lacking: Vec<Kind>,
        /// Other kinds that offer it, in order of preference.
        offered_by: Vec<Kind>,
    },
    /// 409: the only sidecars that may have the tool have no image.
    NoImage {
        /// The requested tool.
        tool: ToolName,
        /// The sidecar's error, with the remedy.
        cause: String,
    },
    /// 413: the decoded body exceeds the limit.
    BodyTooLarge {
        /// The limit in MiB.
        limit_mib: usize,
    },
    /// 426: the protocol version is not supported.
    UnsupportedProtocol,
    /// 426: version 1 has no notifications.
    UnsupportedNotifyProtocol,
    /// 429: the maximum number of tools is running.
    TooManyExecutions {
        /// That maximum.
        limit: usize,
    },
    /// 431: too many headers, or too long.
    HeadTooLarge,
    /// 500: a failure in the proxy or sidecar before the tool ran.
    Internal(String),
    /// 503: the waiting requests use all memory that the proxy gives them.
    OutOfMemory {
        /// The limit in MiB.
        limit_mib: usize,
    },
    /// 500: the tool could not be started.
    StartFailed {
        /// The kernel's error.
        cause: String,
        /// 126 or 127.
        exit_code: u8,
    },
    /// 500: the tool ran and its exit status is unknown.
    EndingUnknown(String),
}

/// Why a call was not approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalFailure {
    /// A user denied it.
    Denied,
    /// A user denied it, and the agent's turn must end.
    TurnEnded,
    /// No answer came in time.
    TimedOut {
        /// The time in seconds.
        secs: u64,
        /// The user's command that answers.
        command: String,
    },
}

/// Returns why a call does not run whose directory or script is not the one that a user was asked about.
pub fn replaced_while_waiting(path: &Path) -> String {
    let path = path.display();
    format!(
        "'{path}' was replaced while the call waited for approval\n\
         hint: call it again; the user is asked again"
    )
}

/// An HTTP status with its reason phrase.
pub type Status = (u16, &'static str);

/// The remedy after a denial.
const DENIED_HINT: &str = "hint: do not repeat this call; choose another way or report to the user";

impl Refusal {
    /// Returns the status code and reason phrase.
    pub fn status(&self) -> Status {
        match self {
            Refusal::BadRequest(_) => (400, "Bad Request"),
            Refusal::Unauthorized => (401, "Unauthorized"),
            Refusal::ToolNotAllowed { .. }
            | Refusal::ProgramNotAllowed { .. }
            | Refusal::NotInPlace { .. }
            | Refusal::NotificationRefused(_)
            | Refusal::DeniedByRule { .. }
            | Refusal::NotApproved { .. }
            | Refusal::TooLongForApproval { .. } => (403, "Forbidden"),
            Refusal::NotFound => (404, "Not Found"),
            Refusal::MethodNotAllowed => (405, "Method Not Allowed"),
            Refusal::RequestTimeout => (408, "Request Timeout"),
            Refusal::ExecIdInUse(_)
            | Refusal::ToolUnavailable { .. }
            | Refusal::NoImage { .. }
            | Refusal::SignalledBeforeApproval { .. } => (409, "Conflict"),
            Refusal::BodyTooLarge { .. } => (413, "Content Too Large"),
            Refusal::UnsupportedProtocol | Refusal::UnsupportedNotifyProtocol => {
                (426, "Upgrade Required")
            }
            Refusal::TooManyExecutions { .. } | Refusal::TooManyUnapproved { .. } => {
                (429, "Too Many Requests")
            }
            Refusal::HeadTooLarge => (431, "Request Header Fields Too Large"),
            Refusal::Internal(_) | Refusal::StartFailed { .. } | Refusal::EndingUnknown(_) => {
                (500, "Internal Server Error")
            }
            Refusal::OutOfMemory { .. } => (503, "Service Unavailable"),
        }
    }

    /// Returns the shim's exit code: 126 or 127 for a failed start, 125 for an unknown exit status,
    /// 128 and the number of a signal that ended the wait for approval, otherwise 86.
    pub fn exit_code(&self) -> u8 {
        match self {
            Refusal::StartFailed { exit_code, .. } => *exit_code,
            Refusal::EndingUnknown(_) => exit::UNKNOWN,
            Refusal::SignalledBeforeApproval { number } => Ending::Signaled(*number).exit_code(),
            _ => exit::NOTHING_RAN,
        }
    }

    /// Returns the body, with a final newline.
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
            Refusal::ProgramNotAllowed { program } => {
                format!("forbidden: program '{program}' is not an interpreter of a toolchain\n")
            }
            Refusal::NotInPlace { tool } => {
                format!("forbidden: tool '{tool}' does not run in place in this session\n")
            }
            Refusal::NotificationRefused(why) => format!("{why}\n"),
            Refusal::DeniedByRule { rule, reason } => {
                let because = if reason.is_empty() { "" } else { ": " };
                format!("denied by rule '{rule}'{because}{reason}\n{DENIED_HINT}\n")
            }
            Refusal::NotApproved { call, why, cause } => match cause {
                ApprovalFailure::Denied => {
                    format!("denied by the user: {call} ({why})\n{DENIED_HINT}\n")
                }
                ApprovalFailure::TurnEnded => format!(
                    "denied by the user: {call} ({why})\nhint: end your turn and wait for the user\n"
                ),
                ApprovalFailure::TimedOut { secs, command } => {
                    let waited = if *secs == 0 { "" } else { &format!(" within {secs} s") };
                    format!(
                        "not approved{waited}: {call} ({why})\nhint: an answer by '{command}' \
                         within 10 minutes covers one repetition\n"
                    )
                }
            },
            Refusal::TooLongForApproval { len, limit_kib } => format!(
                "the call is too long to be shown for approval: it has {len} bytes, the limit is \
                 {limit_kib} KiB\n"
            ),
            Refusal::SignalledBeforeApproval { number } => {
                let name = Signal::from_number(*number);
                let name = name.map_or_else(|| number.to_string(), |signal| signal.to_string());
                format!("signal {name} ended the wait for approval; nothing ran\n")
            }
            Refusal::TooManyUnapproved { limit } => {
                format!("too many calls wait for approval: the limit is {limit}\n")
            }
            Refusal::NotFound => "not found\n".to_owned(),
            Refusal::MethodNotAllowed => "method not allowed\n".to_owned(),
            Refusal::RequestTimeout => "request timeout\n".to_owned(),
            Refusal::ExecIdInUse(id) => format!("exec id '{id}' is in use\n"),
            Refusal::ToolUnavailable { tool, lacking, offered_by } => {
                let flags = join(offered_by, " or ", |kind| format!("--toolchain {kind}"));
                let start = format!("start an appropriate toolchain (e.g., {flags})");
                let kinds = join(lacking, " or ", Kind::to_string);
                let remedy = match (lacking.is_empty(), offered_by.is_empty()) {
                    (true, _) => start,
                    (false, true) => format!("it is not installed in the {kinds} sidecar"),
                    (false, false) => {
                        format!(
                            "it is not installed in the {kinds} sidecar; install it, or {start}"
                        )
                    }
                };
                format!("tool '{tool}' not available in running sidecars; {remedy}\n")
            }
            Refusal::NoImage { tool, cause } => {
                format!("tool '{tool}' not available in running sidecars; {cause}\n")
            }
            Refusal::BodyTooLarge { limit_mib } => {
                format!("request body exceeds {limit_mib} MiB\n")
            }
            // Names only 1 and 2: deployed clients match this text.
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
            Refusal::OutOfMemory { limit_mib } => {
                format!("the waiting requests need more memory than the limit of {limit_mib} MiB\n")
            }
            Refusal::Internal(cause)
            | Refusal::StartFailed { cause, .. }
            | Refusal::EndingUnknown(cause) => format!("aifo-coder mailbox error: {cause}\n"),
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
                    lacking: vec![],
                    offered_by: vec![kind("c-cpp"), kind("rust")],
                },
                409,
                "tool 'make' not available in running sidecars; start an appropriate toolchain \
                (e.g., --toolchain c-cpp or --toolchain rust)\n",
                86,
            ),
            (
                Refusal::ToolUnavailable {
                    tool: tool("make"),
                    lacking: vec![kind("rust"), kind("go")],
                    offered_by: vec![kind("c-cpp")],
                },
                409,
                "tool 'make' not available in running sidecars; it is not installed in the rust or go \
                sidecar; install it, or start an appropriate toolchain (e.g., --toolchain c-cpp)\n",
                86,
            ),
            (
                Refusal::NoImage { tool: tool("go"), cause: "the go sidecar has no image".into() },
                409,
                "tool 'go' not available in running sidecars; the go sidecar has no image\n",
                86,
            ),
            (
                Refusal::ToolUnavailable {
                    tool: tool("bun"),
                    lacking: vec![kind("node")],
                    offered_by: vec![],
                },
                409,
                "tool 'bun' not available in running sidecars; it is not installed in the node \
                sidecar\n",
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
            (
                Refusal::DeniedByRule { rule: "git push".into(), reason: "shared".into() },
                403,
                "denied by rule 'git push': shared\nhint: do not repeat this call; choose another way \
                or report to the user\n",
                86,
            ),
            (
                Refusal::NotApproved {
                    call: "git push".into(),
                    why: "rule 'r'".into(),
                    cause: ApprovalFailure::TurnEnded,
                },
                403,
                "denied by the user: git push (rule 'r')\nhint: end your turn and wait for the user\n",
                86,
            ),
            (
                Refusal::NotApproved {
                    call: "git push".into(),
                    why: "rule 'r'".into(),
                    cause: ApprovalFailure::TimedOut {
                        secs: 300,
                        command: "aifo-coder approve".into(),
                    },
                },
                403,
                "not approved within 300 s: git push (rule 'r')\nhint: an answer by 'aifo-coder \
                approve' within 10 minutes covers one repetition\n",
                86,
            ),
            (
                Refusal::TooLongForApproval { len: 300_000, limit_kib: 256 },
                403,
                "the call is too long to be shown for approval: it has 300000 bytes, the limit is \
                256 KiB\n",
                86,
            ),
            (
                Refusal::SignalledBeforeApproval { number: 2 },
                409,
                "signal INT ended the wait for approval; nothing ran\n",
                130,
            ),
            (
                Refusal::TooManyUnapproved { limit: 64 },
                429,
                "too many calls wait for approval: the limit is 64\n",
                86,
            ),
            (Refusal::HeadTooLarge, 431, "request headers too large\n", 86),
            (
                Refusal::OutOfMemory { limit_mib: 24 },
                503,
                "the waiting requests need more memory than the limit of 24 MiB\n",
                86,
            ),
            (Refusal::Internal("x".into()), 500, "aifo-coder mailbox error: x\n", 86),
            (
                Refusal::StartFailed { cause: "x".into(), exit_code: 127 },
                500,
                "aifo-coder mailbox error: x\n",
                127,
            ),
            (Refusal::EndingUnknown("x".into()), 500, "aifo-coder mailbox error: x\n", 125),
        ];
        for (refusal, status, body, code) in rows {
            assert_eq!(refusal.status().0, status, "{refusal:?}");
            assert_eq!(refusal.body(), body, "{refusal:?}");
            assert_eq!(refusal.exit_code(), code, "{refusal:?}");
        }
    }
}
