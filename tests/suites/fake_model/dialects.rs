//! A script of one command and one text in each dialect, whole and streamed.

use aifo_tests::Answer;
use aifo_tests::model::{FakeModel, Script};
use serde_json::{Value, json};

use super::{CHAT, ask, chat, document};

fn model() -> FakeModel {
    FakeModel::start(Script::new().shell("make").say("that was all"))
}

/// The events of a stream: names, if any, and documents.
#[track_caller]
fn events(answer: &Answer) -> Vec<(String, Value)> {
    assert_eq!((answer.status(), answer.header("Content-Type")), (200, Some("text/event-stream")));
    let text = answer.text();
    let events = text.strip_suffix("\n\n").expect("the last event is whole").split("\n\n");
    let event = |event: &str| {
        let (name, data) = match event.split_once('\n') {
            Some((name, data)) => (name.strip_prefix("event: ").expect("a name"), data),
            None => ("", event),
        };
        let data = data.strip_prefix("data: ").expect("data");
        // The end of a Chat Completions stream is not JSON.
        (name.to_owned(), serde_json::from_str(data).unwrap_or_else(|_| json!(data)))
    };
    events.map(event).collect()
}

/// The events of a stream by type, which must equal the name.
#[track_caller]
fn typed(answer: &Answer) -> Vec<(String, Value)> {
    let events = events(answer);
    for (name, event) in &events {
        assert_eq!(event["type"], json!(name));
    }
    events
}

fn names(events: &[(String, Value)]) -> Vec<&str> {
    events.iter().map(|(name, _)| name.as_str()).collect()
}

#[track_caller]
fn first<'a>(events: &'a [(String, Value)], name: &str) -> &'a Value {
    &events.iter().find(|event| event.0 == name).expect("there is one").1
}

#[test]
fn responses() {
    let model = model();
    let command = json!({"cmd": {"type": "string"}, "yield_time_ms": {"type": "number"}});
    let schema = json!({"type": "object", "properties": command, "required": ["cmd"]});
    let tools = json!([
        {"type": "web_search"},
        {"type": "function", "name": "exec_command", "parameters": schema},
    ]);
    let user = json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]});
    let mut body = json!({"model": "m", "stream": true, "tools": tools, "input": [user]});

    let stream = typed(&ask(&model, "POST /v1/responses", &body));
    let call = &first(&stream, "response.output_item.done")["item"];
    assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("exec_command")));
    assert_eq!(call["arguments"], r#"{"cmd":"make","yield_time_ms":30000}"#);
    let expected = [
        "response.created",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names(&stream), expected);

    // A continuing command is polled until it has ended.
    let output =
        |text: &str| json!({"type": "function_call_output", "call_id": "c", "output": text});
    let input = |body: &mut Value, item| body["input"].as_array_mut().expect("a list").push(item);
    input(&mut body, output("Process running with session ID 7\nOutput:\none\n"));
    let stream = typed(&ask(&model, "POST /v1/responses", &body));
    let call = &first(&stream, "response.output_item.done")["item"];
    assert_eq!(call["name"], "write_stdin");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().expect("text")).unwrap();
    assert_eq!(arguments, json!({"chars": "", "session_id": 7, "yield_time_ms": 30000}));

    input(&mut body, output("Process exited with code 3\nOutput:\ntwo\n"));
    let stream = typed(&ask(&model, "POST /v1/responses", &body));
    assert_eq!(first(&stream, "response.output_text.delta")["delta"], "that was all");
    let completed = &first(&stream, "response.completed")["response"];
    assert_eq!(completed["output"][0]["content"][0]["text"], "that was all");
    model.finished();
    let [result] = <[_; 1]>::try_from(model.results()).expect("one command");
    assert!(result.output.contains("one") && result.output.contains("two"), "{}", result.output);
    assert_eq!(result.exit, Some(3));

    body["stream"] = json!(false);
    assert_eq!(&document(&model, "/v1/responses", &body), completed);
}

