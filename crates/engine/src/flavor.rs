//! The supported engines.

use std::fmt;

/// A supported engine. Their command lines differ in some options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// `docker`
    Docker,
    /// `podman`
    Podman,
}

impl Flavor {
    /// Returns the name of the engine program.
    pub fn program(self) -> &'static str {
        match self {
            Flavor::Docker => "docker",
            Flavor::Podman => "podman",
        }
    }

    /// Returns the option of `aifo-coder images build` for this engine, with a space: empty for the one
    /// that is tried first.
    pub fn build_option(self) -> &'static str {
        match self {
            Flavor::Docker => "",
            Flavor::Podman => "--engine podman ",
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}
