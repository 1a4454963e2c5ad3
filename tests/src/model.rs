//! A scripted model server for real agents.
//!
//! A [`Script`] lists the model's turns: shell commands, tool calls, texts. The server has four
//! dialects (OpenAI's Responses and Chat Completions, Anthropic's Messages, Gemini's
//! `generateContent`), streamed and whole, and sends each command as a call of the shell tool that
//! the agent declares. The agent's report of a command is a [`ToolResult`].
//!
//! The server has no position in the script. Every request contains the conversation so far, which
//! determines the next turn. So an agent may repeat a request, or lose half of it, without getting
//! out of step.
//!
//! ```no_run
//! use aifo_tests::model::{FakeModel, Script};
//!
//! let script = Script::new().shell("cargo --version").say("that was all");
//! let model = FakeModel::start(script);
//! // An agent is started with `model.url()`, then:
//! model.finished();
//! assert!(model.results()[0].output.contains("cargo"));
//! ```

mod agents;
mod answers;
mod anthropic;
mod chat;
mod dialect;
mod gemini;
mod http;
mod report;
mod responses;
mod schema;
mod script;
mod server;
mod tools;

pub use agents::{Agent, KEY, Start};
pub use report::ToolResult;
pub use script::Script;
pub use server::{FakeModel, LoggedRequest};
