//! `[containers]`, and its variables and flags.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use aifo_launch::{CacheScope, Choice, Flavor, Net};
use aifo_types::{Kind, Subnet};
use serde::Deserialize;
use toml::Spanned;

use crate::config::environment::{VariableLookup, text};
use crate::config::error::ConfigError;
use crate::config::file::File;
use crate::config::registries::Registries;
use crate::config::source::{Source, Sourced};
use crate::config::values::Config;

/// The backend, and the settings of containers.
#[derive(Clone, Debug)]
pub(crate) struct ContainerSettings {
    pub(crate) backend: Sourced<Backend>,
    pub(crate) net: Sourced<Net>,
    pub(crate) publish: Sourced<Vec<String>>,
    /// `None`: podman's own pools.
    pub(crate) pools: Sourced<Option<Vec<Subnet>>>,
    /// Bytes; 0 is no limit. `None`: three quarters of the machine's.
    pub(crate) memory: Sourced<Option<u64>>,
    /// 0 is no limit. `None`: 4096.
    pub(crate) pids: Sourced<Option<u32>>,
    /// `None`: all.
    pub(crate) cpus: Sourced<Option<f64>>,
    /// Applies to local sidecars too.
    pub(crate) caches: Sourced<CacheScope>,
    /// The prefix of aifo's own images.
    pub(crate) image_prefix: Sourced<String>,
    /// Their tag.
    pub(crate) image_tag: Sourced<String>,
    /// Images configured for a kind.
    pub(crate) images: BTreeMap<Kind, Sourced<String>>,
    /// The user's own containers, by the kind that is routed to them.
    pub(crate) attached: BTreeMap<Kind, Sourced<String>>,
    pub(crate) registries: Registries,
}

/// How sidecars run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// In containers if an engine answers and has the images, else as child processes.
    Auto,
    /// In containers of this engine.
    Engine(Flavor),
    /// As child processes.
    Local,
}

/// `[containers]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ContainerEntries {
    pub(crate) net: Option<Spanned<String>>,
    pub(crate) publish: Option<Spanned<Vec<String>>>,
    pub(crate) pools: Option<Spanned<Vec<String>>>,
    pub(crate) memory: Option<Spanned<String>>,
    pub(crate) pids: Option<Spanned<u32>>,
    pub(crate) cpus: Option<Spanned<f64>>,
    pub(crate) caches: Option<Spanned<CachesEntry>>,
    pub(crate) image_prefix: Option<Spanned<String>>,
    pub(crate) image_tag: Option<Spanned<String>>,
    pub(crate) admit: Option<Spanned<Vec<String>>>,
    pub(crate) ca_bundle: Option<Spanned<PathBuf>>,
}

/// `caches` of `[containers]`
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "caches is \"project\", \"user\" or \"none\"")]
pub(crate) enum CachesEntry {
    Word(String),
    /// The older form: on or off.
    Switch(bool),
}

impl ContainerEntries {
    /// Returns the span of the first key other than `caches`, if there is one.
    pub(crate) fn first_except_caches(&self) -> Option<Range<usize>> {
        let ContainerEntries { net, publish, memory, pids, cpus, .. } = self;
        let words = [net, memory, &self.image_prefix, &self.image_tag];
        let mut spans: Vec<_> = words.into_iter().flatten().map(Spanned::span).collect();
        let lists = [publish, &self.pools, &self.admit];
        spans.extend(lists.into_iter().flatten().map(Spanned::span));
        spans.extend(pids.as_ref().map(Spanned::span));
        spans.extend(cpus.as_ref().map(Spanned::span));
        spans.extend(self.ca_bundle.as_ref().map(Spanned::span));
        spans.into_iter().min_by_key(|span| span.start)
    }
}

