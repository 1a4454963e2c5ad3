//! Reasons to forward a variable or not; the texts are those of `spec/environment.md`.

use std::fmt;

/// Why a variable is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassReason {
    /// The user allowed its name or a prefix of it.
    Listed,
    /// Language, character set, formats and time zone.
    Locale,
    /// Width and colours of the output.
    Display,
    /// Continuous integration and other unattended use.
    Automation,
    /// Verbosity and logs.
    Diagnosis,
    /// Settings of a toolchain.
    Toolchain,
    /// Settings of the network.
    Network,
}

/// Why a variable is not forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// Its name is empty.
    NoName,
    /// The sidecar sets its own; the user cannot allow it.
    SidecarOwn,
    /// The configuration denies it.
    Denied,
    /// The configuration sets another value.
    Replaced,
    /// Its name is that of a secret.
    Secret,
    /// Its value contains a user name or password.
    Credentials,
    /// It describes the caller's own session or desktop.
    CallerOwn,
    /// It changes every shell that a tool starts.
    Shell,
    /// It is a path of the caller's installation; the sidecar has its own.
    SidecarPath,
    /// Its value is a path outside the workspace.
    OutsideWorkspace,
    /// It names a descriptor, which the tool does not inherit.
    Descriptor,
    /// No rule allows it.
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
