//! Faults of sessions in a cluster: each has a clear message, and leaves nothing
//! (`spec/kubernetes.md#in-other-clusters`).

use aifo_tests::{
    ApiRelay, Outcome, PodCluster, Signal, Terminal, eventually, eventually_within, send_signal,
    skipped,
};

/// An object of the namespace that is deleted on drop.
struct Object<'a> {
    cluster: &'a PodCluster,
    name: &'static str,
}

impl<'a> Object<'a> {
    /// Creates it, and waits until it is in force. `None` if the user may not.
    fn create(cluster: &'a PodCluster, name: &'static str, manifest: &str) -> Option<Self> {
        let created = cluster.kubectl(&["create", "--filename=-"], manifest);
        (created.code() == Some(0)).then_some(Object { cluster, name })
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        self.cluster.kubectl(&["delete", self.name, "--ignore-not-found"], "");
    }
}

fn quota(hard: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: aifo-test}}\nspec: {{hard: {{{hard}}}}}\n"
    )
}

const RANGE: &str = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: aifo-test}\n\
                     spec: {limits: [{type: Container, max: {memory: 300Mi}}]}\n";

/// Starts a session that is not admitted, and returns its error.
#[track_caller]
fn refused(cluster: &PodCluster, flags: &[&str]) -> String {
    let mut text = String::new();
    // A new quota is in force when its controller has seen it.
    eventually("the session is not admitted", || {
        let outcome = Outcome::of(&mut cluster.run(flags, "true"));
        text = outcome.stderr.clone();
        outcome.code() != Some(0)
    });
    text
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn a_session_that_the_namespace_does_not_admit_names_the_remedy() {
    let name = "a_session_that_the_namespace_does_not_admit_names_the_remedy";
    let Some(cluster) = PodCluster::of_kubectl(name) else { return };
    let object = "resourcequota/aifo-test";
    let Some(none) = Object::create(&cluster, object, &quota("pods: 0")) else {
        return skipped(name, "the user cannot create a quota");
    };
    let text = refused(&cluster, &[]);
    assert!(
        text.contains("the quota of the namespace is exceeded") && text.contains("pods=1"),
        "{text}"
    );
    assert!(text.contains("\nhint: end other sessions"), "{text}");
    drop(none);

    let hard = "limits.cpu: 16, limits.memory: 16Gi, requests.cpu: 16, requests.memory: 16Gi";
    let limits = Object::create(&cluster, object, &quota(hard)).expect("a quota");
    let text = refused(&cluster, &[]);
    assert!(text.contains("requires limits") && text.contains("limits.cpu"), "{text}");
    assert!(
        text.contains("\nhint: give every container limits with --memory and --cpus"),
        "{text}"
    );
    let mut run = cluster.run(&["--memory", "256M", "--cpus", "0.5"], "echo ran");
    assert_eq!(Outcome::of(&mut run).exited(0).text(), "ran\n", "with the flags of the hint");
    drop(limits);

    let _range = Object::create(&cluster, "limitrange/aifo-test", RANGE).expect("a range");
    let text = refused(&cluster, &["--memory", "512M"]);
    assert!(text.contains("does not admit the pod's limits") && text.contains("300Mi"), "{text}");
    assert!(text.contains("\nhint: choose limits within the namespace's range"), "{text}");
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn a_missing_image_ends_the_start_and_leaves_nothing() {
    let name = "a_missing_image_ends_the_start_and_leaves_nothing";
    let Some(cluster) = PodCluster::of_kubectl(name) else { return };
    let image = cluster.image().replace(":latest", ":no-such-tag");
    let before = cluster.objects();
    let outcome = Outcome::of(&mut cluster.run(&["--image", &image], "true"));
    assert_ne!(outcome.code(), Some(0), "{outcome:?}");
    for part in ["cannot pull image", &image, "container 'agent'", "hint: push it to a registry"] {
        assert!(outcome.stderr.contains(part), "{part}: {}", outcome.stderr);
    }
    cluster.expect_no_more_than(&before);
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn a_pod_that_ends_from_outside_is_reported_and_leaves_nothing() {
    let name = "a_pod_that_ends_from_outside_is_reported_and_leaves_nothing";
    let Some(cluster) = PodCluster::of_kubectl(name) else { return };
    let view = ["config", "view", "--minify", "--output=jsonpath={..namespace}"];
    let namespace = cluster.kubectl(&view, "").exited(0).text();
    let delete = |id: &str| {
        let pod = format!("aifo-{id}");
        cluster.kubectl(&["delete", "pod", &pod, "--wait=false"], "").exited(0);
    };
    let evict = |id: &str| {
        let path = format!("/api/v1/namespaces/{namespace}/pods/aifo-{id}/eviction");
        // The version since 1.22, and the one before.
        let evicted = ["v1", "v1beta1"].iter().any(|version| {
            let object = format!(
                r#"{{"apiVersion":"policy/{version}","kind":"Eviction","metadata":{{"name":"aifo-{id}"}}}}"#
            );
            let create = ["create", "--raw", &path, "--filename=-"];
            cluster.kubectl(&create, &object).code() == Some(0)
        });
        assert!(evicted, "the eviction is accepted");
    };
    let ends: [&dyn Fn(&str); 3] = [&delete, &evict, &|_| {}];
    // Since 1.26 an evicted pod has the reason; earlier it is a deleted one.
    let rows = [&["was deleted"][..], &["was evicted", "was deleted"], &["deadline has passed"]];
    for (messages, end) in rows.into_iter().zip(ends) {
        let flags: &[&str] =
            if messages == ["deadline has passed"] { &["--deadline", "60"] } else { &[] };
        let terminal = Terminal::sized(120, 24);
        let run = terminal.start(&cluster.run(flags, "echo begun; exec sleep 600"));
        terminal.expect("begun");
        let id = cluster.latest();
        end(&id);
        eventually("the reason is shown", || {
            let shown = terminal.shown();
            messages.iter().any(|message| shown.contains(message))
        });
        assert_eq!(run.finish(), Ok(125), "{messages:?}: {}", terminal.shown());
        cluster.expect_nothing_left(&id);
    }
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn a_policy_ends_with_a_pod_that_no_client_deletes() {
    let name = "a_policy_ends_with_a_pod_that_no_client_deletes";
    let Some(cluster) = PodCluster::of_kubectl(name) else { return };
    let id = Outcome::of(&mut cluster.run(&["--detach"], "exec sleep 600")).exited(0).text();
    let id = id.trim_end();
    cluster.kubectl(&["delete", "pod", &format!("aifo-{id}"), "--wait=false"], "").exited(0);
    cluster.expect_nothing_left(id);
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn a_session_survives_its_killed_client_and_shows_two_more() {
    let name = "a_session_survives_its_killed_client_and_shows_two_more";
    let Some(cluster) = PodCluster::of_kubectl(name) else { return };
    let first = Terminal::sized(80, 24);
    let agent = "echo the first screen; read -r word; echo got $word; read -r _; exit 6";
    let run = first.start(&cluster.run(&[], agent));
    first.expect("the first screen");
    let id = cluster.latest();
    let relays = cluster.relays(&id);
    send_signal(run.pid(), Signal::SIGKILL);
    assert_eq!(run.finish(), Err(9));
    eventually("the killed client's kubectl has ended", || {
        relays.iter().all(|relay| !cluster.relays(&id).contains(relay))
    });
    assert!(cluster.sessions().contains("runs"), "{}", cluster.sessions());

    let terminals = [Terminal::sized(80, 24), Terminal::sized(100, 30)];
    let attach = || cluster.on_pods(&["attach", &id]);
    let clients = [terminals[0].start(&attach()), terminals[1].start(&attach())];
    for terminal in &terminals {
        terminal.expect("the first screen");
    }
    terminals[0].press("word\r");
    for terminal in &terminals {
        terminal.expect("got word");
    }
    terminals[1].press("\r");
    for (client, terminal) in clients.into_iter().zip(&terminals) {
        assert_eq!(client.finish(), Ok(6), "{}", terminal.shown());
    }
    eventually_within(std::time::Duration::from_secs(30), "nothing is left", || {
        !cluster.sessions().contains(&id)
    });
    cluster.expect_nothing_left(&id);
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn a_session_continues_when_the_api_server_does_not_answer_for_30_s() {
    let name = "a_session_continues_when_the_api_server_does_not_answer_for_30_s";
    let Some(cluster) = PodCluster::of_kubectl(name) else { return };
    let kubeconfig = cluster.setup().scratch().join("kubeconfig");
    let api = ApiRelay::open(&kubeconfig);
    let terminal = Terminal::sized(160, 24);
    let agent =
        "echo begun; while read -r word; do echo got $word; [ $word != end ] || exit 7; done";
    let mut run = cluster.run(&["--upload"], agent);
    let run = terminal.start(run.env("KUBECONFIG", &kubeconfig));
    terminal.expect("begun");
    let id = cluster.latest();
    terminal.press("one\r");
    terminal.expect("got one");
    api.close();
    terminal.expect("does not answer, trying for 60 s");
    let list = || {
        let mut sessions = cluster.on_pods(&["sessions"]);
        Outcome::of(sessions.env("KUBECONFIG", &kubeconfig))
    };
    std::thread::scope(|scope| {
        // Another command waits for the answer too.
        let listed = scope.spawn(list);
        std::thread::sleep(std::time::Duration::from_secs(30));
        api.open_again();
        let listed = listed.join().unwrap();
        assert!(listed.exited(0).stderr.contains("does not answer, trying for 60 s"), "{listed:?}");
    });
    terminal.press("two\r");
    terminal.expect("got two");
    terminal.press("end\r");
    assert_eq!(run.finish(), Ok(7), "{}", terminal.shown());
    cluster.expect_nothing_left(&id);
}

#[test]
#[ignore = "container: cargo xtask test kubernetes"]
fn a_start_without_an_api_server_says_so_and_leaves_nothing() {
    let name = "a_start_without_an_api_server_says_so_and_leaves_nothing";
    let Some(cluster) = PodCluster::of_kubectl(name) else { return };
    let kubeconfig = cluster.setup().scratch().join("kubeconfig");
    ApiRelay::open(&kubeconfig).close();
    let before = cluster.objects();
    let mut run = cluster.run(&[], "true");
    let outcome = Outcome::of(run.env("KUBECONFIG", &kubeconfig));
    assert_ne!(outcome.code(), Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("the cluster's API server does not answer"), "{outcome:?}");
    cluster.expect_no_more_than(&before);
}
