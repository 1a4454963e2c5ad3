//! An engine's command line, and steps whose output is only shown if they fail.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use aifo_types::proxy_variables::{HTTP_PROXY, HTTPS_PROXY, NO_PROXY};

use crate::images::error::ImageError;
use crate::{Flavor, Program, error_line};

/// The programs of this machine that build images. The caller decides that they are trusted.
#[derive(Clone, Debug)]
pub struct Host {
    /// The engine.
    pub flavor: Flavor,
    /// The engine program.
    pub engine: Program,
    /// mmdebstrap, if it is installed.
    pub mmdebstrap: Option<Program>,
}

impl Host {
    /// Returns an engine command with these arguments.
    pub fn command<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = command_of(&self.engine);
        command.args(args);
        command
    }

    /// Returns whether the engine has this image, built from these inputs.
    pub fn has(&self, image: &str, inputs: &str) -> bool {
        let format = format!("{{{{index .Config.Labels \"{INPUTS_LABEL}\"}}}}");
        let mut command = self.command(["image", "inspect", "--format", &format, image]);
        let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == inputs)
    }

    /// Returns the `build` command without its context and further options.
    pub fn build(&self, image: &str, base: &str, labels: &[String]) -> Command {
        let mut command = self.command(["build", "--tag", image]);
        command.args(["--build-arg", &format!("BASE={base}")]);
        if self.flavor == Flavor::Podman {
            // The OCI format has no HEALTHCHECK.
            command.args(["--format", "docker"]);
        }
        for label in labels {
            command.args(["--label", label]);
        }
        for name in PASSED.as_flattened().iter().filter(|name| std::env::var_os(name).is_some()) {
            // Name only: the engine program reads the value, so it is not printed.
            command.args(["--build-arg", name]);
        }
        command
    }

    /// Lists the engine images with [`IMAGE_LABEL`]: name, tag, size and age, sorted by name.
    pub fn images(&self) -> Result<Vec<[String; 4]>, ImageError> {
        let filter = format!("label={IMAGE_LABEL}");
        let format = "{{.Repository}}\t{{.Tag}}\t{{.Size}}\t{{.CreatedSince}}";
        let mut command = self.command(["images", "--filter", &filter]);
        command.args(["--filter", "dangling=false", "--format", format]);
        Ok(rows(&read(self.flavor.program(), &mut command)?))
    }

    /// Returns a command of mmdebstrap, if it is installed.
    pub(crate) fn mmdebstrap(&self) -> Option<Command> {
        self.mmdebstrap.as_ref().map(command_of)
    }
}

/// The label of every image; its value is the recipe's name.
pub const IMAGE_LABEL: &str = "dev.aifo.image";
/// The label with the digest of an image's inputs.
pub const INPUTS_LABEL: &str = "dev.aifo.inputs";

/// Proxy variables. Both engines pass them without a Dockerfile's ARG and keep them out of the
/// image's history.
const PASSED: [[&str; 2]; 3] = [HTTP_PROXY, HTTPS_PROXY, NO_PROXY];

fn command_of(program: &Program) -> Command {
    let mut command = Command::new(&program.file);
    command.env("PATH", &program.path);
    command
}

/// Runs a command and returns its stdout. Errors: it failed, with its last line of stderr.
pub(crate) fn read(what: &str, command: &mut Command) -> Result<String, ImageError> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let reason = error_line(&String::from_utf8_lossy(&output.stderr));
        let reason = reason.unwrap_or_else(|| output.status.to_string());
        return Err(ImageError::Failed { what: what.to_owned(), reason });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the directory of the Rust toolchain that `rustc` selects in a directory. Errors: its programs
/// and libraries are spread over the system's directories, and cannot be copied.
pub fn toolchain(rustc: &Program, directory: &Path) -> Result<PathBuf, ImageError> {
    let mut command = command_of(rustc);
    let sysroot = read("rustc", command.args(["--print", "sysroot"]).current_dir(directory))?;
    let sysroot = PathBuf::from(sysroot.trim_end());
    match ["/", "/usr", "/usr/local"].iter().any(|system| sysroot == Path::new(system)) {
        true => Err(ImageError::SystemToolchain(sysroot)),
        false => Ok(sysroot),
    }
}

fn rows(listing: &str) -> Vec<[String; 4]> {
    let row = |line: &str| {
        let cells: Vec<String> = line.split('\t').map(str::to_owned).collect();
        cells.try_into().ok()
    };
    let mut rows: Vec<[String; 4]> = listing.lines().filter_map(row).collect();
    rows.sort();
    rows
}

/// Returns build arguments for the package indexes that a Dockerfile declares and the environment
/// sets. Names only: the addresses may contain a password.
pub(crate) fn index_arguments(
    dockerfile: &str,
    is_set: impl Fn(&str) -> bool,
) -> impl Iterator<Item = OsString> {
    let declared = dockerfile.lines().filter_map(|line| line.strip_prefix("ARG "));
    let index = |name: &&str| name.starts_with("PIP_") || name.starts_with("NPM_CONFIG_");
    let names = declared.filter(move |name| index(name) && is_set(name));
    names.flat_map(|name| ["--build-arg".into(), name.into()]).collect::<Vec<_>>().into_iter()
}

