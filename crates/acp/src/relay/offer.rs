//! Who serves what: what the agent is told it can ask for, and what becomes of it when it asks.

use serde_json::{Map, Value};

use super::Served;
use crate::capabilities::Serves;

/// What the agent is offered (`spec/acp-relay.md#who-serves-what`). What is declared is what is served.
#[derive(Debug)]
pub(super) struct Offer {
    files: Served,
    terminal: Served,
    declared: Serves,
}

impl Offer {
    /// Before the editor has said what it can.
    pub(super) fn new(files: Served, terminal: Served) -> Self {
        let ours = |served| served == Served::Ours;
        let declared = Serves {
            read_text_file: ours(files),
            write_text_file: ours(files),
            terminal: ours(terminal),
        };
        Offer { files, terminal, declared }
    }

    /// Rewrites what the editor declares in an `initialize` to what is served.
    pub(super) fn declare(&mut self, params: &mut Value) {
        let mut all = object(params.take());
        let mut capabilities = object(all.remove("clientCapabilities").unwrap_or_default());
        let mut files = object(capabilities.remove("fs").unwrap_or_default());
        self.declared = Serves {
            read_text_file: declare(self.files, &mut files, "readTextFile"),
            write_text_file: declare(self.files, &mut files, "writeTextFile"),
            terminal: declare(self.terminal, &mut capabilities, "terminal"),
        };
        capabilities.insert("fs".to_owned(), Value::Object(files));
        all.insert("clientCapabilities".to_owned(), Value::Object(capabilities));
        *params = Value::Object(all);
    }

    /// Who serves a method. What is neither a file's nor a terminal's is the editor's.
    pub(super) fn whose(&self, method: &str) -> Served {
        let served = match method.split_once('/') {
            Some(("fs", _)) => self.files,
            Some(("terminal", _)) => self.terminal,
            _ => return Served::Editors,
        };
        if self.declared.method(method) { served } else { Served::Nobody }
    }
}

/// Sets a capability, and tells whether it is there.
fn declare(served: Served, members: &mut Map<String, Value>, name: &str) -> bool {
    let is_there = match served {
        Served::Ours => true,
        Served::Editors => members.get(name) == Some(&Value::Bool(true)),
        Served::Nobody => false,
    };
    members.insert(name.to_owned(), Value::Bool(is_there));
    is_there
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_declared_is_what_is_served() {
        use Served::{Editors, Nobody, Ours};
        let full = json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true});
        let none =
            json!({"fs": {"readTextFile": false, "writeTextFile": false}, "terminal": false});
        let read = json!({"fs": {"readTextFile": true, "writeTextFile": false}, "terminal": false});
        let rows = [
            (Ours, Ours, json!(null), full.clone()),
            (Ours, Ours, none.clone(), full.clone()),
            (Nobody, Nobody, full.clone(), none.clone()),
            (Editors, Editors, full.clone(), full.clone()),
            (Editors, Editors, read.clone(), read.clone()),
            (Editors, Editors, json!({"fs": 7, "terminal": "yes"}), none.clone()),
            (Editors, Editors, json!(null), none),
            (
                Editors,
                Nobody,
                full,
                json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": false}),
            ),
        ];
        for (files, terminal, declared, expected) in rows {
            let mut offer = Offer::new(files, terminal);
            let mut params = json!({"clientCapabilities": declared});
            offer.declare(&mut params);
            let told = &params["clientCapabilities"];
            assert_eq!(told, &expected, "{files:?} {terminal:?} {declared}");
            let whose = |is_told: &Value, served| if is_told == true { served } else { Nobody };
            assert_eq!(offer.whose("fs/read_text_file"), whose(&told["fs"]["readTextFile"], files));
            assert_eq!(
                offer.whose("fs/write_text_file"),
                whose(&told["fs"]["writeTextFile"], files)
            );
            for method in ["create", "output", "wait_for_exit", "kill", "release"] {
                let method = format!("terminal/{method}");
                assert_eq!(offer.whose(&method), whose(&told["terminal"], terminal));
            }
            for method in ["fs/unheard_of", "terminal/unheard_of"] {
                assert_eq!(offer.whose(method), Nobody);
            }
            for method in ["elicitation/create", "craft/drainMidTurnQueue", "_x", "fsx"] {
                assert_eq!(offer.whose(method), Editors);
            }
        }
    }

    #[test]
    fn everything_else_that_is_declared_passes() {
        let mut params = json!({"protocolVersion": 7, "clientInfo": {"name": "e"}, "_meta": {"a": 1},
            "clientCapabilities": {"fs": {"_meta": 1}, "elicitation": {"form": {}}, "_meta": {"x": 2}}});
        let mut expected = params.clone();
        expected["clientCapabilities"]["fs"] =
            json!({"_meta": 1, "readTextFile": true, "writeTextFile": true});
        expected["clientCapabilities"]["terminal"] = json!(false);
        Offer::new(Served::Ours, Served::Nobody).declare(&mut params);
        assert_eq!(params, expected);
        let mut nothing = Value::Null;
        Offer::new(Served::Nobody, Served::Nobody).declare(&mut nothing);
        assert_eq!(nothing["clientCapabilities"]["terminal"], false);
    }

    #[test]
    fn before_the_editor_has_spoken_only_ours_is_served() {
        let offer = Offer::new(Served::Ours, Served::Editors);
        assert_eq!(offer.whose("fs/read_text_file"), Served::Ours);
        assert_eq!(offer.whose("terminal/create"), Served::Nobody);
    }
}
