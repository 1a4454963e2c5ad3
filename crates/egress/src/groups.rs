//! Named groups of rules, as data.
//!
//! A group lists the hosts that the package managers and forges of one kind need with their default
//! settings. Hosts on which any account can store files for others, such as object stores, are in no
//! group but `@forges`.

/// A group of rules, written `@NAME`.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The name, with its `@`.
    pub name: &'static str,
    /// The purpose, for lists.
    pub purpose: &'static str,
    /// The rules, in the syntax of `spec/network.md#rules`.
    pub rules: &'static [&'static str],
}

/// Returns the group with this name, such as `@rust`.
pub(crate) fn find(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}

/// Every group, in the order of `spec/network.md#rules`.
pub const GROUPS: &[Group] = &[
    Group {
        name: "@rust",
        purpose: "crates.io and rustup",
        rules: &[
            "crates.io:443",
            "index.crates.io:443",
            "static.crates.io:443",
            "static.rust-lang.org:443",
        ],
    },
    Group {
        name: "@node",
        purpose: "npm, pnpm, yarn, and the headers of node",
        rules: &[
            "nodejs.org:443",
            "registry.npmjs.org:443",
            "registry.yarnpkg.com:443",
            "repo.yarnpkg.com:443",
        ],
    },
    Group {
        name: "@python",
        purpose: "PyPI",
        rules: &["files.pythonhosted.org:443", "pypi.org:443"],
    },
    Group {
        name: "@go",
        purpose: "the module proxy and the checksum database",
        rules: &["proxy.golang.org:443", "sum.golang.org:443"],
    },
    Group {
        name: "@debian",
        purpose: "packages of Debian and their security updates",
        rules: &["deb.debian.org", "security.debian.org"],
    },
    Group {
        name: "@forges",
        purpose: "repositories and releases of GitHub, GitLab, Codeberg and Bitbucket",
        rules: &[
            "api.github.com:443",
            "bitbucket.org:22,443",
            "codeberg.org:22,443",
            "codeload.github.com:443",
            "github.com:22,443",
            "gitlab.com:22,443",
            "media.githubusercontent.com:443",
            "objects.githubusercontent.com:443",
            "raw.githubusercontent.com:443",
            "release-assets.githubusercontent.com:443",
        ],
    },
];