/// Writes one line per step. A step's output is only written if it fails.
pub(crate) struct Log<'a> {
    file: PathBuf,
    out: &'a mut dyn Write,
}

impl<'a> Log<'a> {
    /// The output of a step is collected in the scratch directory.
    pub(crate) fn new(scratch: &Path, out: &'a mut dyn Write) -> Self {
        Log { file: scratch.join("log"), out }
    }

    /// Runs a command and writes a line with its duration.
    pub(crate) fn step(&mut self, what: &str, command: &mut Command) -> Result<(), ImageError> {
        let start = Instant::now();
        // A closed stderr does not stop a build.
        _ = write!(self.out, "{what}: ");
        _ = self.out.flush();
        match self.run(what, command) {
            Ok(()) => {
                self.line(&format!("{:.1} s", start.elapsed().as_secs_f64()));
                Ok(())
            }
            Err(error) => {
                self.line("failed");
                self.show();
                Err(error)
            }
        }
    }

    /// Runs a command without a line.
    pub(crate) fn quiet(&mut self, what: &str, command: &mut Command) -> Result<(), ImageError> {
        self.run(what, command).inspect_err(|_| self.show())
    }

    /// Writes a line.
    pub(crate) fn line(&mut self, text: &str) {
        _ = writeln!(self.out, "{text}");
    }

    fn run(&self, what: &str, command: &mut Command) -> Result<(), ImageError> {
        let log = File::create(&self.file).map_err(ImageError::file("write", &self.file))?;
        let streams = (log.try_clone()?, log);
        command.stdin(Stdio::null()).stdout(streams.0).stderr(streams.1);
        let status = command.status()?;
        if status.success() {
            return Ok(());
        }
        let reason = format!("{status}; its output is above");
        Err(ImageError::Failed { what: what.to_owned(), reason })
    }

    /// Returns the output of the last step.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.file).unwrap_or_default()).into_owned()
    }

    /// Writes the end of the failed step's output.
    fn show(&mut self) {
        let text = without_colours(&self.text());
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.get(lines.len().saturating_sub(SHOWN)..).unwrap_or_default() {
            self.line(&format!("  | {}", line.trim_end()));
        }
    }
}

/// Removes the sequences that set colours.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default();
    parts.fold(first.to_owned(), |text, part| text + part.split_once('m').map_or(part, |it| it.1))
}

/// Lines of a failed step's output. npm prints a page of usage after the cause.
const SHOWN: usize = 120;

#[cfg(test)]
mod tests {

    use super::*;
    use crate::images::script::script;

    fn host(flavor: Flavor) -> Host {
        let engine = Program { file: flavor.program().into(), path: OsString::new() };
        Host { flavor, engine, mmdebstrap: None }
    }

    #[test]
    fn podman_builds_docker_images() {
        let command = host(Flavor::Podman).build("x:1", "debian", &["a=b".to_owned()]);
        let args: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
        let expected =
            "build --tag x:1 --build-arg BASE=debian --format docker --label a=b".split(' ');
        assert!(expected.eq(args.iter().take(9)), "{args:?}");
    }

    #[test]
    fn the_toolchain_has_a_directory_of_its_own() {
        let scratch = tempfile::tempdir().unwrap();
        let selected =
            |body: &str| toolchain(&script(scratch.path(), "rustc", body), Path::new("/"));
        assert_eq!(selected("pwd").unwrap_err().to_string().lines().count(), 2);
        assert_eq!(selected("echo /opt/rust").unwrap(), Path::new("/opt/rust"));
        assert!(selected("echo /usr").is_err());
        assert!(selected("echo failed >&2; exit 1").unwrap_err().to_string().contains("failed"));
    }

    #[test]
    fn rows_are_sorted_by_name() {
        let rows = rows("b\tlatest\t1 MB\t2 hours ago\na\tlatest\t2 MB\t3 days ago\n");
        assert_eq!(rows[0], ["a", "latest", "2 MB", "3 days ago"]);
        assert_eq!(rows.len(), 2);
    }

    #[test]
    fn only_declared_and_set_indexes_are_passed() {
        let dockerfile = "ARG BASE\nFROM ${BASE}\nARG UV=0.*\nARG PIP_INDEX_URL\nARG PIP_OTHER\n";
        let given: Vec<_> = index_arguments(dockerfile, |name| name != "PIP_OTHER").collect();
        assert_eq!(given, ["--build-arg", "PIP_INDEX_URL"]);
    }

    #[test]
    fn only_a_failed_step_shows_its_output() {
        let scratch = tempfile::tempdir().unwrap();
        let mut out = Vec::new();
        let mut log = Log::new(scratch.path(), &mut out);
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        log.step("good", &mut shell("echo hidden")).unwrap();
        let error =
            log.step("bad", &mut shell("echo cause; printf '\\033[91mend\\033[0m\\n' >&2; exit 3"));
        assert_eq!(
            error.unwrap_err().to_string(),
            "bad failed: exit status: 3; its output is above"
        );
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("good: ") && !text.contains("hidden"), "{text}");
        assert!(text.ends_with("bad: failed\n  | cause\n  | end\n"), "{text}");
    }
}
