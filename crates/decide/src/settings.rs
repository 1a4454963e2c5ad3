//! What the launcher told the shim about deciding.

use std::path::PathBuf;

/// The settings of a session that a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which runtimes may run locally.
    pub smart: SmartToggles,
    /// The workspace root as the agent sees it: absolute, and a link if need be.
    pub workspace: PathBuf,
    /// The python that the agent itself runs on: absolute. A relative path is never used.
    pub local_python: Option<PathBuf>,
    /// Tools that are notifications on the user's machine.
    pub notify_tools: Vec<String>,
}

/// Nothing is smart, the workspace is `/workspace`, and `say` notifies.
impl Default for Settings {
    fn default() -> Self {
        Settings {
            smart: SmartToggles::default(),
            workspace: PathBuf::from("/workspace"),
            local_python: None,
            notify_tools: vec!["say".to_owned()],
        }
    }
}

/// For each runtime, whether programs from outside the workspace run on the local one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmartToggles {
    /// For `node`.
    pub node: Toggle,
    /// For `python`, `python3` and every `python3.N`.
    pub python: Toggle,
}

impl SmartToggles {
    /// From `AIFO_SHIM_SMART` and the toggle of each runtime, which count only if the first is on.
    pub fn from_toggles(smart: Toggle, node: Toggle, python: Toggle) -> Self {
        match smart {
            Toggle::On => SmartToggles { node, python },
            Toggle::Off => SmartToggles::default(),
        }
    }
}

/// Something a user switches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toggle {
    /// It is on.
    On,
    /// It is off, as everything is that nobody switched on.
    #[default]
    Off,
}

/// `true` is [`Toggle::On`].
impl From<bool> for Toggle {
    fn from(on: bool) -> Self {
        if on { Toggle::On } else { Toggle::Off }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Toggle::{Off, On};

    #[test]
    fn a_runtime_s_toggle_counts_only_when_smart_is_on() {
        let rows = [
            ((On, On, Off), (On, Off)),
            ((On, Off, On), (Off, On)),
            ((On, On, On), (On, On)),
            ((Off, On, On), (Off, Off)),
            ((Off, Off, Off), (Off, Off)),
        ];
        for ((smart, node, python), (of_node, of_python)) in rows {
            let expected = SmartToggles { node: of_node, python: of_python };
            assert_eq!(SmartToggles::from_toggles(smart, node, python), expected);
        }
    }
}
