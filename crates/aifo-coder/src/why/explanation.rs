//! The answer: what `--json` prints, and what the words are made of (`spec/cli.md#why`).

use std::path::PathBuf;

use aifo_types::{Kind, Refusal};
use serde::Serialize;

use crate::config::{StartMode, Toolchains};

/// What would become of a call.
#[derive(Debug, Serialize)]
pub(crate) struct Explanation {
    pub(crate) tool: String,
    /// Without the tool; what is not text is shown as far as it is.
    pub(crate) args: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) workspace: PathBuf,
    /// Where the call would go.
    pub(crate) mode: Mode,
    /// Why there: the word of `spec/decide.md#reasons`, or `no-shim`.
    pub(crate) reason: String,
    /// The same in a sentence.
    pub(crate) because: String,
    /// Where a runtime's toggle mattered: whether it is on.
    pub(crate) smart: Option<bool>,
    /// What would be executed; `None` if nothing.
    pub(crate) executable: Option<PathBuf>,
    /// The toolchains that were looked at, for a call that goes to the proxy.
    pub(crate) route: Option<Route>,
    /// The directory the tool would start in.
    pub(crate) directory: Option<PathBuf>,
    /// Why nothing would run.
    pub(crate) refusal: Option<Refused>,
    /// Which environment the tool would have.
    pub(crate) environment: &'static str,
    /// What passes of this environment and what is set, by name; only for a call that goes to a
    /// sidecar.
    pub(crate) variables: Option<Vec<Variable>>,
    /// What keeps a tool of a sidecar in its place.
    pub(crate) confinement: Option<&'static str>,
    /// The tool's time limit; `None`: none.
    pub(crate) max_secs: Option<u64>,
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// To a sidecar.
    Proxy,
    /// To a runtime in the agent's own place.
    Local,
    /// To a command of the user's, as a notification.
    Notify,
    /// Past us: no shim has this name.
    Direct,
}

/// How the proxy looks for a sidecar.
#[derive(Debug, Serialize)]
pub(crate) struct Route {
    /// The session's toolchains.
    pub(crate) toolchains: Vec<String>,
    /// Whether none of them runs before it is needed.
    pub(crate) on_demand: bool,
    /// Those that are asked, in this order: the last has the tool, or none has it.
    pub(crate) tried: Vec<Tried>,
    /// The one that would run it.
    pub(crate) kind: Option<String>,
    /// By which rule.
    pub(crate) rule: Option<&'static str>,
}

/// A toolchain that may run the tool.
#[derive(Debug, Serialize)]
pub(crate) struct Tried {
    pub(crate) kind: String,
    pub(crate) rule: &'static str,
    /// Where it has the tool; `None`: it is not installed there.
    pub(crate) installed: Option<PathBuf>,
}

/// A variable of this environment, or one that the session sets. Its value is nobody's to print.
#[derive(Debug, Serialize)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) fate: Fate,
    /// Why, in a few words.
    pub(crate) reason: String,
    /// What would make one pass that stays, if anything does.
    pub(crate) remedy: Option<String>,
}

/// What becomes of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fate {
    Passes,
    Stays,
    /// The tool gets the session's.
    Set,
}

/// Why nothing would run, and what to do about it.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    /// The proxy's answer; `None` if it would not even be asked.
    pub(crate) status: Option<u16>,
    pub(crate) exit_code: u8,
    pub(crate) text: String,
    pub(crate) remedy: String,
}

impl Refused {
    /// What the proxy would say.
    pub(crate) fn by_proxy(refusal: &Refusal, remedy: impl Into<String>) -> Self {
        Refused {
            status: Some(refusal.status().0),
            exit_code: refusal.exit_code(),
            text: refusal.body().trim_end().to_owned(),
            remedy: remedy.into(),
        }
    }
}

impl Route {
    pub(crate) fn among(offered: &Toolchains) -> Self {
        let toolchains = offered.kinds().iter().map(Kind::to_string).collect();
        let on_demand = offered.start_mode == StartMode::OnDemand;
        Route { toolchains, on_demand, tried: Vec::new(), kind: None, rule: None }
    }
}