/// The flags for containers; absent flags are `None` or empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContainerFlags {
    pub(crate) backend: Option<String>,
    pub(crate) net: Option<String>,
    pub(crate) publish: Vec<String>,
    pub(crate) memory: Option<String>,
    pub(crate) pids: Option<u32>,
    pub(crate) cpus: Option<f64>,
    pub(crate) no_caches: bool,
    /// `KIND=IMAGE`
    pub(crate) images: Vec<String>,
    /// `NAME=KIND`
    pub(crate) attach: Vec<String>,
}

impl Backend {
    const WORDS: [(Backend, &'static str); 4] = [
        (Backend::Auto, "auto"),
        (Backend::Engine(Flavor::Docker), "docker"),
        (Backend::Engine(Flavor::Podman), "podman"),
        (Backend::Local, "local"),
    ];

    pub(crate) fn as_str(self) -> &'static str {
        word_of(&Backend::WORDS, self)
    }

    /// Returns the engines to use; `None` for the local backend.
    pub(crate) fn engine(self) -> Option<Choice> {
        match self {
            Backend::Auto => Some(Choice::Any),
            Backend::Engine(flavor) => Some(Choice::Only(flavor)),
            Backend::Local => None,
        }
    }
}

const NETS: [(Net, &str); 4] = [
    (Net::Shared, "shared"),
    (Net::Separate, "separate"),
    (Net::None, "none"),
    (Net::Host, "host"),
];

pub(crate) fn net_word(net: Net) -> &'static str {
    word_of(&NETS, net)
}

const CACHES: [(CacheScope, &str); 3] =
    [(CacheScope::Project, "project"), (CacheScope::User, "user"), (CacheScope::None, "none")];

pub(crate) fn caches_word(caches: CacheScope) -> &'static str {
    word_of(&CACHES, caches)
}

/// Parses `caches` of a file.
pub(crate) fn parse_caches(
    sourced: Sourced<CachesEntry>,
) -> Result<Sourced<CacheScope>, ConfigError> {
    let Sourced { value, source } = sourced;
    match value {
        CachesEntry::Word(word) => {
            parse_word(&CACHES, Sourced::new(word, source), "containers.caches")
        }
        CachesEntry::Switch(true) => Ok(Sourced::new(CacheScope::Project, source)),
        CachesEntry::Switch(false) => Ok(Sourced::new(CacheScope::None, source)),
    }
}

impl ContainerSettings {
    pub(crate) fn builtin() -> Self {
        ContainerSettings {
            backend: Sourced::builtin(Backend::Auto),
            net: Sourced::builtin(Net::default()),
            publish: Sourced::builtin(Vec::new()),
            pools: Sourced::builtin(None),
            memory: Sourced::builtin(None),
            pids: Sourced::builtin(None),
            cpus: Sourced::builtin(None),
            caches: Sourced::builtin(CacheScope::default()),
            image_prefix: Sourced::builtin(String::new()),
            image_tag: Sourced::builtin("latest".to_owned()),
            images: BTreeMap::new(),
            attached: BTreeMap::new(),
            registries: Registries::builtin(),
        }
    }

