//! Images of toolchains and agents: recipes, their lock file, and the engine commands that build them.
//!
//! In scope: the recipes, embedded from `recipes/`; the order of builds; build contexts; the lock file
//! with the hashes of packages and bases; Debian bases from packages alone; pushes to a registry. See `spec/images.md`.
//!
//! Out of scope: finding trusted programs and engines (the caller), and containers of sessions
//! (`aifo-sidecar`).
//!
//! ```
//! let recipes = aifo_engine::images::recipes();
//! let rust = recipes.iter().find(|recipe| recipe.name == "rust").unwrap();
//! assert_eq!(rust.image_name("", "latest"), "aifo-toolchain-rust:latest");
//! ```
//!
//! Architecture invariant: every downloaded package has a hash in the lock file. Blocking: one build
//! runs at a time, and only waits for the engine.

mod agent;
mod build;
mod context;
mod debian;
mod destination;
mod error;
mod host;
mod lock;
mod push;
mod recipe;
mod recipes;
mod registry;
mod resolve;
mod scratch;
#[cfg(test)]
mod script;
mod update;

pub use build::{BaseChoice, BuildOptions, ImageNames, build};
pub use context::LOGIN_PROFILE;
pub use debian::{DebianRoot, RELEASE, digest};
pub use destination::{Destination, DestinationError};
pub use error::ImageError;
pub use host::{Host, IMAGE_LABEL, INPUTS_LABEL, toolchain};
pub use lock::Lock;
pub use push::push;
pub use recipe::{PACKAGES_LABEL, Part, Recipe};
pub use recipes::{programs, recipes};
pub use scratch::{copy_tree, scratch};
pub use update::update;
