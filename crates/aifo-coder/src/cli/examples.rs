//! Examples below the options of `--help`, for commands whose exit codes are those of the whole program.

pub(super) const AGENTS: &str = "\
Examples:
  aifo-coder agents
  aifo-coder agents --json | jq -r '.[] | select(.image_ready) | .name'

CREDENTIALS are the variables of this environment, and the entries of [keys] in your configuration, that \
a session of the agent uses. STATE are its directories in your home.";

pub(super) const CACHE_CLEAR: &str = "\
Examples:
  aifo-coder cache clear --dry-run
  aifo-coder cache clear rust,node
  aifo-coder cache clear --project
  aifo-coder cache clear --gone";

pub(super) const CACHE_LIST: &str = "\
Examples:
  aifo-coder cache list --sizes
  aifo-coder cache list rust,node";

pub(super) const CONFIG_CHECK: &str = "\
Examples:
  aifo-coder config check
  aifo-coder config check .aifo.toml";

pub(super) const CONFIG_PATH: &str = "\
Examples:
  $EDITOR \"$(aifo-coder config path)\"";

pub(super) const CONFIG_SHOW: &str = "\
Examples:
  aifo-coder config show
  aifo-coder config show --net none --toolchain rust";

pub(super) const DETACH: &str = "\
Examples:
  aifo-coder detach
  aifo-coder detach 5d0c";

pub(super) const IMAGES_LIST: &str = "\
Examples:
  aifo-coder images list
  aifo-coder images list --engine podman";

pub(super) const MAN: &str = "\
Examples:
  aifo-coder man ~/.local/share/man/man1";

pub(super) const NET_ALLOW: &str = "\
Examples:
  aifo-coder net allow static.example.org
  aifo-coder net allow --kind python '*.registry.example'
  aifo-coder net allow --agent search.example.org:443";

pub(super) const NET_CHECK: &str = "\
Examples:
  aifo-coder net check static.example.org
  aifo-coder net check --agent codex api.openai.com:443";

pub(super) const NET_SUGGEST: &str = "\
Examples:
  aifo-coder net suggest
  aifo-coder net suggest 5d0c >> \"$(aifo-coder config path)\"";

pub(super) const POLICY_CHECK: &str = "\
Examples:
  aifo-coder policy check -- git -C sub push -f
  aifo-coder policy check --json -- sh -c 'cd x && npm publish'";

pub(super) const POLICY_TEST: &str = "\
Examples:
  aifo-coder policy test
  aifo-coder policy test --workspace ~/project";

pub(super) const SESSIONS: &str = "\
Examples:
  aifo-coder sessions
  aifo-coder sessions --json | jq -r '.[].id'";

pub(super) const STATE_CLEAR: &str = "\
Examples:
  aifo-coder state clear --gone --dry-run
  aifo-coder state clear codex --project";

pub(super) const STATE_LIST: &str = "\
Examples:
  aifo-coder state list
  aifo-coder state list codex,claude";
