//! Harness of the black-box suites: sessions, requests, responses, shims, processes.
//!
//! In scope: building the two binaries once, starting `aifo-coder serve` with a directory of fake
//! tools, raw HTTP, shims, `/proc`, a scripted model for real agents, and a scripted agent.
//!
//! Out of scope: expectations. Those are in `tests/suites`.
//!
//! ```no_run
//! use aifo_tests::Session;
//!
//! let session = Session::start();
//! let answer = session.answer(&session.exec("make", ["say", "hello"]));
//! assert_eq!(answer.text(), "hello\n");
//! assert_eq!(answer.exit_code(), Some("0"));
//! ```
//!
//! Architecture invariant: the harness uses the programs only through their command lines,
//! environment and bytes on the wire. It depends on none of their crates, so that an error in a
//! codec cannot hide in its own test.

pub mod acp_agent;
mod agent_fixture;
mod answer;
mod api_relay;
mod backend;
mod binaries;
mod chromium;
mod client;
mod comparison;
mod connection;
mod containers;
mod editor;
mod engine;
mod executable;
pub mod frames;
mod git_server;
mod hello_server;
mod invocation;
mod landlock;
mod mailbox;
pub mod model;
mod pod_cluster;
mod procfs;
mod random_bytes;
mod request;
mod resource_usage;
mod running;
mod scratch;
mod session;
mod session_setup;
mod terminal;
mod test_network;
mod test_registry;
mod tmux;
mod tool_reach;
mod trial;
mod trust_table;
mod user_container;
mod wait;
mod web_client;

pub use acp_agent::{AcpAgent, Awaited, Group, Script, Step};
pub use agent_fixture::AgentFixture;
pub use answer::Answer;
pub use api_relay::ApiRelay;
pub use backend::Backend;
pub use binaries::{Binaries, binaries, example};
pub use chromium::{Chromium, keys};
pub use client::{Client, Finished, Started};
pub use comparison::{Comparison, ExecMode, RunResult};
pub use connection::{Address, Connection};
pub use containers::{
    ContainerSession, ContainerSetup, EVERY_TOOL, ORDINARY_PROGRAMS, WAYS_OUT, static_shim,
};
pub use editor::Editor;
pub use engine::{Engine, Image, WITH_GIT};
pub use executable::{copy_executable, write_executable, write_script};
pub use git_server::GitServer;
pub use hello_server::{CONNECT, HOLD, HelloServer};
pub use invocation::{Invocation, Stdio};
pub use landlock::Landlock;
pub use mailbox::{Mailbox, MailboxAnswer, host};
pub use nix::sys::signal::Signal;
pub use pod_cluster::{PodCluster, REPOSITORY_IN_POD, skipped};
pub use procfs::{
    Sidecar, argv, children, descendants, environment, fd_count, is_alive, is_stopped, is_zombie,
    open_files, processes_using, processor_time, send_signal, status_field, status_kib,
    status_kib_if_alive, tagged_processes,
};
pub use random_bytes::{BLOCK, RandomBytes};
pub use request::{Request, form, percent_encode};
pub use resource_usage::{ResourceUsage, number_from};
pub use running::{Collector, Outcome, Running};
pub use scratch::{Scratch, files_below};
pub use session::{Session, fresh_id};
pub use session_setup::{Listen, SessionSetup, Tool};
pub use terminal::{Terminal, TerminalProcess, pty};
pub use test_network::TestNetwork;
pub use test_registry::TestRegistry;
pub use tmux::Tmux;
pub use tool_reach::tool_reach;
pub use trial::{can_run, passes_descriptors, program};
pub use trust_table::{REAL_KEY, Trusted, differences, trust_probe};
pub use user_container::UserContainer;
pub use wait::{DEADLINE, default_deadline, eventually, eventually_within};
pub use web_client::{
    WebAnswer, WebBrowser, WebEvent, WebPage, WebServer, WebStream, free_port,
    request as web_request,
};
