//! A request of GraphQL: one operation, which is written anew (`spec/forges.md#graphql`).

use std::collections::HashMap;

use graphql_parser::query::{
    Definition, Document, FragmentDefinition, OperationDefinition, SelectionSet, Value as Literal,
    VariableDefinition,
};
use serde_json::{Map, Value, json};

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// It is not in the form of GraphQL over HTTP.
    #[error("a request of GraphQL has 'query', 'variables' and 'operationName' alone: {0}")]
    Form(String),
    /// The document is invalid, or has a part that is not judged.
    #[error("{0}")]
    Document(String),
    /// It is about something else.
    #[error(
        "{0}\nhint: the project's own repositories are read, and 'gh' changes issues and pull requests"
    )]
    Elsewhere(String),
}

pub(crate) type Text = String;

/// A request with one operation.
#[derive(Clone, Debug)]
pub struct GraphQlRequest {
    document: Document<'static, Text>,
    /// The document, printed.
    query: Text,
    variables: Map<String, Value>,
}

/// A document's operation.
pub(crate) struct Operation<'a> {
    name: Option<&'a String>,
    pub(crate) is_mutation: bool,
    pub(crate) selections: &'a SelectionSet<'static, Text>,
    pub(crate) fragments: HashMap<&'a str, &'a FragmentDefinition<'static, Text>>,
    pub(crate) arguments: Arguments<'a>,
}

/// The values of variables.
#[derive(Clone, Copy)]
pub(crate) struct Arguments<'a> {
    defined: &'a [VariableDefinition<'static, Text>],
    given: &'a Map<String, Value>,
}

impl GraphQlRequest {
    /// Parses a body. Of a member that is there twice the last one counts, and is written.
    pub fn parse(body: &[u8]) -> Result<GraphQlRequest, ApiError> {
        let form = |what: &str| ApiError::Form(what.to_owned());
        let body: Value = serde_json::from_slice(body).map_err(|error| form(&error.to_string()))?;
        let Value::Object(mut body) = body else { return Err(form("it is no object")) };
        let name = body.remove("operationName").unwrap_or_default();
        let variables = match body.remove("variables") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(variables)) => variables,
            Some(_) => return Err(form("'variables' is no object")),
        };
        let Some(Value::String(query)) = body.remove("query") else {
            return Err(form("'query' is no text"));
        };
        if let Some((other, _)) = body.iter().next() {
            return Err(form(&format!("'{}'", other.escape_debug())));
        }
        let document = graphql_parser::parse_query::<Text>(&query);
        let invalid = |_| ApiError::Document("the query cannot be read".to_owned());
        let document = document.map_err(invalid)?.into_static();
        let query = document.to_string();
        let request = GraphQlRequest { document, query, variables };
        let own = request.operation()?.name;
        match name {
            Value::Null => {}
            Value::String(name) if own == Some(&name) || name.is_empty() => {}
            _ => return Err(form("'operationName' is not that of its operation")),
        }
        request.check_texts()?;
        Ok(request)
    }

    /// Returns the body for the forge.
    pub fn body(&self) -> Value {
        json!({"query": self.query, "variables": self.variables})
    }

    fn definition(&self) -> Result<&OperationDefinition<'static, Text>, ApiError> {
        let mut operations =
            self.document.definitions.iter().filter_map(|definition| match definition {
                Definition::Operation(operation) => Some(operation),
                Definition::Fragment(_) => None,
            });
        match (operations.next(), operations.next()) {
            (Some(operation), None) => Ok(operation),
            _ => Err(ApiError::Document("a request has one operation".to_owned())),
        }
    }

    pub(crate) fn operation(&self) -> Result<Operation<'_>, ApiError> {
        let (is_mutation, name, selections, defined) = match self.definition()? {
            OperationDefinition::SelectionSet(selections) => (false, None, selections, &[][..]),
            OperationDefinition::Query(it) => {
                (false, it.name.as_ref(), &it.selection_set, it.variable_definitions.as_slice())
            }
            OperationDefinition::Mutation(it) => {
                (true, it.name.as_ref(), &it.selection_set, it.variable_definitions.as_slice())
            }
            OperationDefinition::Subscription(_) => {
                return Err(ApiError::Document("there are no subscriptions".to_owned()));
            }
        };
        let mut fragments = HashMap::new();
        for definition in &self.document.definitions {
            if let Definition::Fragment(fragment) = definition
                && fragments.insert(fragment.name.as_str(), fragment).is_some()
            {
                return Err(ApiError::Document("a fragment is there twice".to_owned()));
            }
        }
        let arguments = Arguments { defined, given: &self.variables };
        Ok(Operation { name, is_mutation, selections, fragments, arguments })
    }

    /// Refuses texts in the document that its printer and a server could take for different ones.
    fn check_texts(&self) -> Result<(), ApiError> {
        let again = graphql_parser::parse_query::<Text>(&self.query);
        let is_plain = !self.query.contains("\"\"\"") && !self.query.contains('\\');
        match again {
            Ok(again) if is_plain && again.to_string() == self.query => Ok(()),
            _ => {
                let text = "a text in the query has more than plain characters; use a variable";
                Err(ApiError::Document(text.to_owned()))
            }
        }
    }
}

impl Arguments<'_> {
    /// Returns the value of an argument, with variables replaced; `None` for a variable without a value.
    pub(crate) fn value(&self, literal: &Literal<'static, Text>) -> Option<Value> {
        Some(match literal {
            Literal::Variable(name) => return self.variable(name),
            Literal::Int(number) => Value::from(number.as_i64()?),
            Literal::Float(number) => Value::from(*number),
            Literal::String(text) | Literal::Enum(text) => Value::from(text.as_str()),
            Literal::Boolean(is) => Value::from(*is),
            Literal::Null => Value::Null,
            Literal::List(list) => {
                list.iter().map(|value| self.value(value)).collect::<Option<_>>()?
            }
            Literal::Object(members) => {
                let member = |(name, value): (&String, _)| Some((name.clone(), self.value(value)?));
                Value::Object(members.iter().map(member).collect::<Option<_>>()?)
            }
        })
    }

    fn variable(&self, name: &str) -> Option<Value> {
        let mut defined = self.defined.iter().filter(|defined| defined.name == name);
        let (Some(defined), None) = (defined.next(), defined.next()) else { return None };
        match self.given.get(name) {
            Some(value) => Some(value.clone()),
            // A default has no variables.
            None => defined.default_value.as_ref().and_then(|value| match value {
                Literal::String(text) => Some(Value::from(text.as_str())),
                _ => None,
            }),
        }
    }
}
