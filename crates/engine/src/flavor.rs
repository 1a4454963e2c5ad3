//! The supported engines.

use std::fmt;

/// Which engine it is: they share a command line, but not every word of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// `docker`
    Docker,
    /// `podman`
    Podman,
}

impl Flavor {
    /// Its program.
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