#[test]
fn chat_completions() {
    let model = model();
    let stream = |results: &[&str]| {
        let mut body = chat(results);
        body["stream"] = json!(true);
        let mut events = events(&ask(&model, &format!("POST {CHAT}"), &body));
        assert_eq!(events.pop().expect("an end").1, "[DONE]");
        events.into_iter().map(|(_, event)| event).collect::<Vec<_>>()
    };
    let called = stream(&[]);
    let call = &called[0]["choices"][0]["delta"]["tool_calls"][0];
    let function = json!({"name": "bash", "arguments": r#"{"command":"make"}"#});
    assert_eq!((&call["id"], &call["function"]), (&json!("call_0"), &function));
    assert_eq!(called[1]["choices"][0]["finish_reason"], "tool_calls");
    let said = stream(&["fine"]);
    assert_eq!(said[0]["choices"][0]["delta"]["content"], "that was all");
    assert_eq!(said[1]["choices"][0]["finish_reason"], "stop");
    assert_eq!(said[2]["usage"]["total_tokens"], 2);

    let whole = document(&model, CHAT, &chat(&[]));
    assert_eq!(whole["choices"][0]["message"]["tool_calls"][0]["function"], function);
    let whole = document(&model, CHAT, &chat(&["fine"]));
    assert_eq!(whole["choices"][0]["message"]["content"], "that was all");
}

#[test]
fn anthropics_messages() {
    let model = model();
    let command = json!({"command": {"type": "string"}});
    let tool = json!({"name": "Bash", "input_schema": {"type": "object", "properties": command}});
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    let body = |messages: &[Value], stream: bool| json!({"model": "m", "stream": stream, "tools": [tool], "messages": messages});
    const PATH: &str = "/v1/messages?beta=true";

    let stream = typed(&ask(&model, &format!("POST {PATH}"), &body(&messages, true)));
    let expected = [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(names(&stream), expected);
    assert_eq!(first(&stream, "content_block_start")["content_block"]["name"], "Bash");
    let delta = &first(&stream, "content_block_delta")["delta"];
    assert_eq!(delta["partial_json"], r#"{"command":"make"}"#);
    assert_eq!(first(&stream, "message_delta")["delta"]["stop_reason"], "tool_use");
    let whole = document(&model, PATH, &body(&messages, false));
    assert_eq!(whole["content"][0]["input"], json!({"command": "make"}));

    let result = json!([{"type": "text", "text": "Exit code 3\noops"}]);
    messages.push(json!({"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": "call_0", "content": result, "is_error": true},
        {"type": "text", "text": "go on"},
    ]}));
    let stream = typed(&ask(&model, &format!("POST {PATH}"), &body(&messages, true)));
    assert_eq!(first(&stream, "content_block_delta")["delta"]["text"], "that was all");
    assert_eq!(first(&stream, "message_delta")["delta"]["stop_reason"], "end_turn");
    let whole = document(&model, PATH, &body(&messages, false));
    assert_eq!(whole["content"][0]["text"], "that was all");
    assert_eq!(model.results()[0].exit, Some(3));
}

#[test]
fn gemini() {
    let model = model();
    let command = json!({"type": "OBJECT", "properties": {"command": {"type": "STRING"}}});
    let tool = json!({"name": "run_shell_command", "parametersJsonSchema": command});
    let mut contents = vec![json!({"role": "user", "parts": [{"text": "go"}]})];
    let body = |contents: &[Value]| json!({"contents": contents, "tools": [{"functionDeclarations": [tool]}]});
    const MODEL: &str = "/v1beta/models/gemini-2.5-flash";
    let stream = |contents: &[Value]| {
        let line = format!("POST {MODEL}:streamGenerateContent?alt=sse");
        let [(_, event)] =
            <[_; 1]>::try_from(events(&ask(&model, &line, &body(contents)))).expect("one event");
        event
    };
    let whole =
        |contents: &[Value]| document(&model, &format!("{MODEL}:generateContent"), &body(contents));

    let called = stream(&contents);
    let call = &called["candidates"][0]["content"]["parts"][0]["functionCall"];
    assert_eq!(
        (&call["name"], &call["args"]["command"]),
        (&json!("run_shell_command"), &json!("make"))
    );
    assert_eq!(whole(&contents), called);
    assert_eq!(called["modelVersion"], "gemini-2.5-flash");

    let response = json!({"name": "run_shell_command", "response": {"output": "Exit Code: 3"}});
    contents.push(json!({"role": "user", "parts": [{"functionResponse": response}]}));
    let said = stream(&contents);
    assert_eq!(said["candidates"][0]["content"]["parts"][0]["text"], "that was all");
    assert_eq!(whole(&contents), said);
    assert_eq!(model.results()[0].exit, Some(3));

    let mut side = body(&contents[..1]);
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]});
    side["generationConfig"] =
        json!({"responseMimeType": "application/json", "responseJsonSchema": schema});
    let chosen = document(&model, &format!("{MODEL}:generateContent"), &side);
    assert_eq!(chosen["candidates"][0]["content"]["parts"][0]["text"], r#"{"n":1}"#);
}
