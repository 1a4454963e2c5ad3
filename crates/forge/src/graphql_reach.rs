//! Judges what an operation reads and changes, and keeps ids of its answer (`spec/forges.md#graphql`).

use std::collections::{BTreeMap, HashSet};

use graphql_parser::query::{Field, Selection, SelectionSet};
use serde_json::Value;

use crate::api::{ApiChange, repository_named};
use crate::graphql::{ApiError, GraphQlRequest, Operation, Text};
use crate::graphql_fields::{Reach, mutation};
use crate::known_ids::{KnownId, KnownIds};
use crate::request::RepositoryPath;

/// A mutation.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The repository.
    pub repository: RepositoryPath,
    /// The change.
    pub change: ApiChange,
    /// Its name.
    pub name: String,
    /// The numbers of issues and pull requests that it is about, as far as they are known.
    pub numbers: Vec<u64>,
    /// Its input.
    pub input: Value,
}

/// Selections that are walked, with those of fragments at each use.
const MAX_SELECTIONS: usize = 20_000;
const MAX_DEPTH: usize = 64;

impl GraphQlRequest {
    /// Checks that the operation reads and changes nothing but the project's `repositories`. Returns its change; `None` for a query.
    pub fn judge(
        &self,
        repositories: &[RepositoryPath],
        known: &KnownIds,
    ) -> Result<Option<Mutation>, ApiError> {
        let operation = self.operation()?;
        let mut walk = Walk { operation: &operation, repositories, known, left: MAX_SELECTIONS };
        match operation.is_mutation {
            true => walk.mutation().map(Some),
            false => walk.query().map(|()| None),
        }
    }

    /// Keeps ids of its answer. It was [judged](Self::judge) before.
    pub fn keep_ids(&self, answer: &Value, repositories: &[RepositoryPath], known: &mut KnownIds) {
        let (Ok(operation), Some(data)) = (self.operation(), answer.get("data")) else { return };
        let mut walk = Walk { operation: &operation, repositories, known, left: MAX_SELECTIONS };
        let (Ok(roots), mut found) = (walk.roots(), KnownIds::default()) else { return };
        let names: HashSet<_> = roots.iter().map(|root| key(root)).collect();
        if names.len() < roots.len() {
            return;
        }
        for root in roots {
            let of_root = walk.root(root);
            let (Ok((reach, repository)), Some(data)) = (of_root, data.get(key(root))) else {
                continue;
            };
            walk.keep(&[&root.selection_set], data, (reach, &repository), &mut found, 0);
        }
        known.extend(found);
    }
}

type OwnField = Field<'static, Text>;

/// Returns its name in answers.
fn key(field: &OwnField) -> &str {
    field.alias.as_ref().unwrap_or(&field.name)
}

struct Walk<'a> {
    operation: &'a Operation<'a>,
    repositories: &'a [RepositoryPath],
    known: &'a KnownIds,
    left: usize,
}

impl<'a> Walk<'a> {
    fn query(&mut self) -> Result<(), ApiError> {
        for root in self.roots()? {
            if root.name == "__typename" {
                continue;
            }
            let (reach, _) = self.root(root)?;
            self.check(&root.selection_set, reach, 0)?;
        }
        Ok(())
    }

    fn mutation(&mut self) -> Result<Mutation, ApiError> {
        let roots = self.roots()?;
        let &[root] = roots.as_slice() else {
            return Err(ApiError::Document("a request has one mutation".to_owned()));
        };
        let refused = || ApiError::Elsewhere(format!("'{}' is not passed on", root.name));
        let change = mutation(&root.name).ok_or_else(refused)?;
        let input = self.input(root)?;
        let (repository, numbers) = self.known.repository_of(&input)?;
        self.check(&root.selection_set, Reach::Project, 0)?;
        Ok(Mutation { repository, change, name: root.name.clone(), numbers, input })
    }

    fn input(&self, mutation: &OwnField) -> Result<Value, ApiError> {
        let input = match mutation.arguments.as_slice() {
            [(name, input)] if name == "input" => self.operation.arguments.value(input),
            _ => None,
        };
        input.ok_or_else(|| ApiError::Document("a mutation has an 'input'".to_owned()))
    }

