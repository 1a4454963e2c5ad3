//! A call that a user is asked about, with its directory and scripts (`spec/questions.md#directory-and-scripts`).

use std::any::Any;
use std::sync::Arc;

use aifo_types::{FileId, quote_word};

/// A call that a user must allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedCall {
    /// The tool or program, then the arguments.
    pub argv: Vec<Vec<u8>>,
    /// The absolute directory.
    pub directory: Vec<u8>,
    /// What its names lead to; `None` if that is not known.
    pub files: Option<Arc<CallFiles>>,
}

/// The directory and the scripts of a call at the time when a user is asked about it.
#[derive(Debug)]
pub struct CallFiles {
    /// The directory.
    pub directory: FileId,
    /// The scripts that the call names.
    pub scripts: Vec<Script>,
    /// Keeps the directory, so that no other one gets its inode number.
    pub held: Box<dyn Any + Send + Sync>,
}

/// A script that a call names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Its absolute path.
    pub path: Vec<u8>,
    /// The path without links.
    pub real: Vec<u8>,
    /// The digest of its content; `None` if it cannot be read.
    pub digest: Option<[u8; 32]>,
}

impl PartialEq for CallFiles {
    fn eq(&self, other: &Self) -> bool {
        self.directory == other.directory && self.scripts == other.scripts
    }
}

impl Eq for CallFiles {}

/// The first word of a question about a push to a forge. No tool has it as its name.
pub const PUSH: &str = "push";

/// The first word of a question about another change at a forge.
pub const FORGE: &str = "forge";

impl AskedCall {
    /// Creates a call of which only the names are known.
    pub fn new(argv: Vec<Vec<u8>>, directory: Vec<u8>) -> Self {
        AskedCall { argv, directory, files: None }
    }

    /// Returns whether both have the same arguments and the same directory, whatever their scripts contain.
    pub(crate) fn repeats(&self, other: &AskedCall) -> bool {
        let id = |call: &AskedCall| call.files.as_ref().map(|files| files.directory);
        self.argv == other.argv && self.directory == other.directory && id(self) == id(other)
    }

    /// Returns the words of the command. A word that is not UTF-8 is quoted.
    pub fn words(&self) -> Vec<String> {
        let word = |word: &Vec<u8>| match std::str::from_utf8(word) {
            Ok(text) => text.to_owned(),
            Err(_) => quote_word(word),
        };
        self.argv.iter().map(word).collect()
    }
}
