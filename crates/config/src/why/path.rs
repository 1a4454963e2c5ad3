//! Explains a call by a path.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use aifo_decide::{FileFacts, Program, Reason};
use aifo_types::{ToolName, exit};

use super::explanation::{Explanation, Mode, Refused};
use super::facts::FileSystem;
use super::interpreter::Interpreter;
use super::judge::{CallExplainer, SidecarLocation};
use super::words;

impl CallExplainer<'_> {
    /// Explains a call by a path, which the kernel executes without a lookup in PATH. In the agent's
    /// container the path may lead to a shim in the place of an interpreter.
    pub(crate) fn explain_path(&self, path: &Path, args: &[Vec<u8>], cwd: &Path) -> Explanation {
        if self.place == SidecarLocation::Containers
            && let Some(interpreter) = Interpreter::of(&cwd.join(path), self.workspace)
        {
            return self.explain_interpreter(path, &interpreter, args, cwd);
        }
        let mut explanation = self.unexplained(path.display().to_string(), args, cwd);
        explanation.mode = Mode::Direct;
        explanation.reason = "path".to_owned();
        let name = path.file_name().and_then(|name| ToolName::parse(name.as_encoded_bytes()).ok());
        explanation.because = match name.filter(|name| self.has_shim(name)) {
            Some(name) => format!(
                "a path is not looked up in PATH, so no shim takes the call; \
                 '{name}' alone would call the shim"
            ),
            None => "a path is not looked up in PATH, so no shim takes the call".to_owned(),
        };
        explanation.environment = "the agent's own";
        explanation.max_secs = None;
        let file = cwd.join(path);
        let (text, exit_code, remedy) = if FileSystem.is_executable(&file) {
            explanation.executable = Some(file);
            explanation.directory = Some(cwd.to_owned());
            return explanation;
        } else if file.exists() {
            let text = format!("'{}' cannot be executed: permission denied", path.display());
            (text, exit::NOT_EXECUTABLE, format!("chmod +x '{}'", path.display()))
        } else {
            let text = format!("'{}' does not exist", path.display());
            (text, exit::NOT_FOUND, "check the path".to_owned())
        };
        explanation.refusal = Some(Refused { status: None, exit_code, text, remedy });
        explanation
    }

    fn explain_interpreter(
        &self,
        path: &Path,
        interpreter: &Interpreter,
        args: &[Vec<u8>],
        cwd: &Path,
    ) -> Explanation {
        let Interpreter { tool, program, target, .. } = interpreter;
        let script = interpreter.is_script.then(|| path.as_os_str().as_bytes().to_vec());
        let all: Vec<_> = script.into_iter().chain(args.iter().cloned()).collect();
        if interpreter.is_covered() && interpreter.is_target() {
            return self.explain(tool, &all, cwd);
        }
        let mut explanation = self.unexplained(path.display().to_string(), args, cwd);
        if interpreter.is_covered() {
            let program = Program::Path(program.clone());
            explanation.reason = Reason::CalledByPath.to_string();
            explanation.because =
                words::because(tool.as_str(), Reason::CalledByPath, Some(&program));
            self.explain_proxied(tool, &all, &mut explanation);
            return explanation;
        }
        explanation.mode = Mode::Direct;
        explanation.reason = "path".to_owned();
        explanation.because =
            format!("'{}' leads to '{}' of this machine", program.display(), target.display());
        explanation.environment = "the agent's own";
        explanation.max_secs = None;
        explanation.refusal = Some(Refused {
            status: None,
            exit_code: exit::NOT_FOUND,
            text: format!("containers do not have '{}'", target.display()),
            remedy: match program.ancestors().nth(2).filter(|it| it.join("pyvenv.cfg").is_file()) {
                Some(venv) => format!(
                    "create the environment again in a session: python3 -m venv --clear '{}'",
                    venv.display()
                ),
                None => "let it lead to the interpreter of the sidecar's image".to_owned(),
            },
        });
        explanation
    }
}
