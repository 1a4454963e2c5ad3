//! Resolves the packages of a recipe to exact versions and hashes, in a container of its base.

use std::path::Path;

use crate::images::agent::{npm_range, package_json};
use crate::images::build::Builder;
use crate::images::context::write;
use crate::images::error::ImageError;
use crate::images::host::{index_arguments, read};
use crate::images::lock::LockedPackages;
use crate::images::recipe::{Packages, Recipe, package_name};
use crate::images::scratch::scratch;

/// Resolves the packages; `None` if there are none. The first has the version `version`, or the newest
/// that the recipe allows.
pub(crate) fn resolve(
    builder: &mut Builder<'_>,
    recipe: &Recipe,
    base: &str,
    version: Option<&str>,
) -> Result<Option<LockedPackages>, ImageError> {
    let scratch = scratch()?;
    let context = scratch.path();
    builder.inputs.ca_into(context)?;
    let mut run = |dockerfile: String, outputs: &[&str]| {
        write(&context.join("Dockerfile"), &dockerfile)?;
        texts(builder, recipe, base, &dockerfile, context, outputs)
    };
    match &recipe.packages {
        Packages::None => Ok(None),
        Packages::Npm(requirements) => {
            let mut ranges: Vec<_> = requirements.iter().map(|it| npm_range(it)).collect();
            if let (Some(first), Some(version)) = (ranges.first_mut(), version) {
                first.1 = version.to_owned();
            }
            write(&context.join("package.json"), &package_json(ranges.into_iter()))?;
            let texts = run(NPM.to_owned(), &["/resolve/package-lock.json"])?;
            LockedPackages::from_npm(recipe, &texts.concat()).map(Some)
        }
        Packages::Pypi(requirements) | Packages::Wheels(requirements) => {
            let mut lines = requirements.clone();
            if let (Some(first), Some(version)) = (lines.first_mut(), version) {
                *first = format!("{}=={version}", package_name(first));
            }
            write(&context.join("requirements.in"), &(lines.join("\n") + "\n"))?;
            let deps = match recipe.packages {
                Packages::Wheels(_) => " --no-deps",
                _ => "",
            };
            let texts = run(PYPI.replace(" DEPS", deps), &PYLOCKS)?;
            LockedPackages::from_pylock(recipe, &texts).map(Some)
        }
    }
}

const NPM: &str = "ARG BASE
FROM ${BASE}
ARG NPM_CONFIG_REGISTRY
COPY ca.crt package.json /resolve/
RUN cd /resolve && if [ -s ca.crt ]; then export NODE_EXTRA_CA_CERTS=$PWD/ca.crt; fi \\
 && npm install --package-lock-only --ignore-scripts --no-audit --no-fund --no-update-notifier
";

/// uv names hashes of the files of one platform; both have glibc 2.36, bookworm's.
const PYPI: &str = "ARG BASE
FROM ${BASE}
RUN apt-get update \\
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends python3-pip
ARG PIP_INDEX_URL
COPY ca.crt requirements.in /resolve/
RUN cd /resolve && if [ -s ca.crt ]; then export PIP_CERT=$PWD/ca.crt SSL_CERT_FILE=$PWD/ca.crt; fi \\
 && pip install --no-cache-dir --no-deps --target uv uv \\
 && export UV_NO_CACHE=1 UV_DEFAULT_INDEX=\"$PIP_INDEX_URL\" \\
 && for arch in x86_64 aarch64; do \\
      uv/bin/uv pip compile --quiet --no-header --format pylock.toml DEPS \\
        --python-platform $arch-manylinux_2_36 --output-file pylock.$arch.toml requirements.in || exit 1; \\
    done
";

const PYLOCKS: [&str; 2] = ["/resolve/pylock.x86_64.toml", "/resolve/pylock.aarch64.toml"];

/// Builds an image and returns files of it. The image is removed.
fn texts(
    builder: &mut Builder<'_>,
    recipe: &Recipe,
    base: &str,
    dockerfile: &str,
    context: &Path,
    outputs: &[&str],
) -> Result<Vec<String>, ImageError> {
    let host = builder.host;
    let image = format!("aifo-resolve-{}:{}", recipe.name, std::process::id());
    let mut command = host.build(&image, base, &[]);
    command.arg("--no-cache");
    command.args(index_arguments(dockerfile, |name| std::env::var_os(name).is_some()));
    builder.log.quiet(&recipe.name, command.arg(context))?;
    let text = |file: &&str| {
        let run = ["run", "--rm", "--network", "none", "--entrypoint", "cat", &image, file];
        read(&recipe.name, &mut host.command(run))
    };
    let texts = outputs.iter().map(text).collect();
    // A remaining image is no error.
    let _ = read("", &mut host.command(["image", "rm", &image]));
    texts
}
