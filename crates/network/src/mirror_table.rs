//! Which ports of network stacks are mirrored into which others (`spec/network.md#mirrors`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aifo_sidecar::AGENT_STACK;
use aifo_wire::Listener;

/// Mirrors in one stack.
pub(crate) const MAX_MIRRORS: usize = 64;

/// Inodes of closed mirrors that a late report may still have.
const MAX_INODES: usize = 1024;

/// The listeners and mirrors of a session's stacks. It opens no socket.
#[derive(Debug, Default)]
pub(crate) struct MirrorTable {
    stacks: BTreeMap<String, Stack>,
}

#[derive(Debug, Default)]
struct Stack {
    /// Ports of rules and of this machine, which are never mirrored.
    reserved: BTreeSet<u16>,
    /// The last report.
    listeners: Vec<Listener>,
    /// The inodes of the mirrors' own listeners.
    inodes: VecDeque<u32>,
    /// The mirrors, bound or about to be.
    mirrors: BTreeMap<u16, Source>,
    /// The mirrors that could not be bound; tried again with another listener.
    failed: BTreeMap<u16, Source>,
}

/// The mirrored listeners.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    stack: String,
    inodes: Vec<u32>,
}

/// Changes to the mirrors of a stack.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The ports whose mirrors end.
    pub(crate) ended: Vec<u16>,
    /// New mirrors: the port, and the stack that listens on it.
    pub(crate) begun: Vec<(u16, String)>,
    /// The ports that another listener of the stack has.
    pub(crate) taken: Vec<u16>,
    /// Mirrors beyond the limit.
    pub(crate) omitted: usize,
}

impl MirrorTable {
    /// Adds a stack, in place of a lost one of this name.
    pub(crate) fn add(&mut self, name: &str, reserved: BTreeSet<u16>) {
        self.stacks.insert(name.to_owned(), Stack { reserved, ..Stack::default() });
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.stacks.remove(name);
    }

    /// Records what listens in a stack. Returns whether that is news.
    pub(crate) fn report(&mut self, name: &str, listeners: Vec<Listener>) -> bool {
        self.stacks.get_mut(name).is_some_and(|stack| {
            let is_new = stack.listeners != listeners;
            stack.listeners = listeners;
            is_new
        })
    }

    /// Records the inode of a mirror's listener, so that it is not mirrored itself.
    pub(crate) fn bound(&mut self, name: &str, inode: u32) {
        if let Some(stack) = self.stacks.get_mut(name) {
            stack.inodes.push_back(inode);
            if stack.inodes.len() > MAX_INODES {
                stack.inodes.pop_front();
            }
        }
    }

    /// Records that a mirror could not be bound.
    pub(crate) fn failed(&mut self, name: &str, port: u16) {
        if let Some(stack) = self.stacks.get_mut(name)
            && let Some(source) = stack.mirrors.remove(&port)
        {
            stack.failed.insert(port, source);
        }
    }

    /// Returns the ports on which a stack's own processes listen.
    pub(crate) fn own_ports(&self, name: &str) -> BTreeSet<u16> {
        let stack = self.stacks.get(name);
        stack.map(|stack| stack.own().into_keys().collect()).unwrap_or_default()
    }

