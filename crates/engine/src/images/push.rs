//! Pushes images to a registry, with the engine's own credentials (`spec/images.md#push`).

use std::io::Write;
use std::process::Stdio;

use crate::images::build::ImageNames;
use crate::images::destination::Destination;
use crate::images::error::ImageError;
use crate::images::host::{Host, Log, read};
use crate::images::recipe::{Part, Recipe};
use crate::images::recipes::{recipes, requested};
use crate::images::scratch::scratch;
use crate::{Flavor, error_line};

/// Pushes images and writes a line for each. Without `names`, pushes all images but bases that the engine has.
/// Returns the names in the registry. Errors: an image is missing, or the registry rejects it; no further image
/// is pushed.
pub fn push(
    host: &Host,
    names: &[String],
    image_names: &ImageNames,
    destination: &Destination,
    command: &str,
    out: &mut dyn Write,
) -> Result<Vec<String>, ImageError> {
    let ImageNames { prefix, tag } = image_names;
    let source = |recipe: &Recipe| recipe.image_name(prefix, tag);
    let wanted: Vec<&Recipe> = match names.is_empty() {
        true => {
            let all = recipes().iter().filter(|recipe| recipe.part != Part::Base);
            all.filter(|recipe| has(host, &source(recipe))).collect()
        }
        false => requested(names)?,
    };
    let missing = wanted.iter().find(|recipe| !has(host, &source(recipe)));
    if let Some(recipe) = missing {
        return Err(ImageError::NotBuilt {
            engine: host.flavor.program(),
            image: source(recipe),
            command: format!("{command} build {}", recipe.short_name()),
        });
    }
    if wanted.is_empty() {
        return Err(ImageError::NonePushed {
            engine: host.flavor.program(),
            command: format!("{command} build launcher"),
        });
    }
    let scratch = scratch()?;
    let mut log = Log::new(scratch.path(), out);
    let mut pushed = Vec::new();
    let count = wanted.len();
    for (index, recipe) in wanted.into_iter().enumerate() {
        let (from, to) = (source(recipe), recipe.image_name(&destination.prefix(), tag));
        let step = format!("{}/{count} {to}", index + 1);
        push_one(host, &mut log, &step, &from, &to).map_err(|error| match error {
            ImageError::Failed { .. } => rejected(host, destination, &to, &log.text()),
            other => other,
        })?;
        pushed.push(to);
    }
    Ok(pushed)
}

fn push_one(
    host: &Host,
    log: &mut Log<'_>,
    step: &str,
    from: &str,
    to: &str,
) -> Result<(), ImageError> {
    if host.flavor == Flavor::Podman {
        return log.step(step, &mut host.command(["push", from, &format!("docker://{to}")]));
    }
    // Docker pushes an image by the name of the destination only.
    let is_new = from != to && !has(host, to);
    if from != to {
        read(to, &mut host.command(["tag", from, to]))?;
    }
    let pushed = log.step(step, &mut host.command(["push", to]));
    if is_new {
        // A name that stays uses no space.
        _ = read(to, &mut host.command(["rmi", "--no-prune", to]));
    }
    pushed
}

