//! The runtimes whose calls can run locally.

use crate::entry_point::EntryPoint;
use crate::settings::{SmartToggles, Toggle};
use crate::{node, python};

/// A runtime, by the tool name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime<'a> {
    /// `node`
    Node,
    /// `python` or `python3`: any python 3.
    Python,
    /// `python3.N`: exactly this version.
    VersionedPython(&'a str),
}

impl<'a> Runtime<'a> {
    /// Returns the runtime with this name.
    pub(crate) fn from_name(tool: &'a [u8]) -> Option<Self> {
        match std::str::from_utf8(tool).ok()? {
            "node" => Some(Runtime::Node),
            "python" | "python3" => Some(Runtime::Python),
            name => {
                let minor = name.strip_prefix("python3.")?;
                let is_number = !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit());
                is_number.then_some(Runtime::VersionedPython(name))
            }
        }
    }

    /// Returns the name of the installed executable.
    pub(crate) fn name(self) -> &'a str {
        match self {
            Runtime::Node => "node",
            Runtime::Python => "python3",
            Runtime::VersionedPython(name) => name,
        }
    }

    /// Returns the toggle for this runtime.
    pub(crate) fn toggle(self, smart: SmartToggles) -> Toggle {
        match self {
            Runtime::Node => smart.node,
            Runtime::Python | Runtime::VersionedPython(_) => smart.python,
        }
    }

    /// Returns the variable that sets the toggle.
    pub(crate) fn toggle_name(self) -> &'static str {
        match self {
            Runtime::Node => "AIFO_SHIM_SMART_NODE",
            Runtime::Python | Runtime::VersionedPython(_) => "AIFO_SHIM_SMART_PYTHON",
        }
    }

    /// Returns the entry point that `args` name.
    pub(crate) fn entry_point<'b>(self, args: &'b [Vec<u8>]) -> EntryPoint<'b> {
        match self {
            Runtime::Node => node::entry_point(args),
            Runtime::Python | Runtime::VersionedPython(_) => python::entry_point(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let rows = [
            ("node", Some(Runtime::Node)),
            ("python", Some(Runtime::Python)),
            ("python3", Some(Runtime::Python)),
            ("python3.12", Some(Runtime::VersionedPython("python3.12"))),
            ("python3.", None),
            ("python3.x", None),
            ("python3.12-config", None),
            ("python2", None),
            ("Node", None),
            ("nodejs", None),
            ("pip3", None),
            ("", None),
        ];
        for (name, runtime) in rows {
            assert_eq!(Runtime::from_name(name.as_bytes()), runtime, "{name}");
        }
        assert_eq!(Runtime::from_name(b"node\xff"), None);
    }
}
