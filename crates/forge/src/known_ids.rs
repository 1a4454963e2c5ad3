//! Ids of a forge's objects, by which mutations name them (`spec/forges.md#graphql`).

use std::collections::HashMap;

use serde_json::Value;

use crate::graphql::ApiError;
use crate::request::RepositoryPath;

/// Ids that are remembered. Later ones are unknown.
const MAX_IDS: usize = 1 << 16;

/// Ids that the answers about the project's repositories had.
#[derive(Clone, Debug, Default)]
pub struct KnownIds(pub(crate) HashMap<String, KnownId>);

/// What is known of an id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownId {
    /// `None` for people and boards.
    pub(crate) repository: Option<RepositoryPath>,
    /// Of an issue or pull request, if it was asked for.
    pub(crate) number: Option<u64>,
}

impl KnownIds {
    pub(crate) fn keep(&mut self, id: String, of: KnownId) {
        if let Some(known) = self.0.get_mut(&id) {
            known.number = known.number.or(of.number);
        } else if self.0.len() < MAX_IDS {
            self.0.insert(id, of);
        }
    }

    pub(crate) fn extend(&mut self, found: KnownIds) {
        found.0.into_iter().for_each(|(id, of)| self.keep(id, of));
    }

    /// Returns the repository of an id; of people and boards there is none.
    pub(crate) fn repository_of_id(&self, id: &str) -> Result<RepositoryPath, ApiError> {
        let repository = self.0.get(id).and_then(|known| known.repository.clone());
        repository.ok_or_else(|| unknown_id(id))
    }

    /// Returns the repository of all ids in the input of a mutation, and their numbers.
    pub(crate) fn repository_of(
        &self,
        input: &Value,
    ) -> Result<(RepositoryPath, Vec<u64>), ApiError> {
        let (mut ids, mut numbers) = (Vec::new(), Vec::new());
        collect_ids(input, false, &mut ids);
        let mut found: Option<&RepositoryPath> = None;
        for id in ids {
            let known = self.0.get(id).ok_or_else(|| unknown_id(id))?;
            numbers.extend(known.number);
            match (found, &known.repository) {
                (Some(found), Some(of_id)) if found != of_id => {
                    return Err(ApiError::Elsewhere("it is about two repositories".to_owned()));
                }
                (_, Some(of_id)) => found = Some(of_id),
                (_, None) => {}
            }
        }
        let none = || ApiError::Elsewhere("it names nothing of a repository".to_owned());
        Ok((found.cloned().ok_or_else(none)?, numbers))
    }
}

/// Collects texts of members that are ids by name.
fn collect_ids<'a>(value: &'a Value, is_id: bool, ids: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if is_id => ids.push(text),
        Value::Array(list) => list.iter().for_each(|value| collect_ids(value, is_id, ids)),
        Value::Object(members) => {
            for (name, value) in members {
                let is_id = name == "id" || name.ends_with("Id") || name.ends_with("Ids");
                collect_ids(value, is_id && name != "clientMutationId", ids);
            }
        }
        _ => {}
    }
}

fn unknown_id(id: &str) -> ApiError {
    let id: String = id.chars().take(64).flat_map(char::escape_debug).collect();
    ApiError::Elsewhere(format!("no answer about the project's repositories had the id '{id}'"))
}
