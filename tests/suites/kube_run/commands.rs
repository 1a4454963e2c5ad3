//! Commands on sessions in a pod (`spec/kubernetes.md#commands`).

use std::fs;

use aifo_tests::{Outcome, Terminal};

use super::Cluster;

impl Cluster {
    fn configure(&self, text: &str) {
        let directory = self.setup.scratch().join("home/.config/aifo");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.toml"), text).unwrap();
    }
}

#[test]
fn a_call_that_waits_names_the_command_that_answers_from_the_users_machine() {
    let cluster = Cluster::with_agent("git version >version && echo made || echo denied");
    cluster.configure("[[rule]]\nrun = \"git version\"\nthen = \"ask\"\nbecause = \"shared\"\n");
    let terminal = Terminal::sized(200, 24);
    let flags = ["--context", "c", "--namespace", "n"];
    let run = terminal.start(&cluster.run(&flags));
    let line = "answer with: aifo-coder approve --backend kubernetes --context c --namespace n ";
    terminal.expect(line);
    let shown = terminal.shown();
    let command = shown.split("answer with: aifo-coder ").nth(1).unwrap();
    let words: Vec<&str> = command.split_whitespace().take(8).collect();
    let answered =
        Outcome::of(&mut cluster.coder(&[&words[..], &["--answer", "q1", "once"]].concat()));
    answered.exited(0);
    terminal.expect("made");
    assert_eq!(run.finish(), Ok(0), "{}", terminal.shown());
    let calls = cluster.read("calls");
    assert!(calls.contains("--context=c --namespace=n exec "), "{calls}");
    assert!(
        !terminal.shown().contains("aifo-coder log"),
        "the pod is deleted: {}",
        terminal.shown()
    );
}