fn has(host: &Host, image: &str) -> bool {
    let mut command = host.command(["image", "inspect", "--format", "{{.Id}}", image]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn rejected(host: &Host, destination: &Destination, image: &str, output: &str) -> ImageError {
    let reason = error_line(output).unwrap_or_else(|| "no output".to_owned());
    ImageError::Rejected {
        image: image.to_owned(),
        hint: remedy(host.flavor, destination.registry(), &reason),
        reason,
    }
}

/// Returns what to do about an engine's error.
fn remedy(flavor: Flavor, registry: &str, reason: &str) -> String {
    let lower = reason.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    let engine = flavor.program();
    if has(&["http response to https client", "first record does not look like a tls handshake"]) {
        return match flavor {
            Flavor::Docker => format!(
                "the registry has no TLS: add \"{registry}\" to \"insecure-registries\" in docker's daemon.json"
            ),
            Flavor::Podman => format!(
                "the registry has no TLS: add a [[registry]] with location = \"{registry}\" and insecure = true \
                 to registries.conf"
            ),
        };
    }
    if has(&["certificate", "x509"]) {
        return format!(
            "give {engine} the registry's certificate authority: /etc/{}/certs.d/{registry}/ca.crt",
            if flavor == Flavor::Docker { "docker" } else { "containers" }
        );
    }
    let login = ["unauthorized", "denied", "authentication", "no basic auth", "401", "403"];
    if has(&login) {
        return format!(
            "log in with `{engine} login {registry}`; the account needs the right to push to this prefix"
        );
    }
    if has(&["no such host", "connection refused", "timeout", "no route", "unreachable", "lookup"])
    {
        return format!("check the registry's name and the network: '{registry}' does not answer");
    }
    format!("the end of the output of `{engine} push` is above")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::images::script::script;

    const NAMES: [&str; 2] = ["launcher", "rust"];

    /// Pushes with an engine that is a script, and returns its commands.
    fn pushed(flavor: Flavor, body: &str) -> (Result<Vec<String>, String>, String) {
        let dir = tempfile::tempdir().unwrap();
        let calls = dir.path().join("calls");
        let body = format!("echo \"$@\" >> {}\n{body}", calls.display());
        let engine = script(dir.path(), "engine", &body);
        let host = Host { flavor, engine, mmdebstrap: None };
        let names = NAMES.map(str::to_owned);
        let destination = Destination::parse("r.example:5000/team").unwrap();
        let image_names = ImageNames::default();
        let result = push(&host, &names, &image_names, &destination, "aifo", &mut Vec::new());
        let calls = fs::read_to_string(calls).unwrap_or_default();
        (result.map_err(|error| error.to_string()), calls)
    }

    /// Docker's image of the registry is missing.
    const DOCKER: &str = "case \"$*\" in *inspect*r.example*) exit 1;; esac";

    #[test]
    fn docker_gets_a_name_for_the_push_only() {
        let (names, calls) = pushed(Flavor::Docker, DOCKER);
        let to = "r.example:5000/team/aifo-launcher:latest";
        assert_eq!(
            names.unwrap(),
            ["r.example:5000/team/aifo-toolchain-rust:latest", to]
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
        );
        let calls: Vec<&str> = calls
            .lines()
            .filter(|line| !line.contains("inspect") && line.contains("launcher"))
            .collect();
        assert_eq!(
            calls,
            [
                format!("tag aifo-launcher:latest {to}"),
                format!("push {to}"),
                format!("rmi --no-prune {to}"),
            ]
        );
    }

    #[test]
    fn a_name_that_docker_had_stays() {
        let (_, calls) = pushed(Flavor::Docker, "");
        assert!(calls.contains("push ") && !calls.contains("rmi"), "{calls}");
    }

    #[test]
    fn podman_pushes_under_another_name() {
        let (_, calls) = pushed(Flavor::Podman, "");
        let push = "push aifo-launcher:latest docker://r.example:5000/team/aifo-launcher:latest";
        assert!(calls.lines().any(|line| line == push) && !calls.contains("tag "), "{calls}");
    }

    #[test]
    fn a_missing_image_is_reported_before_any_push() {
        let (result, calls) =
            pushed(Flavor::Docker, "case \"$*\" in *inspect*rust*) exit 1;; esac");
        let error = result.unwrap_err();
        assert!(error.ends_with("hint: build it with: aifo build rust"), "{error}");
        assert!(error.starts_with("docker has no image 'aifo-toolchain-rust:latest'"), "{error}");
        assert!(!calls.contains("push"), "{calls}");
    }

    #[test]
    fn a_rejected_push_is_an_error_with_its_remedy() {
        let fails = |reason: &str| {
            let body = format!("{DOCKER}\ncase \"$1\" in push) echo '{reason}' >&2; exit 1;; esac");
            let (result, calls) = pushed(Flavor::Docker, &body);
            assert!(calls.contains("rmi --no-prune"), "{calls}");
            assert_eq!(calls.matches("push r").count(), 1, "it stops: {calls}");
            result.unwrap_err()
        };
        for (reason, hint) in [
            ("unauthorized: authentication required", "docker login r.example:5000"),
            ("denied: requested access to the resource is denied", "docker login r.example:5000"),
            ("dial tcp: lookup r.example: no such host", "does not answer"),
            ("http: server gave HTTP response to HTTPS client", "insecure-registries"),
            ("tls: x509: certificate signed by unknown authority", "certs.d/r.example:5000/ca.crt"),
            ("blob upload invalid", "is above"),
        ] {
            let error = fails(reason);
            let (first, second) = error.split_once("\nhint: ").unwrap();
            assert!(
                first.starts_with("cannot push 'r.example:5000/team/aifo-")
                    && first.ends_with(reason)
            );
            assert!(second.contains(hint), "{error}");
        }
    }

    #[test]
    fn without_images_there_is_nothing_to_push() {
        let dir = tempfile::tempdir().unwrap();
        let engine = script(dir.path(), "engine", "exit 1");
        let host = Host { flavor: Flavor::Docker, engine, mmdebstrap: None };
        let destination = Destination::parse("r.example").unwrap();
        let result =
            push(&host, &[], &ImageNames::default(), &destination, "aifo", &mut Vec::new());
        let error = result.unwrap_err().to_string();
        assert!(error.contains("hint: build them with: aifo build launcher"), "{error}");
    }
}
