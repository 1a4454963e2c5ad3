//! What `--help` says below the options, and usages that clap does not find by itself.

pub(super) const EXAMPLES: &str = "\
Examples:
  aifo-coder run codex               an agent in its container, its tools in sidecars
  aifo-coder run -- make             a command of this machine, its tools in sidecars
  aifo-coder prompt gemini 'Why?'    an agent does one thing, its answer on stdout
  aifo-coder acp gemini              an agent for an editor that speaks ACP
  aifo-coder exec -- cargo test      one tool call
  aifo-coder why python3 -m pytest   what would become of a call
  aifo-coder proxy make              this machine's make, for containers
  aifo-coder log -f                  the calls as they come

Exit codes: those of the command; 86 nothing ran; 1 a question without an answer; 2 the command line \
was wrong.";

pub(super) const EXIT_CODES: &str = "\
Exit codes: the command's own; 128+n if signal n ended it; 127 the command was not found; 126 it \
could not be executed; 86 nothing ran; 2 the command line was wrong. A tool's shim also exits with \
124 (the tool ran into the time limit) and 125 (its ending is unknown).";

pub(super) const RUN_USAGE: &str = "\
aifo-coder run [OPTIONS] AGENT [ARGS]..
       aifo-coder run [OPTIONS] [--image IMAGE] -- COMMAND [ARGS]..";

pub(super) const RUN: &str = "\
Examples:
  aifo-coder run codex
  aifo-coder run --toolchain rust --toolchain node claude --continue
  aifo-coder run --image ubuntu:24.04 -- bash
  aifo-coder run --max-secs 600 -- bash -c 'make && ./check'

What the agent keeps (~/.codex, ..) and its credentials by name are let into its container, see \
`aifo-coder agents`; AIFO_ENV_NAME=value gives it NAME. A command after `--` without --image runs on \
this machine, with its own environment.

Exit codes: the command's own; 128+n if signal n ended it; 127 the command was not found; 126 it \
could not be executed; 86 nothing ran; 2 the command line was wrong. A tool's shim also exits with \
124 (the tool ran into the time limit) and 125 (its ending is unknown).";

pub(super) const PROMPT_USAGE: &str = "\
aifo-coder prompt [OPTIONS] AGENT [TEXT]
       aifo-coder prompt [OPTIONS] --agent-command COMMAND [TEXT]";

pub(super) const PROMPT: &str = "\
Examples:
  aifo-coder prompt gemini 'What does this project do?'
  aifo-coder prompt opencode --yes-to edit --yes-to execute 'Mend the failing test'
  git diff | aifo-coder prompt codex --format json | jq -r 'select(.type == \"final\").text'
  aifo-coder prompt --agent-command 'my-agent --acp' --backend local 'Hello'

What no rule of your configuration and no --yes-to allows is denied: nobody is there to be asked.

Exit codes: 0 the agent is done; 1 it failed; 3 it refuses; 4 no more tokens; 5 no more requests; 6 \
another reason; 7 it was cancelled by itself; 124 it took too long; 128+n signal n cancelled it; 86 \
nothing ran; 2 the command line was wrong.";

pub(super) const ACP_USAGE: &str = "\
aifo-coder acp [OPTIONS] AGENT [ARGS]..
       aifo-coder acp [OPTIONS] --agent-command COMMAND [-- ARGS..]
       aifo-coder acp replay [--format HOW] FILE..";

pub(super) const ACP: &str = "\
It is for an editor to start, with the project as current directory. Zed, in settings.json:

  \"agent_servers\": {
    \"Gemini in aifo\": {
      \"type\": \"custom\", \"command\": \"aifo-coder\", \"args\": [\"acp\", \"gemini\"], \"env\": {}
    }
  }

Toad:

  toad acp \"aifo-coder acp gemini\"

What no rule of your configuration decides, the editor asks you.

With ARGS, or where stdin is a terminal, the agent's program runs there with ARGS, in its container: so an \
editor lets you log in to the agent.

Exit codes: 0 the editor has gone; 1 the agent failed; 86 nothing ran; 2 the command line was wrong. With \
ARGS: the agent's own.";

pub(super) const EXEC: &str = "\
Examples:
  aifo-coder exec -- cargo test
  aifo-coder exec --toolchain c-cpp -- make -j4
  aifo-coder exec --session 5d0c -- cargo build

Exit codes: the tool's own; 128+n if signal n ended it; 86 nothing ran; 124 the tool ran into the \
time limit; 125 its ending is unknown; 126 it could not be executed; 127 it was not found; 2 the \
command line was wrong.";

pub(super) const PROXY: &str = "\
Examples:
  aifo-coder proxy make                      then, in a container: .swe-swe/proxy/make build
  aifo-coder proxy make docker --client binary
  aifo-coder proxy --global --max-secs 600 gh

PROXY_TIMEOUT in the container says for how many seconds a client waits, 300 by default, 0 for ever.

Exit codes: 0 it was told to end, and has; 86 it did not come up; 2 the command line was wrong. A \
client's: the command's own; 128+n if signal n ended it; 124 it waited or ran too long; 125 nothing ran, \
or the ending is unknown; 126 it could not be executed; 127 it is gone.";

pub(super) const WHY: &str = "\
Examples:
  aifo-coder why cargo test
  aifo-coder why --toolchain node tsc --noEmit
  aifo-coder why --agent codex node /usr/local/bin/codex
  aifo-coder why --json make | jq .route

Exit codes: 0 the question was answered, whatever the answer; 1 it was not; 2 the command line was \
wrong.";

pub(super) const LOG: &str = "\
Examples:
  aifo-coder log
  aifo-coder log --failed 5d0c
  aifo-coder log --json | jq 'select(.wall_ms > 1000)'";

pub(super) const CLEANUP: &str = "\
Sessions that run, or are just starting, are never touched, nor are those of other users.

Exit codes: 0 nothing is left, or nothing was to be removed; 1 something could not be removed; 2 the \
command line was wrong.";

pub(super) const CACHE: &str = "\
Examples:
  aifo-coder cache list --sizes
  aifo-coder cache clear rust

Exit codes: 0 it is done; 1 something could not be removed; 2 the command line was wrong.";

pub(super) const DOCTOR: &str = "\
It starts sidecars as a session with the same options would, makes some tool calls in them, and takes \
them down again. Nothing of it stays.

Exit codes: 0 nothing failed; 1 something did; 2 the command line was wrong.";

pub(super) const CONFIG: &str = "\
Values come from the built-in defaults, your own file, the environment and flags, each over the one \
before. A project's .aifo.toml can only tighten: deny tools and variables, lower limits, leave \
toolchains out, switch notifications off.

Examples:
  aifo-coder config show --toolchain rust
  $EDITOR \"$(aifo-coder config path)\"
  aifo-coder config check";

pub(super) const COMPLETIONS: &str = "\
Examples:
  source <(aifo-coder completions bash)                      in ~/.bashrc
  source <(aifo-coder completions zsh)                       in ~/.zshrc, after compinit
  aifo-coder completions fish | source                       in ~/.config/fish/config.fish
  eval (aifo-coder completions elvish | slurp)               in ~/.config/elvish/rc.elv
  aifo-coder completions powershell | Out-String | iex       in $PROFILE

The names of agents and kinds are those of your configuration at that time.";
