//! Questions of the caller: the editor answers them, and the agent gets nothing.

use super::*;

fn ask(story: &mut Story, question: &str) -> Option<u64> {
    let call = json!({"toolCallId": format!("aifo-{question}"), "title": "git push -f"});
    let options = json!([{"optionId": "once", "name": "Allow once", "kind": "allow_once"}]);
    let asked = story.relay.ask_question(question, call, options, story.now);
    story.collect();
    asked
}

fn selected_once(id: u64) -> Value {
    json!({"id": id, "result": {"outcome": {"outcome": "selected", "optionId": "once"}}})
}

#[test]
fn the_editor_is_asked_in_the_running_session_and_its_answer_is_an_event() {
    let mut story = Story::prompted();
    story.events();
    let number = ask(&mut story, "q1").unwrap();
    let [request] = story.editor().try_into().unwrap();
    assert_eq!((&request["id"], &request["params"]["sessionId"]), (&json!(number), &json!("s")));
    assert_eq!(request["method"], "session/request_permission");
    story.editor_sends(selected_once(number));
    let answered =
        RelayEvent::QuestionAnswered { question: "q1".to_owned(), option: Some("once".to_owned()) };
    assert_eq!((story.events(), story.agent()), (vec![answered], vec![]));
}

#[test]
fn without_a_running_turn_the_editor_is_not_asked() {
    let mut story = Story::start();
    assert_eq!(ask(&mut story, "q1"), None);
    let mut story = Story::prompted();
    story.stop(1, "end_turn");
    assert_eq!(ask(&mut story, "q1"), None);
    let mut story = Story::prompted();
    story.cancel();
    assert_eq!(ask(&mut story, "q1"), None, "the turn is being cancelled");
}

#[test]
fn a_withdrawn_question_takes_no_answer() {
    let mut story = Story::prompted();
    story.events();
    let number = ask(&mut story, "q1").unwrap();
    story.editor();
    story.relay.withdraw_question(number, story.now);
    story.collect();
    let cancel = json!({"method": "$/cancel_request", "params": {"requestId": number}});
    let sent = story.editor();
    assert_eq!((&sent[0]["method"], &sent[0]["params"]), (&cancel["method"], &cancel["params"]));
    story.editor_sends(selected_once(number));
    assert_eq!((story.events(), story.agent()), (vec![], vec![]));
}

#[test]
fn a_disconnect_of_the_editor_leaves_the_question_unanswered() {
    let mut story = Story::prompted();
    // A request of the agent with the number that a question could be confused with.
    story.agent_sends(json!({"id": 0, "method": "m", "params": {}}));
    story.events();
    ask(&mut story, "q1").unwrap();
    story.agent();
    story.eof(Side::Editor);
    let unanswered = RelayEvent::QuestionAnswered { question: "q1".to_owned(), option: None };
    assert!(story.events().contains(&unanswered));
    let answers = story.agent();
    let to_agent = answers.iter().filter(|message| message["id"] == json!(0)).count();
    assert_eq!(to_agent, 1, "one answer per request: {answers:?}");
}

#[test]
fn ending_the_turn_cancels_it_once() {
    let mut story = Story::prompted();
    for _ in 0..2 {
        story.relay.cancel_turns(story.now);
        story.collect();
    }
    let sent = story.agent();
    let cancels = sent.iter().filter(|message| message["method"] == "session/cancel").count();
    assert_eq!(cancels, 1, "{sent:?}");
}

#[test]
fn the_editors_answer_to_a_permission_request_is_an_event() {
    let mut story = Story::prompted();
    story.ask_permission(7);
    story.events();
    assert!(story.relay.ask_editor(&id(7), story.now));
    story.collect();
    let number = story.editor().pop().unwrap()["id"].clone();
    let answer = json!({"outcome": {"outcome": "selected", "optionId": "no"}});
    story.editor_sends(json!({"id": number, "result": answer}));
    let answered = RelayEvent::PermissionAnswered { id: id(7), option: Some(json!("no")) };
    assert_eq!((story.events(), story.agent()), (vec![answered], vec![ok(7, answer)]));
}