    /// Returns its own fields, those in fragments, too.
    fn roots(&mut self) -> Result<Vec<&'a OwnField>, ApiError> {
        let mut fields = Vec::new();
        self.fields(self.operation.selections, 0, &mut fields)?;
        Ok(fields)
    }

    /// Collects the fields of a selection, with those of its fragments.
    fn fields(
        &mut self,
        selections: &'a SelectionSet<'static, Text>,
        depth: usize,
        fields: &mut Vec<&'a OwnField>,
    ) -> Result<(), ApiError> {
        let long = || ApiError::Document("the query is too large".to_owned());
        if depth > MAX_DEPTH {
            return Err(long());
        }
        for selection in &selections.items {
            self.left = self.left.checked_sub(1).ok_or_else(long)?;
            match selection {
                Selection::Field(field) => fields.push(field),
                Selection::InlineFragment(inline) => {
                    self.fields(&inline.selection_set, depth + 1, fields)?;
                }
                Selection::FragmentSpread(spread) => {
                    let fragment = self.operation.fragments.get(spread.fragment_name.as_str());
                    let unknown = || ApiError::Document("a fragment is missing".to_owned());
                    let fragment = fragment.ok_or_else(unknown)?;
                    self.fields(&fragment.selection_set, depth + 1, fields)?;
                }
            }
        }
        Ok(())
    }

    /// Returns where a field of the operation leads, and the repository.
    fn root(&self, root: &OwnField) -> Result<(Reach, Option<RepositoryPath>), ApiError> {
        let argument = |name: &str| {
            let mut of_name = root.arguments.iter().filter(|(own, _)| own == name);
            match (of_name.next(), of_name.next()) {
                (Some((_, literal)), None) => self.operation.arguments.value(literal),
                _ => None,
            }
        };
        let text = |name: &str| argument(name).and_then(|value| value.as_str().map(str::to_owned));
        if self.operation.is_mutation {
            let (repository, _) = self.known.repository_of(&self.input(root)?)?;
            return Ok((Reach::Project, Some(repository)));
        }
        match root.name.as_str() {
            "repository" => {
                let path =
                    text("owner").zip(text("name")).map(|(owner, name)| format!("{owner}/{name}"));
                let path = path.ok_or_else(|| {
                    ApiError::Document("'repository' has 'owner' and 'name'".to_owned())
                })?;
                Ok((Reach::Project, Some(self.own_repository(&path)?)))
            }
            "node" => {
                let id = text("id").unwrap_or_default();
                Ok((Reach::Project, Some(self.known.repository_of_id(&id)?)))
            }
            "search" => {
                let (query, kind) = (text("query").unwrap_or_default(), text("type"));
                let is_issues =
                    kind.is_some_and(|kind| ["ISSUE", "ISSUE_ADVANCED"].contains(&kind.as_str()));
                let of_issues = searched_repository(&query).filter(|_| is_issues);
                let wide = "a search names one of the project's repositories by 'repo:', and nothing wider";
                let path = of_issues.ok_or_else(|| ApiError::Elsewhere(wide.to_owned()))?;
                Ok((Reach::Project, Some(self.own_repository(path)?)))
            }
            "viewer" => Ok((Reach::About, None)),
            "__schema" | "__type" | "rateLimit" => Ok((Reach::Schema, None)),
            other => Err(ApiError::Elsewhere(format!("'{other}' is not passed on"))),
        }
    }

    fn own_repository(&self, path: &str) -> Result<RepositoryPath, ApiError> {
        let shown = path.escape_debug();
        let other = || ApiError::Elsewhere(format!("'{shown}' is none of the project's remotes"));
        repository_named(self.repositories, path).cloned().ok_or_else(other)
    }

    fn check(
        &mut self,
        selections: &'a SelectionSet<'static, Text>,
        reach: Reach,
        depth: usize,
    ) -> Result<(), ApiError> {
        if depth > MAX_DEPTH {
            return Err(ApiError::Document("the query is too deep".to_owned()));
        }
        let mut fields = Vec::new();
        self.fields(selections, depth, &mut fields)?;
        for field in fields {
            let unknown = || {
                ApiError::Elsewhere(format!(
                    "the field '{}' may lead to other repositories",
                    field.name
                ))
            };
            if field.selection_set.items.is_empty() {
                if !reach.has_value(&field.name) {
                    return Err(unknown());
                }
                continue;
            }
            let below = reach.enter(&field.name).ok_or_else(unknown)?;
            self.check(&field.selection_set, below, depth + 1)?;
        }
        Ok(())
    }

    /// Keeps ids of data that selections have given, which are merged as servers do: fragments for several types may give
    /// one name to different fields, and those are left out.
    fn keep(
        &mut self,
        selections: &[&'a SelectionSet<'static, Text>],
        data: &Value,
        (reach, repository): (Reach, &Option<RepositoryPath>),
        ids: &mut KnownIds,
        depth: usize,
    ) {
        if let Value::Array(list) = data {
            for data in list {
                self.keep(selections, data, (reach, repository), ids, depth);
            }
            return;
        }
        // An answer is bounded, and so is its walk.
        self.left = MAX_SELECTIONS;
        let mut fields = Vec::new();
        for selections in selections {
            if depth > MAX_DEPTH || self.fields(selections, depth, &mut fields).is_err() {
                return;
            }
        }
        let mut of_key: BTreeMap<&str, Vec<&OwnField>> = BTreeMap::new();
        for field in fields {
            of_key.entry(key(field)).or_default().push(field);
        }
        let is_number = |fields: &[&OwnField]| fields.iter().all(|field| field.name == "number");
        let mut numbers = of_key.iter().filter(|(_, fields)| is_number(fields));
        let number = numbers.next().and_then(|(key, _)| data.get(key)?.as_u64());
        for (key, fields) in of_key {
            let (Some(value), Some(first)) = (data.get(key), fields.first()) else { continue };
            if fields.iter().any(|field| field.name != first.name) {
                continue;
            }
            if let ("id", Value::String(id)) = (first.name.as_str(), value)
                && matches!(reach, Reach::Project | Reach::About)
            {
                let repository = repository.clone().filter(|_| reach == Reach::Project);
                ids.keep(id.clone(), KnownId { repository, number });
            }
            if let Some(below) = reach.enter(&first.name) {
                let below_fields: Vec<_> =
                    fields.iter().map(|field| &field.selection_set).collect();
                self.keep(&below_fields, value, (below, repository), ids, depth + 1);
            }
        }
    }
}

