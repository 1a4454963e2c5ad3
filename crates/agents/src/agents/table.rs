//! The known agents: a file for each, with the fields of [`AgentSpec`].

use std::sync::LazyLock;

use super::{AgentSpec, BaseUrl};

/// The files of `known/`, by name.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/known.rs"));

static AGENTS: LazyLock<Vec<AgentSpec>> = LazyLock::new(|| {
    let read = |&(file, text): &(&str, &str)| {
        // The file is part of the program, and a test reads all of them.
        let name = file.trim_end_matches(".toml");
        AgentSpec::read(name, text).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    FILES.iter().map(read).collect()
});

/// Returns the known agents, sorted by name.
pub fn known_agents() -> &'static [AgentSpec] {
    &AGENTS
}

impl AgentSpec {
    /// Reads an agent file, and fills in defaults that follow from other fields.
    fn read(name: &str, text: &str) -> Result<Self, toml::de::Error> {
        let mut spec: AgentSpec = toml::from_str(text)?;
        name.clone_into(&mut spec.name);
        if spec.command.is_empty() {
            spec.command.push(name.to_owned());
        }
        for file in spec.credentials.iter_mut().chain(&mut spec.import) {
            if file.to.as_os_str().is_empty() {
                file.to.clone_from(&file.from);
            }
        }
        for row in &mut spec.keys {
            if let (BaseUrl::Variable(name), None) = (&row.base, &row.user_base) {
                row.user_base = Some(name.clone());
            }
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_is_read() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/known");
        let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "toml"));
        let mut found: Vec<_> =
            paths.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        found.sort();
        let known: Vec<_> = known_agents().iter().map(|agent| agent.name.as_str()).collect();
        assert_eq!(found, known);
    }

    #[test]
    fn the_spec_lists_every_field() {
        const PAGE: &str = include_str!("../../../../spec/agents.md");
        let listed = |head: &str| -> BTreeSet<&str> {
            let (_, table) = PAGE.split_once(head).unwrap();
            let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("| `"));
            rows.flat_map(|row| row.split_once(" |").unwrap().0.split(['`', ' ']))
                .filter(|name| !name.is_empty())
                .collect()
        };
        let files: Vec<toml::Table> =
            FILES.iter().map(|(_, text)| toml::from_str(text).unwrap()).collect();
        let fields = files.iter().flat_map(|file| file.keys().map(String::as_str));
        assert_eq!(listed("| field | meaning |"), fields.collect());
        let acp = files.iter().filter_map(|file| file.get("acp")?.as_table());
        let of_acp = listed("| field of `acp` | meaning |");
        let unlisted = acp.flat_map(|acp| acp.keys()).find(|key| !of_acp.contains(key.as_str()));
        assert_eq!(unlisted, None);
    }

    #[test]
    fn a_field_that_is_unknown_is_an_error() {
        for text in ["name = \"x\"", "hosts.models = []", "acp.fs = 1", "[[keys]]\nkey = \"K\""] {
            assert!(AgentSpec::read("it", text).is_err(), "{text}");
        }
        assert_eq!(AgentSpec::read("it", "").unwrap(), AgentSpec::unknown("it"));
    }
}
