//! Tests of the scripted model: its responses in each dialect.

mod dialects;

use std::net::{Ipv4Addr, Shutdown};

use aifo_tests::model::{FakeModel, Script};
use aifo_tests::{Address, Answer, Connection, Request, eventually};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

/// Two commands and a final text.
fn script() -> Script {
    Script::new().shell("make a").shell("make b").say("that was all")
}

/// Sends a request and reads the response.
#[track_caller]
fn ask(model: &FakeModel, line: &str, body: &Value) -> Answer {
    let request = Request::new(format!("{line} HTTP/1.1"))
        .header("Host", "localhost")
        .header("Content-Type", "application/json")
        .body(body.to_string());
    let mut connection = Connection::open(&Address::Tcp(model.address()));
    connection.send(request.encode());
    connection.answer()
}

/// Requests a document.
#[track_caller]
fn document(model: &FakeModel, path: &str, body: &Value) -> Value {
    let answer = ask(model, &format!("POST {path}"), body);
    assert_eq!((answer.status(), answer.header("Content-Type")), (200, Some("application/json")));
    serde_json::from_slice(&answer.body).expect("a document")
}

/// The tools of a Chat Completions request: a shell and another tool.
fn tools() -> Value {
    let command = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let tools = [("read", json!({"type": "object"})), ("bash", command)];
    let tool = |(name, schema)| json!({"type": "function", "function": {"name": name, "parameters": schema}});
    json!(tools.map(tool))
}

/// A Chat Completions request after these results.
fn chat(results: &[&str]) -> Value {
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for (number, result) in results.iter().enumerate() {
        let id = format!("call_{number}");
        messages.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": id}]}));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": result}));
    }
    json!({"model": "m", "tools": tools(), "messages": messages})
}

/// The call or text in the response to a Chat Completions request.
#[track_caller]
fn printed(model: &FakeModel, body: &Value) -> String {
    let answer = document(model, CHAT, body);
    let message = &answer["choices"][0]["message"];
    let called = message.pointer("/tool_calls/0/function/arguments");
    called.unwrap_or(&message["content"]).as_str().expect("text").to_owned()
}

#[test]
fn the_conversation_decides_which_turn_is_next() {
    let model = FakeModel::start(script());
    let first = r#"{"command":"make a"}"#;
    // A repeated request gets the same response.
    assert_eq!([printed(&model, &chat(&[])), printed(&model, &chat(&[]))], [first, first]);
    model.called(0);
    assert_eq!(printed(&model, &chat(&["out a"])), r#"{"command":"make b"}"#);
    assert_eq!(printed(&model, &chat(&["out a", "Exit code 2\nout b"])), "that was all");
    model.finished();
    let results: Vec<_> =
        model.results().into_iter().map(|r| (r.command, r.output, r.exit)).collect();
    let expected = [("make a", "out a", None), ("make b", "Exit code 2\nout b", Some(2))];
    assert_eq!(results, expected.map(|(c, o, e)| (c.to_owned(), o.to_owned(), e)));
    // A new conversation starts at the beginning and does not remove earlier results.
    assert_eq!(printed(&model, &chat(&[])), first);
    assert_eq!(model.results().len(), 2);
}

#[test]
fn words_in_between_wait_for_the_user() {
    let model = FakeModel::start(Script::new().say("one moment").shell("make").say("done"));
    let mut body = chat(&[]);
    assert_eq!(printed(&model, &body), "one moment");
    for more in [
        json!({"role": "assistant", "content": "one moment"}),
        json!({"role": "user", "content": "and?"}),
    ] {
        body["messages"].as_array_mut().expect("a list").push(more);
    }
    assert_eq!(printed(&model, &body), r#"{"command":"make"}"#);
    body["messages"].as_array_mut().expect("a list").push(json!({"role": "tool", "content": "x"}));
    assert_eq!(printed(&model, &body), "done");
    body["messages"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"role": "assistant", "content": "done"}));
    assert_eq!(printed(&model, &body), "done", "nothing is left but the last words");
}

#[test]
fn an_agent_without_tools_gets_the_command_as_text() {
    let model =
        FakeModel::start(Script::new().shell("make").shell("cat <<E\n50%\nE\n").say("done"));
    let mut messages = vec![json!({"role": "user", "content": "y"})];
    let mut say = |model: &FakeModel, heard: &[(&str, &str)]| {
        messages.extend(heard.iter().map(|(role, text)| json!({"role": role, "content": text})));
        printed(model, &json!({"model": "openai/aifo-text-model", "messages": messages}))
    };
    assert_eq!(say(&model, &[]), "```bash\nmake\n```");
    let shared = [("assistant", "```bash\nmake\n```"), ("user", "Output from make\nfine\n")];
    let lines = "```bash\neval \"$(printf 'cat <<E\\n50%%\\nE\\n')\"\n```";
    assert_eq!(say(&model, &shared), lines);
    // The agent's comment on shared output, and a command without output.
    assert_eq!(say(&model, &[("assistant", "Ok"), ("assistant", lines), ("user", "y")]), "done");
    let outputs: Vec<_> = model.results().into_iter().map(|r| (r.output, r.exit)).collect();
    assert_eq!(outputs, [("Output from make\nfine\n".to_owned(), None), (String::new(), None)]);
}

