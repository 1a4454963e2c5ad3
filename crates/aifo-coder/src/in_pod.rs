//! Commands on the session of a pod, as they run in the pod (`spec/kubernetes.md#commands`).

use std::ffi::OsString;

use aifo_agents::known_agents;
use aifo_host::short;
use aifo_kube::PodObject;
use aifo_kube::client::{Cluster, InPod, Input};
use aifo_terminal::console;

use crate::cli;

/// Returns the words of switches that are on, then the others.
fn words(command: &str, switches: &[(&str, bool)], rest: &[&str]) -> Vec<OsString> {
    let on = switches.iter().filter(|(_, is_on)| *is_on).map(|(name, _)| *name);
    [command].into_iter().chain(on).chain(rest.iter().copied()).map(OsString::from).collect()
}

impl InPod for cli::Detach {
    fn session(&self) -> Option<&str> {
        self.of.session.as_deref()
    }

    fn words(&self, id: &str, _: &PodObject) -> Vec<OsString> {
        words("detach", &[], &[id])
    }

    fn input(&self) -> Input {
        Input::None
    }

    fn report(&self, cluster: &Cluster, id: &str) -> Option<String> {
        let (id, options) = (short(id), cluster.options());
        Some(format!("session {id} continues; return with: aifo-coder attach{options} {id}"))
    }
}

impl InPod for cli::Stop {
    fn session(&self) -> Option<&str> {
        self.of.session.as_deref()
    }

    fn words(&self, id: &str, _: &PodObject) -> Vec<OsString> {
        words("stop", &[], &[id])
    }

    fn input(&self) -> Input {
        Input::None
    }
}

impl InPod for cli::Log {
    fn session(&self) -> Option<&str> {
        self.of.session.as_deref()
    }

    fn words(&self, id: &str, _: &PodObject) -> Vec<OsString> {
        let switches = [
            ("--follow", self.follow),
            ("--all", self.all),
            ("--failed", self.failed),
            ("--net", self.net),
            ("--json", self.json),
        ];
        words("log", &switches, &[id])
    }

    fn input(&self) -> Input {
        Input::None
    }
}

impl InPod for cli::Approve {
    fn session(&self) -> Option<&str> {
        self.of.session.as_deref()
    }

    fn words(&self, id: &str, _: &PodObject) -> Vec<OsString> {
        let answer: Vec<&str> = match self.answer.as_slice() {
            [question, answer] => vec!["--answer", question, answer],
            _ => Vec::new(),
        };
        words("approve", &[("--watch", self.watch)], &[&answer[..], &[id]].concat())
    }

    fn input(&self) -> Input {
        match console::is_on_terminal() {
            true if self.answer.is_empty() => Input::Terminal,
            _ => Input::None,
        }
    }
}

impl InPod for cli::Exec {
    fn session(&self) -> Option<&str> {
        self.running.as_deref()
    }

    fn words(&self, id: &str, _: &PodObject) -> Vec<OsString> {
        let mut words = words("exec", &[], &["--session", id, "--"]);
        words.extend(self.call.words.iter().cloned());
        words
    }

    fn input(&self) -> Input {
        Input::Stdin
    }
}

impl InPod for cli::Why {
    fn session(&self) -> Option<&str> {
        self.session.as_deref()
    }

    fn words(&self, _: &str, pod: &PodObject) -> Vec<OsString> {
        let mut words = words("why", &[("--json", self.json)], &["--workspace", WORKSPACE]);
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        let cwd = self.cwd.clone().map_or_else(|| WORKSPACE.into(), OsString::from);
        option("--cwd", cwd);
        let kinds = pod.kinds().join(",");
        if !kinds.is_empty() {
            option("--toolchain", kinds.into());
        }
        let is_known = known_agents().iter().any(|agent| agent.name == pod.agent());
        let own = is_known.then(|| pod.agent().to_owned());
        if let Some(agent) = self.agent.clone().or(own) {
            option("--agent", agent.into());
        }
        words.push("--".into());
        words.extend(self.words.iter().cloned());
        words
    }

    fn input(&self) -> Input {
        Input::None
    }
}

/// The workspace in a pod.
const WORKSPACE: &str = "/workspace";
