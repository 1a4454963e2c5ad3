//! Sources of configured values.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// A value with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub source: Source,
}

/// A layer, and the line, variable or flag in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The default.
    BuiltIn,
    /// Detected from the files of this workspace.
    Detected(PathBuf),
    /// The user's configuration file.
    UserFile(FileLine),
    /// A variable of this name.
    Environment(Cow<'static, str>),
    /// A flag of this name.
    Flag(&'static str),
    /// The workspace file.
    WorkspaceFile(FileLine),
}

/// A line of a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileLine {
    pub path: PathBuf,
    pub line: usize,
}

/// The layers, lowest first, as JSON names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    BuiltIn,
    Detected,
    User,
    Environment,
    Flag,
    Workspace,
}

impl<T> Sourced<T> {
    pub fn new(value: T, source: Source) -> Self {
        Sourced { value, source }
    }

    pub fn builtin(value: T) -> Self {
        Sourced::new(value, Source::BuiltIn)
    }

    /// Returns whether this is the default.
    pub fn is_builtin(&self) -> bool {
        self.source == Source::BuiltIn
    }
}

impl Source {
    /// Returns its layer.
    pub fn layer(&self) -> Layer {
        match self {
            Source::BuiltIn => Layer::BuiltIn,
            Source::Detected(_) => Layer::Detected,
            Source::UserFile(_) => Layer::User,
            Source::Environment(_) => Layer::Environment,
            Source::Flag(_) => Layer::Flag,
            Source::WorkspaceFile(_) => Layer::Workspace,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::BuiltIn => f.write_str("built in"),
            Source::Detected(workspace) => write!(f, "the files of {}", workspace.display()),
            Source::UserFile(line) | Source::WorkspaceFile(line) => line.fmt(f),
            Source::Environment(name) => f.write_str(name),
            Source::Flag(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for FileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}
