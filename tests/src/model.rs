//! A model that does as it is told: a server that real agents take for their model.
//!
//! A [`Script`] lists what the model does, turn by turn: have a command run, say something. The server
//! speaks four dialects (OpenAI's Responses and Chat Completions, Anthropic's Messages, Gemini's
//! `generateContent`), each as a stream and whole, and tells every command in the words of the shell tool
//! that the agent declares. What the agent reports of a command is the [`ToolResult`].
//!
//! The server keeps no place in the script. Every request carries the conversation so far, and that tells
//! which turn is next; so an agent may ask again, or with half of it lost, and nothing gets out of step.
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

pub use agents::{Agent, Start};
pub use report::ToolResult;
pub use script::Script;
pub use server::{Asked, FakeModel};
