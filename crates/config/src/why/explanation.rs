//! The explanation: the content of `--json` and of the text (`spec/cli.md#why`).

use std::path::PathBuf;

use aifo_types::{Kind, Refusal};
use serde::Serialize;

use crate::Toolchains;

/// How a call would be handled.
#[derive(Debug, Serialize)]
pub struct Explanation {
    pub(crate) tool: String,
    /// Without the tool; invalid UTF-8 is replaced.
    pub(crate) args: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) workspace: PathBuf,
    /// Where the call would go.
    pub(crate) mode: Mode,
    /// The reason's word of `spec/decide.md#reasons`, or `no-shim`.
    pub(crate) reason: String,
    /// The reason in a sentence.
    pub(crate) because: String,
    /// The runtime's toggle, if it mattered.
    pub(crate) smart: Option<bool>,
    /// The program that would run; `None` if nothing.
    pub(crate) executable: Option<PathBuf>,
    /// The toolchains considered, for a call that goes to the proxy.
    pub(crate) route: Option<Route>,
    /// The directory the tool would start in.
    pub(crate) directory: Option<PathBuf>,
    /// The verdict of the rules on arguments.
    pub(crate) verdict: &'static str,
    /// The rule that decided.
    pub(crate) decided_by: Option<DecidedBy>,
    /// The calls that the rules have judged, in normal form; several of a shell's command.
    pub(crate) calls: Vec<String>,
    /// Whether a part of the call is known only when it runs.
    pub(crate) unclear: bool,
    /// The rule by which the call runs without network.
    pub(crate) no_network: Option<String>,
    /// Why nothing would run.
    pub(crate) refusal: Option<Refused>,
    /// Which environment the tool would have.
    pub(crate) environment: &'static str,
    /// The variables that pass or are set; only for a call that goes to a sidecar.
    pub(crate) variables: Option<Vec<Variable>>,
    /// The confinement of a sidecar's tools.
    pub(crate) confinement: Option<String>,
    /// The network of a sidecar container, and the file, variable or flag that sets it.
    pub(crate) network: Option<String>,
    /// The tool's time limit in seconds; `None` for no limit.
    pub(crate) max_secs: Option<u64>,
}

/// A rule on arguments.
#[derive(Debug, Serialize)]
pub(crate) struct DecidedBy {
    /// The rule's source.
    pub(crate) rule: String,
    pub(crate) reason: String,
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    /// To a sidecar.
    Proxy,
    /// To a runtime in the agent environment.
    Local,
    /// To a notification command on the user's machine.
    Notify,
    /// Next to the agent, once it is judged.
    InPlace,
    /// Not through a shim: none has this name.
    Direct,
}

/// The proxy's search for a sidecar.
#[derive(Debug, Serialize)]
pub(crate) struct Route {
    /// The session toolchains.
    pub(crate) toolchains: Vec<String>,
    /// The same in words.
    #[serde(skip)]
    pub(crate) sidecars: String,
    /// Those whose sidecar starts with the first call.
    pub(crate) on_demand: Vec<String>,
    /// The kinds searched, in order: the last one has the tool, or none has.
    pub(crate) tried: Vec<Tried>,
    /// The kind that would run it.
    pub(crate) kind: Option<String>,
    /// The routing rule.
    pub(crate) rule: Option<&'static str>,
}

/// A toolchain that may run the tool.
#[derive(Debug, Serialize)]
pub(crate) struct Tried {
    pub(crate) kind: String,
    pub(crate) rule: &'static str,
    /// The tool path; `None` if it is not installed.
    pub(crate) installed: Option<PathBuf>,
}

/// A variable of this environment, or one that the session sets. Values are never printed.
#[derive(Debug, Serialize)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) fate: Fate,
    /// Why, in a few words.
    pub(crate) reason: String,
    /// How to make a withheld variable pass, if possible.
    pub(crate) remedy: Option<String>,
}

/// How a variable is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fate {
    Passes,
    Stays,
    /// Set by the session.
    Set,
}

/// Why nothing would run, and the remedy.
#[derive(Debug, Serialize)]
pub(crate) struct Refused {
    /// The proxy's status; `None` if the call would not reach it.
    pub(crate) status: Option<u16>,
    pub(crate) exit_code: u8,
    pub(crate) text: String,
    pub(crate) remedy: String,
}

impl Refused {
    /// The proxy's refusal.
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
        let on_demand = offered.on_demand.iter().map(Kind::to_string).collect();
        let sidecars = offered.text();
        Route { toolchains, sidecars, on_demand, tried: Vec::new(), kind: None, rule: None }
    }
}
