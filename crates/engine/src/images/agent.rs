//! Recipes of agents: a TOML file, and the Dockerfile that follows from it.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::images::recipe::{
    BaseImage, ContextFile, LAST_STAGE, Packages, Part, Recipe, package_name,
};

/// A recipe's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AgentFile {
    /// The base: another recipe.
    on: String,
    /// The Debian release, if not the base's own.
    release: Option<String>,
    /// Packages of npm; the first has the agent version.
    #[serde(default)]
    npm: Vec<String>,
    /// Or packages of PyPI.
    #[serde(default)]
    pypi: Vec<String>,
    /// True if npm runs the packages' install steps.
    #[serde(default = "yes")]
    scripts: bool,
    /// The packages' programs, for PATH.
    programs: Vec<String>,
    /// Shell commands after the installation, in the directory with `bin` and `lib`.
    #[serde(default)]
    prepare: String,
    /// A shell command that must succeed.
    check: String,
    /// The error if the installation fails.
    failure: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Files by their path in the image, readable by all; executable in a `bin`.
    #[serde(default)]
    files: BTreeMap<String, String>,
    workdir: Option<String>,
}

fn yes() -> bool {
    true
}

/// Parses a recipe. If it names a Debian release, also returns the base that this release needs.
pub(crate) fn read(name: &str, text: &str) -> Result<(Recipe, Option<ReleaseOf>), String> {
    let file: AgentFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let packages = match (file.npm.is_empty(), file.pypi.is_empty()) {
        (false, true) => Packages::Npm(file.npm.clone()),
        (true, false) => Packages::Pypi(file.pypi.clone()),
        _ => return Err("needs packages of either npm or pypi".to_owned()),
    };
    let base = match &file.release {
        Some(release) => format!("{}-{release}", file.on),
        None => file.on.clone(),
    };
    let mut dockerfile = format!("ARG BASE={base}\nFROM ${{BASE}} AS fetch\n");
    dockerfile += &if file.pypi.is_empty() { npm_stage(&file) } else { pypi_stage(&file) };
    dockerfile += &last_stage(&file);
    let recipe = Recipe {
        name: name.to_owned(),
        part: Part::Agent,
        base: BaseImage::Recipe(base),
        packages,
        dockerfile,
        files: file.files.into_iter().map(context_file).collect(),
        locked_as: name.to_owned(),
    };
    let variant = file.release.map(|release| ReleaseOf { recipe: file.on, release });
    Ok((recipe, variant))
}

/// A base recipe on another Debian release.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReleaseOf {
    pub(crate) recipe: String,
    pub(crate) release: String,
}

fn context_file((path, text): (String, String)) -> ContextFile {
    ContextFile { name: file_name(&path), text, is_program: path.contains("/bin/") }
}

/// Installs the locked tree, without the lock file's own traces.
fn npm_stage(file: &AgentFile) -> String {
    let scripts = if file.scripts { "" } else { " --ignore-scripts" };
    let failure = failure(file);
    let links: Vec<_> =
        file.programs.iter().map(|name| format!("../lib/node_modules/.bin/{name}")).collect();
    let links = match links.is_empty() {
        true => String::new(),
        false => format!(" && ln -s {} .", links.join(" ")),
    };
    format!(
        "ARG NPM_CONFIG_REGISTRY\n\
         COPY ca.crt package.json package-lock.json /opt/agent/lib/\n\
         RUN cd /opt/agent/lib && if [ -s ca.crt ]; then export NODE_EXTRA_CA_CERTS=$PWD/ca.crt; fi \\\n \
         && npm ci --no-audit --no-fund --no-update-notifier{scripts}{failure} \\\n \
         && rm ca.crt package.json package-lock.json node_modules/.package-lock.json \\\n \
         && mkdir ../bin && cd ../bin{links}\n{}",
        prepare_and_check(file, "/opt/agent")
    )
}

/// Builds wheels of what has none with Debian's setuptools, which the index cannot change. Like uv,
/// which resolved the versions, it ignores upper bounds of Python's version (openhands). Debian's
/// packages need a Python in the usual place; the environment leads to the agent's own.
fn pypi_stage(file: &AgentFile) -> String {
    let failure = failure(file);
    format!(
        "RUN cp -a /opt/agent/bin/python3* /usr/bin/ && apt-get update \\\n \
         && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \\\n      \
         python3-pip python3-setuptools python3-wheel\n\
         ARG PIP_INDEX_URL\n\
         COPY ca.crt requirements.txt /tmp/\n\
         RUN if [ -s /tmp/ca.crt ]; then export PIP_CERT=/tmp/ca.crt; fi \\\n \
         && pip download --no-cache-dir --no-deps --no-build-isolation --require-hashes \\\n      \
         --ignore-requires-python --dest /tmp/wheels -r /tmp/requirements.txt{failure} \\\n \
         && for source in /tmp/wheels/*.tar.gz; do \\\n      \
         [ ! -e $source ] || pip wheel --no-index --no-deps --no-build-isolation \\\n        \
         --wheel-dir /tmp/wheels $source || exit 1; \\\n    \
         done \\\n \
         && /opt/agent/bin/python3 -m venv --without-pip /opt/venv \\\n \
         && pip --python /opt/venv install --no-cache-dir --no-index --no-deps --no-compile \\\n      \
         --ignore-requires-python /tmp/wheels/*.whl && rm -r /tmp/wheels\n{}",
        prepare_and_check(file, "/opt/venv")
    )
}

