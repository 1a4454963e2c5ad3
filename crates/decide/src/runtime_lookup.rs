//! Where a runtime is found locally: `spec/decide.md#local-runtimes`.

use std::fmt;
use std::path::{Path, PathBuf};

use aifo_types::exit;

use crate::decide::FileFacts;
use crate::decision::Program;
use crate::runtime::Runtime;
use crate::settings::Settings;
use crate::workspace::{PathLocation, Workspace};

/// All that finding a local runtime depends on, but for the call.
pub(crate) struct RuntimeLookup<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) workspace: &'a Workspace<'a>,
    pub(crate) files: &'a dyn FileFacts,
}

impl RuntimeLookup<'_> {
    /// The first candidate that can be executed and lies outside the workspace, by its spelling and
    /// really: a workspace must not bring the runtime for what is not its own.
    ///
    /// `script` holds the paths under which the program's file is known, the real one first; none
    /// for a module.
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
        let in_folders = |folders: [&str; 2]| folders.map(|f| Path::new(f).join(runtime.name()));
        let session = self.settings.local_python.as_deref();
        let mut candidates = Vec::new();
        match runtime {
            Runtime::Node => return in_folders(["/usr/local/bin", "/usr/bin"]).to_vec(),
            Runtime::Python => {
                if let Some(bin) = self.environment_of(script) {
                    candidates.extend([bin.join("python3"), bin.join("python")]);
                }
                candidates.extend(session.map(Path::to_owned));
            }
            // The same name in the same folders, so that no other version steps in.
            Runtime::VersionedPython(name) => {
                candidates.extend(self.environment_of(script).map(|bin| bin.join(name)));
                candidates.extend(session.map(|python| python.with_file_name(name)));
            }
        }
        candidates.extend(in_folders(["/usr/bin", "/usr/local/bin"]));
        candidates
    }

    /// The `bin` of the virtual environment a script lies in: the nearest folder above it with a
    /// `pyvenv.cfg`. A link such as `/usr/local/bin/aider` belongs to the environment it leads to.
    fn environment_of(&self, script: &[&Path]) -> Option<PathBuf> {
        let mut folders = script.iter().flat_map(|path| path.ancestors().skip(1));
        let found =
            folders.find(|folder| FileFacts::is_file(self.files, &folder.join("pyvenv.cfg")))?;
        Some(found.join("bin"))
    }

    fn is_usable(&self, candidate: &Path) -> bool {
        candidate.is_absolute()
            && self.files.is_executable(candidate)
            && matches!(self.workspace.locate(candidate), PathLocation::Outside { .. })
    }
}

/// A call must run locally, and there is no runtime for it.
///
/// Its `Display` is a sentence and, on a second line, the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeNotFound {
    name: String,
    toggle: &'static str,
    program: Program,
    candidates: Vec<PathBuf>,
}

impl RuntimeNotFound {
    /// What the shim exits with: 127, as a shell does when a command is not there.
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