    /// Returns the first flag that applies to containers only.
    pub(crate) fn container_flag(&self) -> Option<&'static str> {
        let flag = |source: &Source| match source {
            Source::Flag(name) => Some(*name),
            _ => None,
        };
        let sources = [
            &self.net.source,
            &self.publish.source,
            &self.memory.source,
            &self.pids.source,
            &self.cpus.source,
        ];
        let images = self.images.values().map(|image| &image.source);
        sources.into_iter().chain(images).find_map(flag)
    }

    pub(crate) fn apply_file(&mut self, file: &File) -> Result<(), ConfigError> {
        let entries = &file.entries;
        let containers = &entries.containers;
        if let Some(word) = file.sourced(&entries.backend) {
            self.backend = parse_word(&Backend::WORDS, word, "backend")?;
        }
        if let Some(word) = file.sourced(&containers.net) {
            self.net = parse_word(&NETS, word, "containers.net")?;
        }
        if let Some(Sourced { value, source }) = file.sourced(&containers.memory) {
            self.memory = Sourced::new(Some(parse_size(&value, &source)?), source);
        }
        if let Some(cpus) = file.sourced(&containers.cpus) {
            self.cpus = parse_cpus(cpus)?;
        }
        if let Some(Sourced { value, source }) = file.sourced(&containers.pids) {
            self.pids = Sourced::new(Some(value), source);
        }
        if let Some(words) = file.sourced(&containers.pools) {
            self.pools = parse_subnets(words)?;
        }
        self.publish.set(file.sourced(&containers.publish));
        if let Some(sourced) = file.sourced(&containers.caches) {
            self.caches = parse_caches(sourced)?;
        }
        self.image_prefix.set(file.sourced(&containers.image_prefix));
        self.image_tag.set(file.sourced(&containers.image_tag));
        self.registries.apply_file(file)
    }

    fn apply_flags(&mut self, flags: &ContainerFlags) -> Result<(), ConfigError> {
        let word = |word: &Option<String>, name| {
            word.clone().map(|word| Sourced::new(word, Source::Flag(name)))
        };
        if let Some(word) = word(&flags.backend, "--backend") {
            self.backend = parse_word(&Backend::WORDS, word, "backend")?;
        }
        if let Some(word) = word(&flags.net, "--net") {
            self.net = parse_word(&NETS, word, "containers.net")?;
        }
        if let Some(Sourced { value, source }) = word(&flags.memory, "--memory") {
            self.memory = Sourced::new(Some(parse_size(&value, &source)?), source);
        }
        if let Some(cpus) = flags.cpus {
            self.cpus = parse_cpus(Sourced::new(cpus, Source::Flag("--cpus")))?;
        }
        if let Some(pids) = flags.pids {
            self.pids = Sourced::new(Some(pids), Source::Flag("--pids"));
        }
        if !flags.publish.is_empty() {
            self.publish = Sourced::new(flags.publish.clone(), Source::Flag("--publish"));
        }
        if flags.no_caches {
            self.caches = Sourced::new(CacheScope::None, Source::Flag("--no-toolchain-cache"));
        }
        Ok(())
    }
}

impl Config {
    /// Sets the image of a kind.
    pub(crate) fn name_image(
        &mut self,
        kind: &str,
        image: Sourced<String>,
    ) -> Result<(), ConfigError> {
        let kind = self.kind_named(kind, &image.source)?;
        // The engine would parse it as an option.
        if image.value.is_empty() || image.value.starts_with('-') {
            let what = format!("invalid image '{}'", image.value);
            return Err(ConfigError::new(&image.source, what));
        }
        self.containers.images.insert(kind, image);
        Ok(())
    }

    pub(crate) fn apply_container_flags(
        &mut self,
        flags: &ContainerFlags,
    ) -> Result<(), ConfigError> {
        self.containers.apply_flags(flags)?;
        for word in &flags.images {
            let source = Source::Flag("--toolchain-image");
            let Some((kind, image)) = word.split_once('=') else {
                let what = format!("missing image in '{word}'");
                return Err(ConfigError::new(&source, what)
                    .hint("use KIND=IMAGE, for example rust=rust:1.95"));
            };
            self.name_image(kind, Sourced::new(image.to_owned(), source))?;
        }
        self.apply_attach_flags(&flags.attach)
    }

    /// Applies `AIFO_BACKEND`, `AIFO_CODER_IMAGE_*`, and `AIFO_<KIND>_TOOLCHAIN_IMAGE` of every
    /// kind.
    pub(crate) fn apply_container_environment(
        &mut self,
        lookup: VariableLookup<'_>,
    ) -> Result<(), ConfigError> {
        self.containers.image_prefix.set(text(lookup, aifo_types::env::IMAGE_PREFIX)?);
        self.containers.image_tag.set(text(lookup, aifo_types::env::IMAGE_TAG)?);
        self.containers.registries.apply_environment(lookup)?;
        let backend = text(lookup, aifo_types::env::BACKEND)?;
        if let Some(word) = backend {
            self.containers.backend = parse_word(&Backend::WORDS, word, "backend")?;
        }
        let kinds = self.policy.kinds().iter().map(|policy| policy.kind.to_string());
        for kind in kinds.collect::<Vec<_>>() {
            if let Some(image) = text(lookup, aifo_types::env::toolchain_image(&kind))? {
                self.name_image(&kind, image)?;
            }
        }
        Ok(())
    }
}

