//! The table of forges (`spec/forges.md#forges`).

/// A forge whose name alone is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownForge {
    /// The name in a configuration.
    pub name: &'static str,
    /// Its URL, without a slash at its end.
    pub url: &'static str,
    /// Its form.
    pub form: ForgeForm,
    /// Variables that have a user's credential.
    pub variables: &'static [&'static str],
}

/// The programs of a forge, by which its requests differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgeForm {
    /// GitHub, and GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea, and Forgejo.
    Gitea,
    /// Any server of git.
    Git,
}

/// All of them.
pub const FORGES: [KnownForge; 3] = [
    KnownForge {
        name: "github",
        url: "https://github.com",
        form: ForgeForm::GitHub,
        variables: &["GH_TOKEN", "GITHUB_TOKEN"],
    },
    KnownForge {
        name: "gitlab",
        url: "https://gitlab.com",
        form: ForgeForm::GitLab,
        variables: &["GITLAB_TOKEN"],
    },
    KnownForge {
        name: "codeberg",
        url: "https://codeberg.org",
        form: ForgeForm::Gitea,
        variables: &[],
    },
];

impl ForgeForm {
    /// All forms.
    pub const ALL: [ForgeForm; 4] =
        [ForgeForm::GitHub, ForgeForm::GitLab, ForgeForm::Gitea, ForgeForm::Git];

    /// Returns the word of a configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            ForgeForm::GitHub => "github",
            ForgeForm::GitLab => "gitlab",
            ForgeForm::Gitea => "gitea",
            ForgeForm::Git => "git",
        }
    }

    /// Returns the user that goes with a token in basic authentication.
    pub(crate) fn user(self) -> &'static str {
        match self {
            ForgeForm::GitHub => "x-access-token",
            ForgeForm::GitLab => "oauth2",
            ForgeForm::Gitea | ForgeForm::Git => "git",
        }
    }
}
