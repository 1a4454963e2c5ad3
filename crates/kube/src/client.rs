//! Sessions in pods, from their user's machine: start, terminal, commands, fetch.

mod agent_variables;
mod checks;
mod cluster;
mod copy;
mod last_fetch;
mod network;
mod periodic_fetches;
mod piped;
mod records;
mod relay;
mod result;
mod run;
mod session;
mod sessions;
mod start;
mod started;
mod target;
mod terminal;
mod upload;
mod work;

pub use self::checks::check;
pub use self::cluster::{Cluster, target, without_backend};
pub use self::piped::{Turns, run_piped};
pub use self::relay::{InPod, Input, Unusable, relay, unusable};
pub use self::run::{attach, run, validate};
pub use self::session::{AgentFiles, PodOptions, PodProcess, PodRequest, describe, launcher_image};
pub use self::sessions::{cleanup, list};
pub use self::target::PodTarget;
