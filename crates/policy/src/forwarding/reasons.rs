//! Why a variable passes, or stays.

use std::fmt;

/// Why a tool gets a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
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
pub enum StayReason {
    /// It has no name.
    NoName,
    /// The sidecar has its own, which no listing changes.
    SidecarOwn,
    /// The configuration denies it.
    Denied,
    /// The configuration sets it to something else.
    Replaced,
    /// Its name is that of a secret.
    Secret,
    /// Its value holds a user's name or password.
    Credentials,
    /// It tells of the caller, not of the work.
    CallerOwn,
    /// It would change every shell a tool starts.
    Shell,
    /// It says where things are, which differs in the sidecar.
    SidecarPath,
    /// Its value leads out of the workspace.
    OutsideWorkspace,
    /// It names a descriptor, which does not go along.
    Descriptor,
    /// No rule passes it.
    Unlisted,
}

impl fmt::Display for PassReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PassReason::Listed => "you list it",
            PassReason::Locale => "locale",
            PassReason::Display => "colour and terminal",
            PassReason::Automation => "automation",
            PassReason::Diagnosis => "diagnosis",
            PassReason::Toolchain => "how a toolchain works",
            PassReason::Network => "how the network is reached",
        })
    }
}

impl fmt::Display for StayReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StayReason::NoName => "it has no name",
            StayReason::SidecarOwn => "the sidecar's own",
            StayReason::Denied => "denied",
            StayReason::Replaced => "set to something else",
            StayReason::Secret => "named like a secret",
            StayReason::Credentials => "holds a login",
            StayReason::CallerOwn => "the caller's own",
            StayReason::Shell => "changes every shell",
            StayReason::SidecarPath => "a place in the sidecar",
            StayReason::OutsideWorkspace => "leads out of the workspace",
            StayReason::Descriptor => "names a descriptor",
            StayReason::Unlisted => "unlisted",
        })
    }
}
