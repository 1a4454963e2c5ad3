//! Images in a registry, pushed by the engine with its own credentials (`spec/images.md#push`).

use std::fs;
use std::process::{Command, Stdio};

use aifo_tests::{Engine, Outcome, Scratch, TestRegistry, binaries, fresh_id};

/// Small images of two recipes, with a prefix that no other test has.
struct Images {
    engine: Engine,
    prefix: String,
    scratch: Scratch,
}

impl Images {
    fn build(engine: &Engine) -> Self {
        let prefix = format!("localhost/aifo-test-push-{}/", fresh_id());
        let images = Images { engine: engine.clone(), prefix, scratch: Scratch::new() };
        fs::write(images.path("registries.conf"), "").unwrap();
        let dockerfile = images.path("Dockerfile");
        fs::write(dockerfile, "FROM aifo-test-noshell\nLABEL dev.aifo.image=test\n").unwrap();
        for name in ["aifo-launcher", "aifo-toolchain-go"] {
            let tag = format!("{}{name}:latest", images.prefix);
            let mut build = engine.command(["build", "--quiet", "--tag", &tag]);
            build.arg(images.scratch.path()).env("DOCKER_BUILDKIT", "0");
            Outcome::of(&mut build).exited(0);
        }
        images
    }

    fn path(&self, name: &str) -> String {
        self.scratch.path().join(name).to_str().unwrap().to_owned()
    }

    /// `aifo-coder images ..`, with a home of its own.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&binaries().coder);
        command.arg("images").args(words).stdin(Stdio::null());
        command.args(["--engine", if self.engine.is_podman() { "podman" } else { "docker" }]);
        command.env("AIFO_CODER_IMAGE_PREFIX", &self.prefix).env_remove("XDG_CONFIG_HOME");
        command.env("HOME", self.scratch.path()).current_dir(self.scratch.path());
        command.env("CONTAINERS_REGISTRIES_CONF", self.path("registries.conf"));
        command
    }

    /// Permits podman a registry without TLS. Docker permits it on localhost.
    fn permit(&self, registry: &TestRegistry) {
        let (file, address) = (self.path("registries.conf"), registry.address());
        fs::write(file, format!("[[registry]]\nlocation = \"{address}\"\ninsecure = true\n"))
            .unwrap();
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for name in ["aifo-launcher", "aifo-toolchain-go"] {
            let tag = format!("{}{name}:latest", self.prefix);
            _ = self.engine.command(["rmi", "--force", &tag]).stdout(Stdio::null()).status();
        }
    }
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn images_are_pushed_under_the_prefix_of_the_registry() {
    let Some(engine) = Engine::of_run("images_are_pushed_under_the_prefix_of_the_registry") else {
        return;
    };
    let (images, registry) = (Images::build(&engine), TestRegistry::start());
    images.permit(&registry);
    let to = format!("{}/team", registry.address());
    let outcome = Outcome::of(&mut images.command(&["push", &to, "launcher"]));
    let text = &outcome.exited(0).stderr;
    assert_eq!(registry.images(), ["team/aifo-launcher:latest"], "{text}");
    assert!(text.contains(&format!("1/1 {to}/aifo-launcher:latest: ")), "{text}");
    assert!(text.contains(&format!("image_prefix = \"{to}/\"")), "{text}");

    // Without names: all that the engine has.
    Outcome::of(&mut images.command(&["push", &to])).exited(0);
    let both = ["team/aifo-launcher:latest", "team/aifo-toolchain-go:latest"];
    assert_eq!(registry.images(), both);
    let listed = engine.text(["images", "--format", "{{.Repository}}"]);
    assert!(!listed.contains(registry.address()), "the name of the push is removed: {listed}");
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_rejected_push_names_the_remedy() {
    let Some(engine) = Engine::of_run("a_rejected_push_names_the_remedy") else { return };
    let (images, registry) = (Images::build(&engine), TestRegistry::start());
    images.permit(&registry);
    registry.require_login("dXNlcjpzZWNyZXQ=");
    let to = format!("{}/team", registry.address());
    let refused = Outcome::of(&mut images.command(&["push", &to, "launcher"]));
    let text = &refused.exited(1).stderr;
    let engine_name = if engine.is_podman() { "podman" } else { "docker" };
    assert!(text.contains(&format!("cannot push '{to}/aifo-launcher:latest': ")), "{text}");
    assert!(text.contains(&format!("`{engine_name} login {}`", registry.address())), "{text}");
    assert_eq!(registry.images(), [""; 0]);

    // The engine's own credentials.
    let auth =
        format!("{{\"auths\":{{\"{}\":{{\"auth\":\"dXNlcjpzZWNyZXQ=\"}}}}}}", registry.address());
    fs::create_dir(images.path(".docker")).unwrap();
    for file in [".docker/config.json", "auth.json"] {
        fs::write(images.path(file), &auth).unwrap();
    }
    let mut push = images.command(&["push", &to, "launcher"]);
    Outcome::of(push.env("REGISTRY_AUTH_FILE", images.path("auth.json"))).exited(0);
    assert_eq!(registry.images(), ["team/aifo-launcher:latest"]);

    let missing = Outcome::of(&mut images.command(&["push", &to, "launcher", "rust"]));
    let text = &missing.exited(1).stderr;
    assert!(text.contains("hint: build it with: aifo-coder images build rust"), "{text}");
    let invalid = Outcome::of(&mut images.command(&["push", "team", "launcher"]));
    assert!(invalid.exited(1).stderr.contains("hint: name it: docker.io/USER"));
    let gone = Outcome::of(&mut images.command(&["push", "127.0.0.1:1/team", "launcher"]));
    assert!(gone.exited(1).stderr.contains("does not answer"), "{}", gone.stderr);
}

#[test]
#[ignore = "container: cargo xtask test docker"]
fn a_list_is_json() {
    let Some(engine) = Engine::of_run("a_list_is_json") else { return };
    let images = Images::build(&engine);
    let listed = Outcome::of(&mut images.command(&["list", "--json"])).exited(0).text();
    let rows: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let is_own = |row: &&serde_json::Value| {
        row["image"].as_str().is_some_and(|name| name == format!("{}aifo-launcher", images.prefix))
    };
    let row = rows.as_array().unwrap().iter().find(is_own).unwrap();
    assert_eq!(row["tag"], "latest");
    assert!(row["size"].is_string() && row["age"].is_string(), "{row}");
}
