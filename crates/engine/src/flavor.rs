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
    /// Returns the name of the engine's program.
    pub fn program(self) -> &'static str {
        match self {
            Flavor::Docker => "docker",
            Flavor::Podman => "podman",
        }
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}