/// Returns the one repository in which GitHub searches. `None` if it may search in others.
fn searched_repository(query: &str) -> Option<&str> {
    let lower = query.to_ascii_lowercase();
    let is_wide = WIDE.iter().any(|part| lower.contains(part))
        || lower.split(' ').any(|word| word == "or")
        || query.chars().any(|it| it != ' ' && (it.is_whitespace() || it.is_control()));
    let at = lower.find(REPO).filter(|_| !is_wide && lower.matches(REPO).count() == 1)?;
    let before = query.get(..at)?;
    let is_word =
        (before.is_empty() || before.ends_with(' ')) && before.matches('"').count() % 2 == 0;
    query.get(at + REPO.len()..)?.split(' ').next().filter(|_| is_word)
}

const REPO: &str = "repo:";

/// Parts that widen searches.
const WIDE: &[&str] = &["user:", "org:", "owner:", "enterprise:", "(", ")", "\\"];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn own() -> Vec<RepositoryPath> {
        vec![RepositoryPath::parse("o/r").unwrap()]
    }

    fn request(query: &str, variables: Value) -> Result<GraphQlRequest, ApiError> {
        GraphQlRequest::parse(
            json!({"query": query, "variables": variables}).to_string().as_bytes(),
        )
    }

    fn judge(
        query: &str,
        variables: Value,
        known: &KnownIds,
    ) -> Result<Option<Mutation>, ApiError> {
        request(query, variables)?.judge(&own(), known)
    }

    /// The ids after the answer of a forge.
    fn known() -> KnownIds {
        let query = "fragment f on Repository{id parent{id}} \
            query Q($o:String!){viewer{id} a:repository(owner:$o,name:\"R\"){...f pullRequest(number:1){number key:id author{id} headRepository{id}}}}";
        let answer = json!({"data": {"viewer": {"id": "U_me"}, "a": {
            "id": "R_own", "parent": {"id": "R_parent"},
            "pullRequest": {"number": 1, "key": "PR_1", "author": {"id": "U_1"}, "headRepository": {"id": "R_fork"}},
        }}});
        let request = request(query, json!({"o": "O"})).unwrap();
        let mut known = KnownIds::default();
        assert_eq!(request.judge(&own(), &known), Ok(None));
        request.keep_ids(&answer, &own(), &mut known);
        let mut ids: Vec<_> =
            known.0.iter().map(|(id, of)| (id.as_str(), of.repository.is_some())).collect();
        ids.sort_unstable();
        assert_eq!(ids, [("PR_1", true), ("R_own", true), ("U_1", false), ("U_me", false)]);
        known
    }

    #[test]
    fn reading_the_own_repository_passes() {
        let known = known();
        for query in [
            "{viewer{login}}",
            "{__typename repository(owner:\"o\",name:\"r\"){issues(first:3){nodes{title body author{login}}pageInfo{hasNextPage}}}}",
            "query($id:ID!){node(id:$id){...on PullRequest{comments(last:1){nodes{body}}}}}",
            "{PullRequest:__type(name:\"PullRequest\"){fields(includeDeprecated:true){name}}}",
            "{search(query:\"label:x repo:o/r is:open\",type:ISSUE,first:1){nodes{...on Issue{title}}}}",
            "# {search}\n{repository(owner:\"O\",name:\"R\"){name}}",
        ] {
            assert_eq!(judge(query, json!({"id": "PR_1"}), &known), Ok(None), "{query}");
        }
    }

    #[test]
    fn a_name_for_different_fields_makes_no_id() {
        let before = known();
        let both = |one: &str, other: &str| {
            let pull_request = format!("...on PullRequest{{{one}}}...on Issue{{{other}}}");
            format!(
                "{{repository(owner:\"o\",name:\"r\"){{issueOrPullRequest(number:1){{{pull_request}}}}}}}"
            )
        };
        for (query, data) in [
            (both("k:id", "k:title"), json!({"k": "R_secret"})),
            (both("a:headRepository{id}", "a:repository{id}"), json!({"a": {"id": "R_secret"}})),
            (
                both("a:comments{nodes{k:id}}", "a:comments{nodes{k:body}}"),
                json!({"a": {"nodes": [{"k": "R_secret"}]}}),
            ),
        ] {
            let request = request(&query, json!({})).unwrap();
            assert_eq!(request.judge(&own(), &before), Ok(None), "{query}");
            let answer = json!({"data": {"repository": {"issueOrPullRequest": data}}});
            let mut known = before.clone();
            request.keep_ids(&answer, &own(), &mut known);
            assert_eq!(known.0, before.0, "{query}");
        }
    }

    #[test]
    fn mutations_are_known_and_about_the_own_repository() {
        let known = known();
        let create = "mutation C($input:CreatePullRequestInput!){createPullRequest(input:$input){pullRequest{id url}}}";
        let input = json!({"repositoryId": "R_own", "title": "t", "clientMutationId": "x"});
        let mutation = judge(create, json!({"input": input}), &known).unwrap().unwrap();
        assert_eq!((mutation.change.is_each, mutation.repository.as_str()), (false, "o/r"));
        assert_eq!(mutation.input["title"], "t");
        let merge = "mutation{mergePullRequest(input:{pullRequestId:\"PR_1\"}){clientMutationId}}";
        let merge = judge(merge, json!({}), &known).unwrap().unwrap();
        assert!(merge.change.is_each && merge.numbers == [1] && merge.name == "mergePullRequest");
        for (query, input) in [
            (create, json!({"repositoryId": "R_parent"})),
            (create, json!({"repositoryId": "R_own", "headRepositoryId": "R_fork"})),
            (create, json!({"repositoryId": ["R_own", "R_x"]})),
            (create, json!({"repositoryId": "U_me"})),
            (create, json!({"title": "no id"})),
            (
                "mutation C($input:X!){a:createPullRequest(input:$input){clientMutationId} b:addComment(input:$input){clientMutationId}}",
                json!({"repositoryId": "R_own"}),
            ),
            (
                "mutation C($input:X!){...f} fragment f on Mutation{addComment(input:$input){clientMutationId} mergePullRequest(input:$input){clientMutationId}}",
                json!({"subjectId": "PR_1"}),
            ),
            (
                "mutation C($input:X!){updateRef(input:$input){clientMutationId}}",
                json!({"refId": "PR_1"}),
            ),
            (
                "mutation C($input:X!){addComment:createCommitOnBranch(input:$input){clientMutationId}}",
                json!({"branchId": "PR_1"}),
            ),
            (
                "mutation C($input:X!){addComment(input:$input){subject{repository{owner{repositories{nodes{name}}}}}}}",
                json!({"subjectId": "PR_1"}),
            ),
        ] {
            assert!(judge(query, json!({"input": input}), &known).is_err(), "{query} {input}");
        }
    }

    #[test]
    fn other_repositories_are_not_reached() {
        let known = known();
        let search = |query: &str| {
            format!(
                "{{search(query:\"{query}\",type:ISSUE,first:1){{nodes{{...on Issue{{title}}}}}}}}"
            )
        };
        let repository =
            |fields: &str| format!("{{repository(owner:\"o\",name:\"r\"){{{fields}}}}}");
        for query in [
            "{repository(owner:\"o\",name:\"secret\"){name}}".to_owned(),
            search("repo:o/secret"),
            search("x"),
            search("repo:o/r repo:o/secret"),
            search("repo:o/r user:o"),
            search("repo:o/r OR x"),
            search("-repo:o/r"),
            search("\\\"repo:o/r\\\""),
            search("\\\"x repo:o/r\\\""),
            search("repo:o/r\u{3000}or x"),
            search("repo:o/r").replace("ISSUE", "REPOSITORY"),
            "{nodes(ids:[\"PR_1\"]){id}}".to_owned(),
            "{node(id:\"R_parent\"){id}}".to_owned(),
            "{node(id:\"U_me\"){...on User{repositories(first:1){nodes{name}}}}}".to_owned(),
            "{viewer{repositories(first:1){nodes{name}}}}".to_owned(),
            "{viewer{repository(name:\"secret\"){description}}}".to_owned(),
            "{organization(login:\"o\"){repositories{nodes{name}}}}".to_owned(),
            "{relay{repository(owner:\"o\",name:\"secret\"){name}}}".to_owned(),
            repository("owner{repository(name:\"secret\"){name}}"),
            repository("owner{...on User{repositories(first:1){nodes{name}}}}"),
            repository("parent{object(expression:\"HEAD:x\"){...on Blob{text}}}"),
            repository("parent{issues(first:1){nodes{title}}}"),
            repository(
                "pullRequests(first:1){nodes{closingIssuesReferences(first:1){nodes{body}}}}",
            ),
            repository("pullRequests(first:1){nodes{headRepository{homepageUrl}}}"),
            repository("issue(number:1){timelineItems(first:1){nodes{__typename}}}"),
            repository("...f") + " fragment f on Repository{...g} fragment g on Repository{...f}",
            repository("...missing"),
            repository("name") + "{viewer{login}}",
            "subscription{x{y}}".to_owned(),
            "{repository(owner:\"o\",owner:\"x\",name:\"r\"){name}}".to_owned(),
            "{repository(owner:\"o\",name:\"r\\u002f\"){name}}".to_owned(),
            "{repository(owner:\"\"\"o\"\"\",name:\"\"\"r\nx\"\"\"){name}}".to_owned(),
            "query($o:String!){repository(owner:$o,name:\"r\"){name}}".to_owned(),
            "query($o:String=\"x\"){repository(owner:$o,name:\"r\"){name}}".to_owned(),
            "query($o:String=\"o\",$o:String=\"x\"){repository(owner:$o,name:\"r\"){name}}"
                .to_owned(),
        ] {
            assert!(judge(&query, json!({}), &known).is_err(), "{query}");
        }
        let mut doubling = repository("...f0");
        for number in 0..60 {
            doubling += &format!("fragment f{number} on X{{...f{0} ...f{0}}}", number + 1);
        }
        assert!(judge(&(doubling + "fragment f60 on X{id}"), json!({}), &known).is_err());
        let deep = "{a".repeat(10_000) + &"}".repeat(10_000);
        assert!(judge(&deep, json!({}), &known).is_err());
    }

    #[test]
    fn a_body_has_one_request() {
        let query = "{viewer{login}}";
        for body in [
            json!([{"query": query}]).to_string(),
            json!({"query": query, "extensions": {}}).to_string(),
            json!({"query": query, "operationName": "x"}).to_string(),
            json!({"query": query, "variables": []}).to_string(),
            json!({"id": "x"}).to_string(),
            format!("query={query}"),
            String::new(),
        ] {
            assert!(GraphQlRequest::parse(body.as_bytes()).is_err(), "{body}");
        }
        let twice = format!("{{\"query\": \"mutation{{x}}\", \"query\": \"{query}\"}}");
        let written = GraphQlRequest::parse(twice.as_bytes()).unwrap().body().to_string();
        assert!(!written.contains("mutation") && written.contains("login"), "{written}");
    }
}
