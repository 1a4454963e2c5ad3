//! The session settings for decisions.

use std::path::PathBuf;

/// The session's settings that a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which runtimes may run locally.
    pub smart: SmartToggles,
    /// The workspace root in the agent's view: absolute, possibly a link.
    pub workspace: PathBuf,
    /// A second path of the same directory, which no link connects with the first.
    pub workspace_alias: Option<PathBuf>,
    /// The python that the agent itself runs on: absolute. A relative path is ignored.
    pub local_python: Option<PathBuf>,
    /// Tools that are notifications on the host.
    pub notify_tools: Vec<String>,
}

impl Settings {
    /// Returns the paths of the workspace root.
    pub fn workspace_paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.workspace].into_iter().chain(&self.workspace_alias)
    }
}

/// All toggles off, `/workspace` as the workspace, `say` as the only notification.
impl Default for Settings {
    fn default() -> Self {
        Settings {
            smart: SmartToggles::default(),
            workspace: PathBuf::from("/workspace"),
            workspace_alias: None,
            local_python: None,
            notify_tools: vec!["say".to_owned()],
        }
    }
}

/// The toggles for local runs of programs outside the workspace, one per runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SmartToggles {
    /// For `node`.
    pub node: Toggle,
    /// For `python`, `python3` and every `python3.N`.
    pub python: Toggle,
}

impl SmartToggles {
    /// Combines `AIFO_SHIM_SMART` with the runtimes' toggles, which are ignored if it is off.
    pub fn from_toggles(smart: Toggle, node: Toggle, python: Toggle) -> Self {
        match smart {
            Toggle::On => SmartToggles { node, python },
            Toggle::Off => SmartToggles::default(),
        }
    }
}

/// A setting that is on or off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toggle {
    /// On.
    On,
    /// Off, the default.
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
    fn runtime_toggles_require_smart() {
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
