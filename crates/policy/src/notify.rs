//! Rules for notification commands on the host (`spec/notify.md`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use aifo_types::{Refusal, ToolName};

/// The rules for `/notify`, from the user's own configuration. The workspace cannot extend them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotifyRules {
    /// The command: an absolute path and arguments. A final `{args}` is replaced with the caller's
    /// arguments; without it the caller must send exactly the configured ones. `None`: the command
    /// is looked up by basename in the safe directories.
    pub command: Option<Vec<String>>,
    /// Allowed basenames. Empty: notifications are off.
    pub allowlist: Vec<String>,
    /// Permission for the caller options.
    pub options: CallerOptions,
    /// Directories that must contain the executable after links are resolved.
    pub safe_dirs: Vec<PathBuf>,
    /// The host variables that the command gets.
    pub environment: NotifyEnvironment,
    /// The time limit; `None` is the session's.
    pub timeout: Option<Duration>,
}

/// Permission for caller's arguments that start with `-`. An option of a notification command could
/// read or write the user's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallerOptions {
    /// They may not; this includes `-` and `--`.
    #[default]
    Refused,
    /// They may; the user trusts every option of the command.
    Allowed,
}

/// The host variables that a notification command gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NotifyEnvironment {
    /// All.
    #[default]
    Full,
    /// PATH, HOME, LANG, LC_* and these names.
    Trimmed(Vec<String>),
}

/// An allowed notification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Notification {
    /// The executable, with links resolved.
    pub program: PathBuf,
    /// Its basename, which becomes `argv[0]`.
    pub tool: ToolName,
    /// The arguments after `argv[0]`.
    pub args: Vec<Vec<u8>>,
}

/// Access to the host's file system.
pub trait Executables {
    /// Resolves links; `None` unless the result is an executable file or a directory.
    fn real_path(&self, path: &Path) -> Option<PathBuf>;
}

impl Default for NotifyRules {
    fn default() -> Self {
        let safe_dirs = ["/usr/local/bin", "/usr/bin", "/bin", "/opt/homebrew/bin"];
        NotifyRules {
            command: None,
            allowlist: vec!["say".to_owned()],
            options: CallerOptions::Refused,
            safe_dirs: safe_dirs.map(PathBuf::from).to_vec(),
            environment: NotifyEnvironment::Full,
            timeout: None,
        }
    }
}

impl NotifyRules {
    /// Checks a request. Errors: [`Refusal::NotificationRefused`] with the reason,
    /// [`Refusal::BadRequest`] if `command` is not a basename.
    pub fn judge(
        &self,
        command: &[u8],
        args: &[Vec<u8>],
        host: &impl Executables,
    ) -> Result<Notification, Refusal> {
        let command = std::str::from_utf8(command).unwrap_or_default();
        if command.is_empty() || command.contains(['/', '\0']) || matches!(command, "." | "..") {
            return Err(Refusal::BadRequest("cmd is not a plain name".to_owned()));
        }
        let refused = |why: String| Err(Refusal::NotificationRefused(why));
        let configured = self.command.as_deref().and_then(<[String]>::split_first);
        if let Some((executable, _)) = configured {
            let basename = Path::new(executable).file_name().unwrap_or_default();
            if basename != command {
                let accepted = basename.display();
                return refused(format!(
                    "only executable basename '{accepted}' is accepted (got '{}')",
                    command.escape_debug()
                ));
            }
        }
        let tool = ToolName::parse(command.as_bytes());
        let is_allowed = |tool: &ToolName| self.allowlist.iter().any(|name| name == tool.as_str());
        let Some(tool) = tool.ok().filter(is_allowed) else {
            let command = command.escape_debug();
            return refused(format!("command '{command}' not allowed for notifications"));
        };
        let (program, args) = match configured {
            Some((executable, fixed)) => {
                if !executable.starts_with('/') {
                    return refused(format!(
                        "notifications executable '{executable}' is not absolute"
                    ));
                }
                let Some(program) = host.real_path(Path::new(executable)) else {
                    return refused(format!(
                        "notifications executable '{executable}' does not exist"
                    ));
                };
                (program, self.merge(fixed, args)?)
            }
            None => {
                let found =
                    self.safe_dirs.iter().find_map(|dir| host.real_path(&dir.join(command)));
                let Some(program) = found else {
                    return refused(format!("command '{command}' is in no safe directory"));
                };
                (program, self.checked(args)?.to_vec())
            }
        };
        if !self.is_safe(&program, host) {
            let program = program.display();
            return refused(format!(
                "notifications executable '{program}' is not in a safe directory"
            ));
        }
        Ok(Notification { program, tool, args })
    }