/// Returns the values of `--backend`.
pub(crate) fn backend_words() -> Vec<&'static str> {
    Backend::WORDS.iter().map(|(_, word)| *word).collect()
}

/// Returns the values of `--net`.
pub(crate) fn net_words() -> Vec<&'static str> {
    NETS.iter().map(|(_, word)| *word).collect()
}

fn word_of<T: Copy + PartialEq>(words: &[(T, &'static str)], value: T) -> &'static str {
    words.iter().find(|(known, _)| *known == value).map(|(_, word)| *word).unwrap_or_default()
}

fn parse_word<T: Copy>(
    words: &[(T, &'static str)],
    sourced: Sourced<String>,
    key: &str,
) -> Result<Sourced<T>, ConfigError> {
    let Sourced { value, source } = sourced;
    match words.iter().find(|(_, word)| *word == value) {
        Some((chosen, _)) => Ok(Sourced::new(*chosen, source)),
        None => {
            let known: Vec<_> = words.iter().map(|(_, word)| *word).collect();
            Err(ConfigError::invalid_value(&source, &value, key, &known))
        }
    }
}

fn parse_cpus(sourced: Sourced<f64>) -> Result<Sourced<Option<f64>>, ConfigError> {
    if sourced.value.is_finite() && sourced.value > 0.0 {
        return Ok(Sourced::new(Some(sourced.value), sourced.source));
    }
    Err(ConfigError::new(&sourced.source, "cpus must be positive, for example 1.5"))
}

fn parse_subnets(
    sourced: Sourced<Vec<String>>,
) -> Result<Sourced<Option<Vec<Subnet>>>, ConfigError> {
    let Sourced { value, source } = sourced;
    let parsed = value.iter().map(|word| word.parse()).collect::<Result<Vec<Subnet>, _>>();
    match parsed {
        Ok(subnets) => Ok(Sourced::new(Some(subnets), source)),
        Err(error) => Err(ConfigError::new(&source, error.to_string())),
    }
}

/// Parses a size in the engines' form, `512m` or `4g`, to bytes.
fn parse_size(word: &str, source: &Source) -> Result<u64, ConfigError> {
    let word = word.trim().to_ascii_lowercase();
    let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match word.get(digits.len()..).unwrap_or_default() {
        "" | "b" => Some(1),
        "k" | "kb" | "kib" => Some(1 << 10),
        "m" | "mb" | "mib" => Some(1 << 20),
        "g" | "gb" | "gib" => Some(1 << 30),
        "t" | "tb" | "tib" => Some(1_u64 << 40),
        _ => None,
    };
    let number: Option<u64> = digits.parse().ok();
    let bytes = number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    match bytes {
        Some(bytes) if bytes == 0 || bytes >= MIN_MEMORY => Ok(bytes),
        Some(_) => Err(ConfigError::new(source, format!("memory '{word}' is too small"))
            .hint("use at least 6m")),
        None => Err(ConfigError::new(source, format!("invalid size '{word}'"))
            .hint("for example 512m or 4g; 0 for no limit")),
    }
}

/// Docker's lower bound.
const MIN_MEMORY: u64 = 6 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let source = Source::Flag("--memory");
        let rows = [
            ("0", 0),
            ("512m", 512 << 20),
            ("4G", 4 << 30),
            ("1gib", 1 << 30),
            ("7000000", 7_000_000),
        ];
        for (word, bytes) in rows {
            assert_eq!(parse_size(word, &source).unwrap(), bytes, "{word}");
        }
        for word in ["", "g", "-1", "4x", "1k", "99999999999g"] {
            assert!(parse_size(word, &source).is_err(), "{word}");
        }
    }
}