fn failure(file: &AgentFile) -> String {
    let echo = |text| format!(" \\\n || {{ echo {} >&2; exit 1; }}", quoted(text));
    file.failure.as_deref().map(echo).unwrap_or_default()
}

fn prepare_and_check(file: &AgentFile, root: &str) -> String {
    let lines = file.prepare.lines().map(|line| format!(" \\\n && {line}"));
    let start = format!("RUN cd {root} && PATH=$PWD/bin:$PATH");
    format!("{start}{} \\\n && {}\n\n", lines.collect::<String>(), file.check)
}

fn last_stage(file: &AgentFile) -> String {
    let mut text = LAST_STAGE.to_owned();
    if file.pypi.is_empty() {
        text += "COPY --from=fetch /opt/agent/ /usr/local/\n";
    } else {
        let programs = file.programs.iter().map(|name| format!("/opt/venv/bin/{name}"));
        let programs = programs.collect::<Vec<_>>().join(" ");
        text += "COPY --from=fetch /opt/venv/ /opt/venv/\n";
        text += &format!("RUN ln -s {programs} /usr/local/bin/\n");
    }
    for path in file.files.keys() {
        text += &format!("COPY {} {path}\n", file_name(path));
    }
    // The launcher covers other paths of interpreters with shims.
    let own = if file.pypi.is_empty() { "/usr/local/bin/node" } else { "/opt/agent/bin/python3" };
    text += &format!("LABEL dev.aifo.interpreters=\"{own}\"\n");
    for (name, value) in &file.env {
        text += &format!("ENV {name}={}\n", quoted(value));
    }
    // Last, so that a new shim does not rebuild the packages' layers.
    text += "COPY aifo-shim /opt/aifo/bin/aifo-shim\n\
             RUN /opt/aifo/bin/aifo-shim --install /opt/aifo/bin\n";
    if let Some(workdir) = &file.workdir {
        text += &format!("WORKDIR {workdir}\n");
    }
    text
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

/// Returns the name of a file in the build context: its path with dashes.
fn file_name(path: &str) -> String {
    path.trim_start_matches('/').replace('/', "-")
}

/// Returns `package.json` for npm: the locked versions, or else the requirements.
pub(crate) fn package_json(versions: impl Iterator<Item = (String, String)>) -> String {
    let dependencies: BTreeMap<String, String> = versions.collect();
    serde_json::json!({ "private": true, "dependencies": dependencies }).to_string()
}

/// Returns name and range of a requirement of npm; `latest` without a range.
pub(crate) fn npm_range(requirement: &str) -> (String, String) {
    let name = package_name(requirement);
    let range = requirement.get(name.len() + 1..).unwrap_or("latest");
    (name.to_owned(), range.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::recipes::recipes;

    #[test]
    fn a_recipe_becomes_a_dockerfile() {
        let text = r#"
            on = "agent-node"
            npm = ["@x/y", "z@1"]
            scripts = false
            programs = ["y"]
            prepare = "rm -r lib/z"
            check = "y --version"
            workdir = "/w"
            env = { A = "b c" }
            files = { "/etc/y/y.json" = "{}" }
        "#;
        let (recipe, variant) = read("agent-y", text).unwrap();
        assert_eq!(variant, None);
        let file = ("/etc/y/y.json".to_owned(), "{}".to_owned());
        assert_eq!(recipe.files, [context_file(file)]);
        for line in [
            " && npm ci --no-audit --no-fund --no-update-notifier --ignore-scripts \\",
            " && mkdir ../bin && cd ../bin && ln -s ../lib/node_modules/.bin/y .",
            "RUN cd /opt/agent && PATH=$PWD/bin:$PATH \\",
            " && rm -r lib/z \\",
            " && y --version",
            "COPY etc-y-y.json /etc/y/y.json",
            "ENV A=\"b c\"",
            "WORKDIR /w",
        ] {
            let dockerfile = &recipe.dockerfile;
            assert!(dockerfile.lines().any(|it| it == line), "{line}\n{dockerfile}");
        }
    }

    #[test]
    fn packages_are_below_the_layers_of_the_agent() {
        let codex = recipes().iter().find(|recipe| recipe.name == "agent-codex").unwrap();
        assert_eq!(&codex.with_packages(&[]), codex);
        let text = codex.with_packages(&["jq".to_owned(), "g++".to_owned()]).dockerfile;
        let (_, last) = text.rsplit_once(LAST_STAGE).unwrap();
        let (install, rest) = last.split_once("LABEL dev.aifo.packages=\"jq g++\"\n").unwrap();
        assert!(install.contains("\n      jq g++ \\\n"), "{install}");
        assert!(rest.starts_with("COPY --from=fetch "), "{rest}");
    }

    #[test]
    fn invalid_recipes_are_rejected() {
        for text in [
            "on = 'a'\nprograms = []\ncheck = 'x'",
            "on = 'a'\nnpm = ['x']\npypi = ['y']\nprograms = []\ncheck = 'x'",
            "on = 'a'\nnpm = ['x']\nprograms = []\ncheck = 'x'\nother = 1",
        ] {
            assert!(read("agent-x", text).is_err(), "{text}");
        }
    }

    #[test]
    fn files_of_a_context_have_different_names() {
        for recipe in recipes() {
            let mut names: Vec<_> = recipe.files.iter().map(|file| &file.name).collect();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), recipe.files.len(), "{}", recipe.name);
        }
    }

    #[test]
    fn ranges_of_npm() {
        assert_eq!(npm_range("@a/b"), ("@a/b".into(), "latest".into()));
        assert_eq!(npm_range("@a/b@1.x"), ("@a/b".into(), "1.x".into()));
    }
}
