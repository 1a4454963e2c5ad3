//! Enumerations, sizes and ranges of a session configuration.

use aifo_agents::{StateImport, StateMode};
use aifo_engine::Flavor;
use aifo_host::CacheScope;
use aifo_launch::{BackendChoice, ConfinementMode};
use aifo_network::check_published;
use aifo_process::{Restriction, UnknownRestriction};
use aifo_sidecar::Net;
use aifo_terminal::DetachSequence;
use aifo_types::{Endpoint, Subnet};
use serde::Deserialize;
use serde_json::json;

use crate::error::ConfigError;
use crate::format::{Format, displayed, enumeration, names, plain, word_of};
use crate::item::Item;

/// Smart decisions for both runtimes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmartMode {
    /// As in the table of agents.
    Auto,
    On,
    Off,
}

enumeration!(BACKEND: BackendChoice = [
    (BackendChoice::Auto, "auto"),
    (BackendChoice::Engine(Flavor::Docker), "docker"),
    (BackendChoice::Engine(Flavor::Podman), "podman"),
    (BackendChoice::Local, "local"),
    (BackendChoice::Pod, "pod"),
    (BackendChoice::Kubernetes, "kubernetes"),
]);
enumeration!(CONFINE: ConfinementMode = [
    (ConfinementMode::Auto, "auto"),
    (ConfinementMode::Required, "required"),
    (ConfinementMode::Namespace, "namespace"),
    (ConfinementMode::Off, "off"),
]);
enumeration!(STATE: StateMode = [(StateMode::Own, "own"), (StateMode::Host, "host")]);
/// How an agent in a container uses the user's model keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyMode {
    /// A proxy adds them to requests.
    Proxy,
    /// The agent gets them.
    Pass,
}
/// The fate of a session whose terminal is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnHangup {
    /// It ends.
    End,
    /// It continues.
    Detach,
}
enumeration!(ON_HANGUP: OnHangup =
    [(OnHangup::End, "end"), (OnHangup::Detach, "detach")]);
enumeration!(KEY_MODE: KeyMode = [(KeyMode::Proxy, "proxy"), (KeyMode::Pass, "pass")]);
enumeration!(STATE_IMPORT: StateImport =
    [(StateImport::Settings, "settings"), (StateImport::Conversations, "conversations")]);
enumeration!(SMART: SmartMode =
    [(SmartMode::Auto, "auto"), (SmartMode::On, "on"), (SmartMode::Off, "off")]);

const NET_WORDS: [(Net, &str); 6] = [
    (Net::Names, "names"),
    (Net::Learn, "learn"),
    (Net::Shared, "open"),
    (Net::Separate, "separate"),
    (Net::None, "none"),
    (Net::Host, "host"),
];

pub(crate) const NET: Format<Net> = Format {
    parse: |item| match item.text()?.as_str() {
        // Its former word.
        "shared" => Ok(Net::Shared),
        text => item.choose(text, &NET_WORDS),
    },
    show: |net| json!(word_of(&NET_WORDS, net)),
    words: || names(&NET_WORDS),
};

const CACHE_WORDS: [(CacheScope, &str); 3] =
    [(CacheScope::Project, "project"), (CacheScope::User, "user"), (CacheScope::None, "none")];

