//! Why a variable passes, or stays.

use std::fmt;

/// Why a tool gets a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// The user listed its name, or the beginning of it.
    Listed,
    /// Language, character set, formats and time zone of the caller.
    Locale,
    /// How wide, and in which colours.
    Display,
    /// Whether a machine works here.
    Automation,
    /// How much is told.
    Diagnosis,
    /// How a toolchain works.
    Toolchain,
    /// How the network is reached.
    Network,
}

/// Why a tool does not get a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staying {
    /// It has no name.
    Nameless,
    /// The sidecar has its own, which no listing changes.
    Sidecars,
    /// The configuration denies it.
    Denied,
    /// The configuration sets it to something else.
    Replaced,
    /// Its name is that of a secret.
    Secret,
    /// Its value holds a user's name or password.
    Login,
    /// It tells of the caller, not of the work.
    Callers,
    /// It would change every shell a tool starts.
    Shell,
    /// It says where things are, which differs in the sidecar.
    Place,
    /// Its value leads out of the workspace.
    Elsewhere,
    /// It names a descriptor, which does not go along.
    Descriptor,
    /// No rule passes it.
    Unlisted,
}

impl fmt::Display for Passing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Passing::Listed => "you list it",
            Passing::Locale => "locale",
            Passing::Display => "colour and terminal",
            Passing::Automation => "automation",
            Passing::Diagnosis => "diagnosis",
            Passing::Toolchain => "how a toolchain works",
            Passing::Network => "how the network is reached",
        })
    }
}

impl fmt::Display for Staying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Staying::Nameless => "it has no name",
            Staying::Sidecars => "the sidecar's own",
            Staying::Denied => "denied",
            Staying::Replaced => "set to something else",
            Staying::Secret => "named like a secret",
            Staying::Login => "holds a login",
            Staying::Callers => "the caller's own",
            Staying::Shell => "changes every shell",
            Staying::Place => "a place in the sidecar",
            Staying::Elsewhere => "leads out of the workspace",
            Staying::Descriptor => "names a descriptor",
            Staying::Unlisted => "unlisted",
        })
    }
}
