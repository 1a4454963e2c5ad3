//! Tests of the HTML.

use super::*;

#[test]
fn every_text_of_an_agent_is_escaped() {
    let evil = "<script>x</script>\"'>\u{202e}\u{200b}".to_owned();
    let question = QuestionBlock {
        id: evil.clone(),
        title: evil.clone(),
        kind: evil.clone(),
        command: Some(evil.clone()),
        paths: vec![evil.clone()],
        directory: evil.clone(),
        reason: evil.clone(),
        options: vec![(evil.clone(), evil.clone(), evil.clone())],
        state: QuestionEnd::Answered { option: evil.clone(), by: evil.clone() },
        time: 0,
    };
    let call = ToolBlock {
        id: evil.clone(),
        title: evil.clone(),
        kind: evil.clone(),
        status: evil.clone(),
        command: None,
        paths: vec![evil.clone()],
        content: vec![
            ToolContent::Output { text: evil.clone(), is_cut: true },
            ToolContent::Diff {
                path: evil.clone(),
                lines: vec![DiffLine(DiffKind::Added, evil.clone())],
                is_cut: true,
            },
        ],
        ..ToolBlock::default()
    };
    let file = Attachment { name: evil.clone(), bytes: 1, image: None };
    let blocks = [
        Block::Prompt {
            text: evil.clone(),
            attachments: vec![file],
            request: String::new(),
            time: 0,
        },
        Block::Other { kind: evil.clone(), text: evil.clone() },
        Block::Image { name: evil.clone() },
        Block::Tool(Box::new(call)),
        Block::Question(Box::new(question.clone())),
        Block::TurnEnd {
            outcome: evil.clone(),
            error: Some(evil.clone()),
            usage: Some(evil.clone()),
            time: 0,
            millis: 0,
        },
        Block::Notice { text: evil.clone(), is_error: true, time: 0 },
    ];
    let mut all: Vec<String> = blocks.iter().map(block).collect();
    all.push(super::question(&question));
    for html in all {
        assert!(!html.contains("<script"), "{html}");
        assert!(!html.contains(['\u{202e}', '\u{200b}']), "{html}");
        assert!(!html.contains("\"'>"), "{html}");
        assert!(html.contains("&lt;script&gt;"), "{html}");
    }
}

#[test]
fn a_question_has_exactly_the_agents_options() {
    let option =
        |id: &str, kind: &str, name: &str| (id.to_owned(), kind.to_owned(), name.to_owned());
    let asked = QuestionBlock {
        id: "q".to_owned(),
        title: String::new(),
        kind: "execute".to_owned(),
        command: Some("rm -r x".to_owned()),
        paths: Vec::new(),
        directory: "/w".to_owned(),
        reason: "no rule".to_owned(),
        options: vec![option("1", "allow_once", "Yes"), option("2", "brand_new", "")],
        state: QuestionEnd::Pending,
        time: 0,
    };
    let html = question(&asked);
    assert_eq!(html.matches("<button").count(), 2);
    assert!(
        html.contains("class=\"option allow\" data-option=\"1\" aria-keyshortcuts=\"Alt+1\">Yes<")
    );
    assert!(
        html.contains("class=\"option neutral\" data-option=\"2\" aria-keyshortcuts=\"Alt+2\">2<")
    );
    assert!(html.contains("<code>rm -r x</code>") && html.contains("<dd>/w</dd>"));
}

#[test]
fn a_call_ends_as_its_run_did() {
    let run = |ending: &str, has_failed| ToolRun {
        command: "git push".to_owned(),
        kind: "agent".to_owned(),
        ending: ending.to_owned(),
        has_failed,
        millis: Some(1_500),
    };
    let ended = |runs: Vec<ToolRun>| {
        let call = ToolBlock {
            status: "completed".to_owned(),
            ended: Some(9_000),
            runs,
            ..ToolBlock::default()
        };
        block(&Block::Tool(Box::new(call)))
    };
    let status = |html: &str, class: &str, words: &str| {
        html.contains(&format!("class=\"tool {class}\""))
            && html.contains(&format!("<span class=\"status\">{words}</span>"))
    };
    let failed = ended(vec![run("exit 1", true)]);
    assert!(status(&failed, "failed", "exit 1") && failed.contains(">1.5 s<"), "{failed}");
    let both = ended(vec![run("exit 1", true), run("exit 0", false)]);
    assert!(status(&both, "done", "completed") && both.contains(">9.0 s<"), "{both}");
    assert!(status(&ended(Vec::new()), "done", "completed"));
}