    /// Returns the patterns of the variables that the command gets, or `None` for all.
    pub fn kept_variables(&self) -> Option<Vec<&str>> {
        match &self.environment {
            NotifyEnvironment::Full => None,
            NotifyEnvironment::Trimmed(names) => {
                let further = names.iter().map(String::as_str);
                Some(["PATH", "HOME", "LANG", "LC_*"].into_iter().chain(further).collect())
            }
        }
    }

    /// Returns the configured arguments, with the caller's in place of `{args}`.
    fn merge(&self, fixed: &[String], args: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Refusal> {
        let bytes = |words: &[String]| words.iter().map(|word| word.clone().into_bytes()).collect();
        if let Some((last, before)) = fixed.split_last()
            && last == "{args}"
        {
            let mut argv: Vec<Vec<u8>> = bytes(before);
            argv.extend_from_slice(self.checked(args)?);
            return Ok(argv);
        }
        let fixed: Vec<Vec<u8>> = bytes(fixed);
        if fixed == args {
            // All of them, options included, are from the user's configuration.
            return Ok(fixed);
        }
        Err(Refusal::NotificationRefused(format!(
            "arguments mismatch: configured '{}', got '{}'",
            crate::redact(&fixed),
            crate::redact(args)
        )))
    }

    /// Returns the caller arguments, or refuses options.
    fn checked<'a>(&self, args: &'a [Vec<u8>]) -> Result<&'a [Vec<u8>], Refusal> {
        let option = match self.options {
            CallerOptions::Refused => args.iter().find(|arg| arg.starts_with(b"-")),
            CallerOptions::Allowed => None,
        };
        match option {
            None => Ok(args),
            Some(option) => Err(Refusal::NotificationRefused(format!(
                "option '{}' not allowed for notifications",
                crate::redact(std::slice::from_ref(option))
            ))),
        }
    }

    fn is_safe(&self, program: &Path, host: &impl Executables) -> bool {
        let mut safe = self.safe_dirs.iter().filter_map(|dir| host.real_path(dir));
        safe.any(|dir| program.starts_with(dir))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    struct Host(HashMap<&'static str, &'static str>);

    impl Executables for Host {
        fn real_path(&self, path: &Path) -> Option<PathBuf> {
            self.0.get(path.to_str()?).map(PathBuf::from)
        }
    }

    fn host() -> Host {
        Host(HashMap::from([
            ("/usr/bin", "/usr/bin"),
            ("/bin", "/usr/bin"),
            ("/usr/bin/say", "/usr/bin/espeak"),
            ("/bin/say", "/usr/bin/espeak"),
            ("/bin/evil", "/home/me/evil"),
            ("/home/me/say", "/home/me/say"),
        ]))
    }

    fn check(rules: &NotifyRules, command: &str, args: &[&str], expected: Result<&str, &str>) {
        let args: Vec<_> = args.iter().map(|arg| arg.as_bytes().to_vec()).collect();
        let judged = rules.judge(command.as_bytes(), &args, &host());
        let actual = judged.map(|notification| {
            let Notification { program, tool, args } = notification;
            let argv = [tool.as_str().as_bytes().to_vec()].into_iter().chain(args);
            let argv = argv.collect::<Vec<_>>().join(&b' ');
            format!("{} {}", program.display(), String::from_utf8(argv).unwrap())
        });
        let actual = actual.map_err(|refusal| refusal.body().trim_end().to_owned());
        assert_eq!(
            actual,
            expected.map(str::to_owned).map_err(str::to_owned),
            "{command} {args:?}"
        );
    }

    #[test]
    fn by_basename_from_the_safe_directories() {
        let mut rules = NotifyRules::default();
        check(&rules, "say", &["hi", ""], Ok("/usr/bin/espeak say hi "));
        check(&rules, "echo", &[], Err("command 'echo' not allowed for notifications"));
        check(&rules, "/bin/say", &[], Err("bad request: cmd is not a plain name"));
        check(&rules, "..", &[], Err("bad request: cmd is not a plain name"));
        rules.allowlist = vec!["evil".into(), "none".into()];
        let unsafe_place = "notifications executable '/home/me/evil' is not in a safe directory";
        check(&rules, "evil", &[], Err(unsafe_place));
        check(&rules, "none", &[], Err("command 'none' is in no safe directory"));
        rules.allowlist.clear();
        check(&rules, "say", &[], Err("command 'say' not allowed for notifications"));
    }

    #[test]
    fn by_a_configured_command() {
        let rules = |words: &[&str]| NotifyRules {
            command: Some(words.iter().map(|word| (*word).to_owned()).collect()),
            ..NotifyRules::default()
        };
        let open = rules(&["/usr/bin/say", "-v", "{args}"]);
        check(&open, "say", &["hi"], Ok("/usr/bin/espeak say -v hi"));
        let only = "only executable basename 'say' is accepted (got 'echo')";
        check(&open, "echo", &[], Err(only));
        let fixed = rules(&["/usr/bin/say", "done"]);
        check(&fixed, "say", &["done"], Ok("/usr/bin/espeak say done"));
        check(&fixed, "say", &["x"], Err("arguments mismatch: configured 'done', got 'x'"));
        check(&fixed, "say", &[], Err("arguments mismatch: configured 'done', got ''"));
        let home = rules(&["/home/me/say", "{args}"]);
        let unsafe_place = "notifications executable '/home/me/say' is not in a safe directory";
        check(&home, "say", &[], Err(unsafe_place));
        check(&rules(&["say"]), "say", &[], Err("notifications executable 'say' is not absolute"));
    }

    #[test]
    fn a_callers_arguments_are_no_options() {
        let by_name = NotifyRules::default();
        let command = |words: &[&str]| NotifyRules {
            command: Some(words.iter().map(|word| (*word).to_owned()).collect()),
            ..NotifyRules::default()
        };
        let open = command(&["/usr/bin/say", "-v", "{args}"]);
        let refusals = [
            (&["-f", "/home/me/.ssh/id_rsa"][..], "option '-f'"),
            (&["hi", "-o/home/me/x"], "option '-o/home/me/x'"),
            (&["--input-file=/etc/passwd"], "option '--input-file=/etc/passwd'"),
            (&["--token=s3"], "option '--token=[redacted]'"),
            (&["--", "hi"], "option '--'"),
            (&["-"], "option '-'"),
            (&["-\x1b[2J"], "option '\"-\\x1b[2J\"'"),
        ];
        for (args, expected) in refusals {
            let expected = format!("{expected} not allowed for notifications");
            for rules in [&by_name, &open] {
                check(rules, "say", args, Err(&expected));
            }
        }
        check(&by_name, "say", &["5 - 3 = 2", ""], Ok("/usr/bin/espeak say 5 - 3 = 2 "));

        let fixed = command(&["/usr/bin/say", "-f", "/done.txt"]);
        check(&fixed, "say", &["-f", "/done.txt"], Ok("/usr/bin/espeak say -f /done.txt"));
        let mismatch = "arguments mismatch: configured '-f /done.txt', got '-f /x'";
        check(&fixed, "say", &["-f", "/x"], Err(mismatch));

        for rules in [by_name, open] {
            let expected = match rules.command {
                None => "/usr/bin/espeak say -f -- x",
                Some(_) => "/usr/bin/espeak say -v -f -- x",
            };
            let trusting = NotifyRules { options: CallerOptions::Allowed, ..rules };
            check(&trusting, "say", &["-f", "--", "x"], Ok(expected));
        }
    }

    #[test]
    fn a_trimmed_environment() {
        assert_eq!(NotifyRules::default().kept_variables(), None);
        let environment = NotifyEnvironment::Trimmed(vec!["DISPLAY".into()]);
        let rules = NotifyRules { environment, ..NotifyRules::default() };
        assert_eq!(rules.kept_variables().unwrap(), ["PATH", "HOME", "LANG", "LC_*", "DISPLAY"]);
    }
}