pub(crate) const CACHES: Format<CacheScope> = Format {
    parse: parse_caches,
    show: |scope| json!(word_of(&CACHE_WORDS, scope)),
    words: || names(&CACHE_WORDS),
};
/// `None`: no keys.
pub(crate) const DETACH_KEYS: Format<Option<DetachSequence>> = Format::new(
    |item| {
        let text = item.text()?;
        if text == "none" {
            return Ok(None);
        }
        let hint = "expected two keys such as 'ctrl-p,q', the first one with ctrl-, or none";
        let keys = DetachSequence::parse(&text);
        keys.map(Some).ok_or_else(|| item.error(format!("invalid keys '{text}': {hint}")))
    },
    |keys| json!(keys.map_or_else(|| "none".to_owned(), |keys| keys.to_string())),
);
/// `None`: a unix socket in the session directory.
pub(crate) const LISTEN: Format<Option<Endpoint>> = Format::new(
    |item| item.text()?.parse().map(Some).map_err(|error| item.error(format!("{error}"))),
    |endpoint| json!(endpoint.as_ref().map(ToString::to_string)),
);
pub(crate) const SIZE: Format<Option<u64>> = Format::new(|item| parse_size(item).map(Some), plain);
pub(crate) const CPUS: Format<Option<f64>> = Format::new(
    |item| match item.number("a number")? {
        // Docker's lower bound, and more than any machine has.
        cpus if (0.01..=65536.0).contains(&cpus) => Ok(Some(cpus)),
        _ => Err(item.error("cpus must be from 0.01 to 65536, for example 1.5")),
    },
    plain,
);
pub(crate) const POOLS: Format<Option<Vec<Subnet>>> = Format::new(
    |item| subnets(item).map(Some),
    |pools| pools.as_ref().map_or(json!(null), |pools| displayed(pools)),
);
fn subnets(item: &Item<'_>) -> Result<Vec<Subnet>, ConfigError> {
    let parsed = item.list()?.iter().map(|word| word.parse()).collect::<Result<_, _>>();
    parsed.map_err(|error: aifo_types::InvalidSubnet| item.error(error.to_string()))
}
/// The engine network.
pub(crate) const NETWORK: Format<Option<String>> = Format::new(
    |item| {
        let name = item.text()?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        // Words of engines that are no network with others.
        let is_mode = ["host", "none", "default", "private", "pasta", "slirp4netns"];
        match starts_well && name.bytes().all(plain) && !is_mode.contains(&name.as_str()) {
            true => Ok(Some(name)),
            false => Err(item
                .error(format!("invalid network '{name}'"))
                .hint("name a network of the engine, such as one of compose".to_owned())),
        }
    },
    |network| json!(network),
);
/// Published ports.
pub(crate) const PUBLISH: Format<Vec<String>> = Format::new(
    |item| {
        let values = item.list()?;
        let invalid = values.iter().find_map(|value| check_published(value).err());
        match invalid.map(|error| error.to_string()) {
            None => Ok(values),
            Some(text) => match text.split_once("\nhint: ") {
                Some((what, hint)) => Err(item.error(what).hint(hint)),
                None => Err(item.error(text)),
            },
        }
    },
    plain,
);
/// Ports, each once; 53 is DNS.
pub(crate) const PORTS: Format<Vec<u16>> = Format::new(
    |item| {
        let words = match item.flag_words() {
            Some(words) => words.to_vec(),
            None => item.toml::<Vec<i64>>()?.iter().map(ToString::to_string).collect(),
        };
        let parse = |word: &String| {
            let port = word.parse::<u16>().ok().filter(|port| ![0, 53].contains(port));
            port.ok_or_else(|| {
                let hint = "use a number from 1 to 65535, but not 53";
                item.error(format!("invalid port '{word}'")).hint(hint)
            })
        };
        let mut ports = words.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        ports.sort_unstable();
        ports.dedup();
        Ok(ports)
    },
    plain,
);
/// Subnets of addresses.
pub(crate) const SUBNETS: Format<Vec<Subnet>> = Format::new(subnets, |subnets| displayed(subnets));
/// Restrictions of system calls to leave out.
pub(crate) const RESTRICTIONS: Format<Vec<Restriction>> = Format::new(
    |item| {
        let parsed = item.list()?.iter().map(|word| word.parse()).collect::<Result<_, _>>();
        parsed.map_err(|error: UnknownRestriction| {
            let known = Restriction::ALL.map(Restriction::name).join(", ");
            item.error(error.to_string()).hint(format!("restrictions are: {known}"))
        })
    },
    |restrictions| displayed(restrictions),
);
/// A program by its absolute path, with arguments.
pub(crate) const PROGRAM: Format<Option<Vec<String>>> = Format::new(
    |item| {
        let words = item.list()?;
        let program = words.first().map(String::as_str).unwrap_or_default();
        if program.starts_with('/') {
            return Ok(Some(words));
        }
        let hint = "for example: command = [\"/usr/bin/notify-send\", \"{args}\"]";
        Err(item.error(format!("command '{program}' is not an absolute path")).hint(hint))
    },
    plain,
);

/// `caches` in a file: a word, or the older form, on or off.
#[derive(Deserialize)]
#[serde(untagged, expecting = "caches is \"project\", \"user\" or \"none\"")]
enum Caches {
    Word(String),
    Switch(bool),
}

fn parse_caches(item: &Item<'_>) -> Result<CacheScope, ConfigError> {
    if item.flag_words().is_some() {
        return item.word(&CACHE_WORDS);
    }
    match item.toml()? {
        Caches::Word(word) => item.choose(&word, &CACHE_WORDS),
        Caches::Switch(true) => Ok(CacheScope::Project),
        Caches::Switch(false) => Ok(CacheScope::None),
    }
}

/// Parses a size in the engines' form, `512m` or `4g`, to bytes.
fn parse_size(item: &Item<'_>) -> Result<u64, ConfigError> {
    let word = item.text()?.trim().to_ascii_lowercase();
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
    match number.zip(factor).and_then(|(number, factor)| number.checked_mul(factor)) {
        Some(bytes) if bytes == 0 || bytes >= MIN_MEMORY => Ok(bytes),
        Some(_) => Err(item.error(format!("memory '{word}' is too small")).hint("use at least 6m")),
        None => Err(item
            .error(format!("invalid size '{word}'"))
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
        let parse = |word: &str| {
            let words = [word.to_owned()];
            parse_size(&Item::of_flag("containers.memory", "--memory", &words))
        };
        let rows = [
            ("0", 0),
            ("512m", 512 << 20),
            ("4G", 4 << 30),
            ("1gib", 1 << 30),
            ("7000000", 7_000_000),
        ];
        for (word, bytes) in rows {
            assert_eq!(parse(word).unwrap(), bytes, "{word}");
        }
        for word in ["", "g", "-1", "4x", "1k", "99999999999g"] {
            assert!(parse(word).is_err(), "{word}");
        }
    }
}
