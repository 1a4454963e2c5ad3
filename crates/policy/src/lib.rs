//! Policy of a session: allowlists, routes, variables, notifications and permissions.
//!
//! In scope: the table of kinds and tools, the order in which sidecars are tried, lexical checks of
//! the working directory, forwarding of the caller variables, redaction of logged arguments, and
//! the rules for an agent's permission requests.
//!
//! Out of scope: which sidecars run (an argument), whether a tool is installed (the runner checks),
//! and symbolic links (the runner resolves them).
//!
//! ```
//! use aifo_policy::Policy;
//! use aifo_types::{Kind, ToolName};
//!
//! let running = [Kind::parse("rust").unwrap(), Kind::parse("c-cpp").unwrap()];
//! let make = ToolName::parse(b"make").unwrap();
//! let policy = Policy::builtin();
//! let routes = policy.route(&make, &running).unwrap();
//! let kinds: Vec<_> = routes.iter().map(|route| route.kind.as_str()).collect();
//! assert_eq!(kinds, ["c-cpp", "rust"], "tried in this order");
//! let ls = ToolName::parse(b"ls").unwrap();
//! assert_eq!(policy.route(&ls, &running).unwrap_err().status().0, 403);
//! ```
//!
//! Architecture invariant: every function is pure. `policy` treats containers and local sidecars
//! alike, and no request changes its state.

mod approvals;
mod asked_call;
mod directory;
mod forwarding;
mod host_commands;
mod judge;
mod kinds;
mod notify;
mod policy;
mod project_names;
mod question;
mod redact;
mod route;

pub use approvals::{Answer, Approvals, AskOutcome, QuestionNumber, RETRY_PERIOD};
pub use asked_call::{AskedCall, CallFiles, FORGE, PUSH, Script};
pub use directory::{asks_only_for_version, normalise};
pub use forwarding::{ForwardDecision, Forwarding, InvalidVariable, PassReason, StayReason};
pub use host_commands::{HostCommand, HostCommands};
pub use judge::{
    AccessRequest, CallNetwork, Examples, Explained, FILE_KINDS, InvalidJudgeRule, Judge,
    JudgedCall, JudgedUpdate, Judgement, PushChange, RequestedCommand, RuleDoubt, RuleOrigin,
    RuleText, Run, RunWord, Verdict, covers_commands, default_rules, example_call,
    is_judged_variable, request_words, rule_doubts, scripts, with_variables,
};
pub use kinds::{
    DEV_TOOLS, INTERPRETER_DIRECTORIES, KindCache, KindSpec, KindVolume, VersionFormat, kind_spec,
    kinds,
};
pub use notify::{CallerOptions, Executables, Notification, NotifyEnvironment, NotifyRules};
pub use policy::{Allowance, KindPolicy, Policy};
pub use project_names::{ManifestParts, ProjectNames};
pub use question::{
    AnswerEffect, AnswerError, Question, QuestionOption, QuestionState, QuestionSubject, Questions,
};
pub use redact::redact;
pub use route::{Route, RouteReason, running_first};