    /// Returns the stacks of tools, first those in which a port is listened on.
    pub(crate) fn servers_of(&self, port: u16) -> Vec<String> {
        let tools = self.stacks.iter().filter(|(name, _)| *name != AGENT_STACK);
        let (mut listening, others): (Vec<_>, Vec<_>) =
            tools.partition(|(_, stack)| stack.own().contains_key(&port));
        listening.extend(others);
        listening.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// Updates the mirrors of a stack and returns the changes, which the caller carries out.
    pub(crate) fn update(&mut self, name: &str) -> Changes {
        let wanted = self.wanted(name);
        let mut changes = Changes::default();
        let Some(stack) = self.stacks.get_mut(name) else { return changes };
        let own = stack.own();
        stack.mirrors.retain(|port, source| {
            let same_stack = |wanted: &&Source| wanted.stack == source.stack;
            match wanted.get(port).and_then(|sources| sources.iter().find(same_stack)) {
                // A server that was restarted has another inode.
                Some(current) => source.clone_from(current),
                None => changes.ended.push(*port),
            }
            changes.ended.last() != Some(port)
        });
        stack.failed.retain(|port, source| {
            wanted.get(port).is_some_and(|sources| sources.contains(source))
        });
        for (port, sources) in wanted {
            // The first stack in alphabetical order, unless another one was mirrored before.
            let Some(source) = sources.into_iter().next() else { continue };
            if stack.mirrors.contains_key(&port) || stack.failed.contains_key(&port) {
                continue;
            }
            if own.contains_key(&port) {
                changes.taken.push(port);
            } else if stack.mirrors.len() >= MAX_MIRRORS {
                changes.omitted = changes.omitted.saturating_add(1);
            } else {
                changes.begun.push((port, source.stack.clone()));
                stack.mirrors.insert(port, source);
            }
        }
        changes
    }

    /// Returns the listeners of the other stacks of tools by port.
    fn wanted(&self, target: &str) -> BTreeMap<u16, Vec<Source>> {
        let mut wanted: BTreeMap<u16, Vec<Source>> = BTreeMap::new();
        let Some(own) = self.stacks.get(target) else { return wanted };
        // The agent's own listeners are not for tools.
        let others = |name: &&String| *name != target && *name != AGENT_STACK;
        for (name, stack) in self.stacks.iter().filter(|(name, _)| others(name)) {
            for (port, inodes) in stack.own() {
                if !own.reserved.contains(&port) {
                    let source = Source { stack: name.clone(), inodes };
                    wanted.entry(port).or_default().push(source);
                }
            }
        }
        wanted
    }
}

impl Stack {
    /// Returns the listeners of the stack's own processes by port. A port with a mirror has none, or two
    /// stacks could mirror each other.
    fn own(&self) -> BTreeMap<u16, Vec<u32>> {
        let mut own: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for Listener { port, inode } in &self.listeners {
            let is_mirror = self.mirrors.contains_key(port) || self.inodes.contains(inode);
            if !is_mirror && !self.reserved.contains(port) {
                own.entry(*port).or_default().push(*inode);
            }
        }
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: &str = "tools";
    const NODE: &str = "tools:node";

    fn listening(of: &[(u16, u32)]) -> Vec<Listener> {
        of.iter().map(|(port, inode)| Listener { port: *port, inode: *inode }).collect()
    }

    /// The agent stack and two of tools, in which ports 53 and 443 are reserved.
    fn table() -> MirrorTable {
        let mut table = MirrorTable::default();
        for name in [AGENT_STACK, TOOLS, NODE] {
            table.add(name, BTreeSet::from([53, 443]));
        }
        table
    }

    #[test]
    fn a_tools_listener_is_mirrored_into_all_other_stacks() {
        let mut table = table();
        assert!(table.report(TOOLS, listening(&[(53, 1), (443, 2), (3000, 3)])));
        for target in [AGENT_STACK, NODE] {
            let begun = vec![(3000, TOOLS.to_owned())];
            assert_eq!(table.update(target), Changes { begun, ..Changes::default() });
            assert_eq!(table.update(target), Changes::default());
        }
        assert_eq!(table.update(TOOLS), Changes::default());
        assert!(table.report(TOOLS, listening(&[(53, 1), (443, 2)])));
        let ended = Changes { ended: vec![3000], ..Changes::default() };
        assert_eq!(table.update(AGENT_STACK), ended);
    }

    #[test]
    fn a_mirror_is_not_mirrored() {
        let mut table = table();
        table.report(TOOLS, listening(&[(3000, 3)]));
        assert_eq!(table.update(NODE).begun.len(), 1);
        // Reported before the launcher has the listener, and afterwards.
        table.report(NODE, listening(&[(3000, 4)]));
        assert_eq!(table.update(TOOLS), Changes::default());
        table.bound(NODE, 4);
        assert_eq!(table.update(TOOLS), Changes::default());
        // The server has ended; the last report still has the mirror.
        table.report(TOOLS, Vec::new());
        assert_eq!(table.update(NODE).ended, [3000]);
        assert_eq!(table.update(TOOLS), Changes::default());
        assert_eq!(table.update(AGENT_STACK), Changes::default());
    }

    #[test]
    fn two_stacks_never_mirror_each_other() {
        let mut table = table();
        // At ::1 in one stack, at 127.0.0.1 in the other: both ports could be bound.
        table.report(TOOLS, listening(&[(3000, 3)]));
        assert_eq!(table.update(NODE).begun.len(), 1);
        table.bound(NODE, 4);
        table.report(NODE, listening(&[(3000, 4), (3000, 5)]));
        assert_eq!(table.update(TOOLS), Changes::default());
    }

    #[test]
    fn a_restarted_server_keeps_its_mirror() {
        let mut table = table();
        table.report(TOOLS, listening(&[(3000, 3)]));
        assert_eq!(table.update(AGENT_STACK).begun.len(), 1);
        table.report(TOOLS, listening(&[(3000, 4)]));
        assert_eq!(table.update(AGENT_STACK), Changes::default());
    }

    #[test]
    fn a_taken_port_is_tried_again_with_another_listener() {
        let mut table = table();
        table.report(TOOLS, listening(&[(3000, 3)]));
        table.report(NODE, listening(&[(3000, 4)]));
        assert_eq!(table.update(NODE).taken, [3000]);
        // The first in order; the agent's own listener is not known yet.
        assert_eq!(table.update(AGENT_STACK).begun, [(3000, TOOLS.to_owned())]);
        table.failed(AGENT_STACK, 3000);
        assert_eq!(table.update(AGENT_STACK), Changes::default());
        table.report(TOOLS, listening(&[(3000, 5)]));
        assert_eq!(table.update(AGENT_STACK).begun, [(3000, TOOLS.to_owned())]);
    }

    #[test]
    fn the_agents_listeners_stay_its_own() {
        let mut table = table();
        table.report(AGENT_STACK, listening(&[(4096, 3)]));
        assert_eq!(table.update(TOOLS), Changes::default());
        assert_eq!(table.own_ports(AGENT_STACK), BTreeSet::from([4096]));
    }

    #[test]
    fn a_lost_stack_has_no_mirror() {
        let mut table = table();
        table.report(TOOLS, listening(&[(3000, 3), (3001, 4)]));
        assert_eq!(table.update(AGENT_STACK).begun.len(), 2);
        table.remove(TOOLS);
        assert_eq!(table.update(AGENT_STACK).ended, [3000, 3001]);
        assert!(!table.report(TOOLS, listening(&[(3000, 3)])), "of a stack that is gone");
    }

    #[test]
    fn the_number_of_mirrors_is_limited() {
        let mut table = table();
        let many: Vec<_> = (0..100u16).map(|at| (3000 + at, u32::from(at))).collect();
        table.report(TOOLS, listening(&many));
        let changes = table.update(AGENT_STACK);
        assert_eq!((changes.begun.len(), changes.omitted), (MAX_MIRRORS, 100 - MAX_MIRRORS));
    }

    #[test]
    fn a_port_is_served_where_a_tool_listens_on_it() {
        let mut table = table();
        assert_eq!(table.servers_of(3000), [TOOLS, NODE]);
        table.report(NODE, listening(&[(3000, 3)]));
        assert_eq!(table.servers_of(3000), [NODE, TOOLS]);
    }
}