#[test]
fn questions_on_the_side_use_no_turn_up() {
    let model = FakeModel::start(script());
    let title = json!({"model": "small", "messages": [{"role": "user", "content": "a title?"}]});
    assert_eq!(printed(&model, &title), "A small task");
    let schema = json!({
        "type": "object",
        "properties": {"next": {"type": "string", "enum": ["user", "model"]}},
        "required": ["next"],
    });
    let mut routing = chat(&[]);
    routing["response_format"] = json!({"type": "json_schema", "json_schema": {"schema": schema}});
    assert_eq!(printed(&model, &routing), r#"{"next":"user"}"#);
    assert_eq!(printed(&model, &chat(&[])), r#"{"command":"make a"}"#);
}

#[test]
fn an_unknown_request_is_404_and_recorded() {
    let model = FakeModel::start(script());
    let body = json!({"event": "started"});
    for line in ["POST /v1/telemetry?x=1", "GET /v1/responses", "GET /"] {
        assert_eq!(ask(&model, line, &body).status(), 404, "{line}");
    }
    let asked: Vec<_> =
        model.requests().into_iter().map(|asked| (asked.target, asked.status)).collect();
    let targets = ["/v1/telemetry?x=1", "/v1/responses", "/"];
    assert_eq!(asked, targets.map(|target| (target.to_owned(), 404)));
    assert_eq!(model.requests()[0].body, body);
}

#[test]
fn lists_of_models_and_counts_of_tokens() {
    let model = FakeModel::start(script());
    let models = ask(&model, "GET /v1/models", &Value::Null);
    let models: Value = serde_json::from_slice(&models.body).expect("a document");
    assert_eq!(models["data"][0]["id"], "aifo-model");
    let count = document(&model, "/v1/messages/count_tokens", &json!({}));
    assert_eq!(count, json!({"input_tokens": 1}));
    let count = document(&model, "/v1beta/models/gemini:countTokens", &json!({}));
    assert_eq!(count, json!({"totalTokens": 1}));
}

#[test]
fn a_body_may_come_in_chunks_and_pieces() {
    let model = FakeModel::start(script());
    let body = chat(&[]).to_string();
    let (a, b) = body.split_at(body.len() / 2);
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    let bytes = format!("{head}{:x}\r\n{a}\r\n{:x};x=y\r\n{b}\r\n0\r\n\r\n", a.len(), b.len());
    let mut connection = Connection::open(&Address::Tcp(model.address()));
    for byte in bytes.as_bytes() {
        connection.send([*byte]);
    }
    let answer: Value = serde_json::from_slice(&connection.answer().body).expect("a document");
    assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
}

#[test]
fn connections_may_go_away_at_any_time() {
    // An address of its own: at the usual one a parallel test may get the port once it is free.
    let own = (Ipv4Addr::new(127, 0, 77, 1), 0).into();
    let model = FakeModel::bind(own, script()).expect("a port is free");
    let request = Request::new(format!("POST {CHAT} HTTP/1.1")).header("Host", "localhost");
    let request = request.body(chat(&[]).to_string()).encode();
    for end in [0, 10, request.len() / 2, request.len()] {
        let mut connection = Connection::open(&Address::Tcp(model.address()));
        connection.send(&request[..end]);
    }
    // A malformed request is ignored.
    let mut connection = Connection::open(&Address::Tcp(model.address()));
    connection.send("\0\0\r\n\r\n");
    eventually("the whole request is noted", || model.requests().len() == 1);
    assert_eq!(printed(&model, &chat(&[])), r#"{"command":"make a"}"#);
    // An open connection does not delay the model's end and is closed.
    let mut held = std::net::TcpStream::connect(model.address()).expect("it listens");
    let address = model.address();
    drop(model);
    let mut rest = Vec::new();
    let _ = std::io::Read::read_to_end(&mut held, &mut rest);
    assert_eq!(rest, b"");
    let _ = held.shutdown(Shutdown::Both);
    assert!(Connection::try_open(&Address::Tcp(address)).is_err(), "it listens no more");
}

#[test]
fn it_listens_at_the_given_address() {
    let anywhere = (Ipv4Addr::UNSPECIFIED, 0).into();
    let model = FakeModel::bind(anywhere, script()).expect("a port is free");
    let port = model.address().port();
    assert_eq!(model.url_at("172.17.0.1"), format!("http://172.17.0.1:{port}"));
    let address = Address::Tcp((Ipv4Addr::LOCALHOST, port).into());
    let mut connection = Connection::open(&address);
    connection.send("GET /models HTTP/1.1\r\n\r\n");
    assert_eq!(connection.answer().status(), 200);
    assert!(FakeModel::bind(model.address(), script()).is_err(), "the port is taken");
}
