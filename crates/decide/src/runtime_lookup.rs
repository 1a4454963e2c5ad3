//! Finds a local runtime: `spec/decide.md#local-runtimes`.

use std::fmt;
use std::path::{Path, PathBuf};

use aifo_types::exit;

use crate::call_path::INTERPRETER_DIRECTORIES;
use crate::decision::Program;
use crate::file_facts::FileFacts;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::workspace::{PathLocation, Workspace};

/// The inputs of a runtime lookup that do not depend on the call.
pub(crate) struct RuntimeLookup<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) workspace: &'a Workspace<'a>,
    pub(crate) files: &'a dyn FileFacts,
}

impl RuntimeLookup<'_> {
    /// Returns the first candidate that is executable and outside the workspace both lexically
    /// and with links resolved: a workspace must not supply the runtime of foreign programs.
    ///
    /// `script` holds the paths of the program's file, the resolved one first; it is empty for a
    /// module.
    pub(crate) fn find(
        &self,
        runtime: Runtime<'_>,
        program: &Program,
        script: &[&Path],
    ) -> Result<PathBuf, RuntimeNotFound> {
        let candidates = self.candidates(runtime, script);
        candidates.iter().find(|path| self.is_usable(path)).cloned().ok_or_else(|| {
            RuntimeNotFound {
                name: runtime.name().to_owned(),
                toggle: runtime.toggle_name(),
                program: program.clone(),
                candidates,
            }
        })
    }

    fn candidates(&self, runtime: Runtime<'_>, script: &[&Path]) -> Vec<PathBuf> {
        let in_directories =
            |directories: [&str; 2]| directories.map(|f| Path::new(f).join(runtime.name()));
        let session = self.settings.local_python.as_deref();
        let mut candidates = Vec::new();
        match runtime {
            Runtime::Node => return in_directories(INTERPRETER_DIRECTORIES).to_vec(),
            Runtime::Python => {
                if let Some(bin) = self.environment_of(script) {
                    candidates.extend([bin.join("python3"), bin.join("python")]);
                }
                candidates.extend(session.map(Path::to_owned));
            }
            // The versioned name in the same directories: never another version.
            Runtime::VersionedPython(name) => {
                candidates.extend(self.environment_of(script).map(|bin| bin.join(name)));
                candidates.extend(session.map(|python| python.with_file_name(name)));
            }
        }
        candidates.extend(in_directories(["/usr/bin", "/usr/local/bin"]));
        candidates
    }

    /// Returns the `bin` of the script's virtual environment: the nearest parent directory with a
    /// `pyvenv.cfg`. A link such as `/usr/local/bin/aider` belongs to its target's environment.
    fn environment_of(&self, script: &[&Path]) -> Option<PathBuf> {
        let mut directories = script.iter().flat_map(|path| path.ancestors().skip(1));
        let found =
            directories.find(|dir| FileFacts::is_file(self.files, &dir.join("pyvenv.cfg")))?;
        Some(found.join("bin"))
    }

    fn is_usable(&self, candidate: &Path) -> bool {
        candidate.is_absolute()
            && self.files.is_executable(candidate)
            && matches!(self.workspace.locate(candidate), PathLocation::Outside { .. })
    }
}

/// No local runtime was found for a call that must run locally.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeNotFound {
    name: String,
    toggle: &'static str,
    program: Program,
    candidates: Vec<PathBuf>,
}

impl RuntimeNotFound {
    /// Returns the shim's exit code: 127, as a shell's for a missing command.
    pub fn exit_code(&self) -> u8 {
        exit::NOT_FOUND
    }
}

impl fmt::Display for RuntimeNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RuntimeNotFound { name, toggle, program, candidates } = self;
        let tried = candidates.iter().map(|path| Program::Path(path.clone()).to_string());
        let tried = tried.collect::<Vec<_>>().join(", ");
        write!(
            f,
            "no local {name} to run {program}: tried {tried}\n\
             hint: install {name} where the agent is, or set {toggle}=0 to have a sidecar run it"
        )
    }
}

impl std::error::Error for RuntimeNotFound {}
