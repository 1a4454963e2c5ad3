//! Permission requests of the agent.

use aifo_acp::{
    Event, Id, OptionKind, PermissionOutcome, PermissionRequest, RequestEvent, decision_report,
    reports,
};
use serde_json::json;

use super::running_agent::{Asked, id_text, question_of};
use super::{AgentLauncher, Driver};
use crate::block::QuestionEnd;
use crate::clock::unix_ms;
use crate::hub::Source;

impl<L: AgentLauncher> Driver<L> {
    /// Answers a request with the option that a user selected.
    pub(super) fn answer(&mut self, question: &str, option: usize) {
        let Some(agent) = &mut self.agent else { return };
        let Some(at) = agent.asked.iter().position(|asked| asked.question == question) else {
            return;
        };
        let asked = agent.asked.swap_remove(at);
        let option = asked.asked.options.get(option);
        if option.is_some_and(|option| allows(&option.kind)) {
            (agent.allowed)(&asked.asked);
        }
        let option = option.map(|option| option.id.clone());
        let decision = option.map_or(PermissionOutcome::Cancelled, PermissionOutcome::Select);
        agent.connection.with_client(|client, now| client.decide(&asked.request, &decision, now));
        let report = decision_report(&asked.request, &decision, "the user");
        self.hub.report(Some(&asked.session), &report.to_string());
    }

    /// Decides a request by the rules, or asks the users.
    pub(super) fn permission(&mut self, id: Id, request: &PermissionRequest) {
        let Some(agent) = &mut self.agent else { return };
        let Some(session) = agent.sessions.get(&request.session).cloned() else {
            // Without a session there is no page to ask on.
            agent
                .connection
                .with_client(|client, now| client.decide(&id, &PermissionOutcome::Cancelled, now));
            return;
        };
        let (decision, rule) = (agent.judge)(request);
        self.questions = self.questions.saturating_add(1);
        let question = question_of(
            format!("{session}-{}{:04}", unix_ms(), self.questions % 10_000),
            request,
            &agent.cwd,
            rule.clone(),
        );
        let (source, name) = (&session, question.id.clone());
        let decided = decision.as_ref().map(|decision| match decision {
            PermissionOutcome::Select(option) => {
                QuestionEnd::Answered { option: id_text(option), by: format!("rule: {rule}") }
            }
            PermissionOutcome::Cancelled => QuestionEnd::Withdrawn { why: rule.clone() },
        });
        let source = Source::of(source, agent.connection.client(), &request.session);
        self.hub.ask(source, question, decided);
        match decision {
            Some(decision) => {
                agent.connection.with_client(|client, now| client.decide(&id, &decision, now));
                let report = decision_report(&id, &decision, &rule);
                self.hub.report(Some(&session), &report.to_string());
            }
            None => {
                let mut report = reports(&Event::Request(RequestEvent::Permission {
                    id: id.clone(),
                    request: Box::new(request.clone()),
                }));
                for report in &mut report {
                    report["question"] = json!(name);
                    self.hub.report(Some(&session), &report.to_string());
                }
                let asked = Box::new(request.clone());
                agent.asked.push(Asked { question: name, session, request: id, asked });
            }
        }
    }
}

fn allows(kind: &OptionKind) -> bool {
    matches!(kind, OptionKind::AllowOnce | OptionKind::AllowAlways)
}
