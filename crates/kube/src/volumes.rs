//! The volumes of a pod, and their mounts.

use crate::session_pod::{SessionPod, WorkspaceSource};
use crate::yaml::{Entry, Node, map};

/// The volumes of a pod, in the order of their first mount. All but a claim are `emptyDir`.
pub(crate) struct Volumes<'a> {
    pod: &'a SessionPod,
    names: Vec<String>,
}

/// Selects whether a container can write to a volume.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

/// The path of the workspace in all containers.
pub(crate) const WORKSPACE_PATH: &str = "/workspace";
/// The workspace volume.
const WORKSPACE: &str = "workspace";

impl<'a> Volumes<'a> {
    pub(crate) fn new(pod: &'a SessionPod) -> Self {
        Volumes { pod, names: Vec::new() }
    }

    /// Returns the mount of a volume at a path.
    pub(crate) fn mount(&mut self, volume: &str, path: &str, access: Access) -> Node {
        if !self.names.iter().any(|known| known == volume) {
            self.names.push(volume.to_owned());
        }
        let read_only = (access == Access::Read).then(|| Entry::new("readOnly", true));
        let entries = [Entry::new("name", self.name(volume)), Entry::new("mountPath", path)];
        map(entries.into_iter().chain(read_only))
    }

    /// Returns the mount of the workspace.
    pub(crate) fn workspace(&mut self, access: Access) -> Node {
        self.mount(WORKSPACE, WORKSPACE_PATH, access)
    }

    /// Returns all volumes that were mounted.
    pub(crate) fn into_nodes(self) -> Vec<Node> {
        let volume = |name: &String| {
            let source = match &self.pod.workspace {
                WorkspaceSource::Claim(claim) if name == WORKSPACE => Entry::new(
                    "persistentVolumeClaim",
                    map([Entry::new("claimName", claim.as_str())]),
                ),
                _ => Entry::new("emptyDir", map([])),
            };
            map([Entry::new("name", self.name(name)), source])
        };
        self.names.iter().map(volume).collect()
    }

    /// Podman makes a volume of this name, outside of the pod.
    fn name(&self, volume: &str) -> String {
        format!("aifo-{}-{volume}", self.pod.session)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.names.iter().map(|volume| self.name(volume))
    }
}
