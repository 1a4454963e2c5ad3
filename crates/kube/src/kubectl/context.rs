//! The context of the kubeconfig.

use super::{Kubectl, KubectlError};

/// A field on each line; a missing one is an empty line.
const FIELDS: &str = "--output=jsonpath={.current-context}{\"\\n\"}\
    {.contexts[0].context.namespace}{\"\\n\"}{.clusters[0].cluster.server}";

/// The context of a kubeconfig that a target selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeContext {
    /// Its name; empty without one.
    pub name: String,
    /// The namespace of the target, else that of the context, else `default`.
    pub namespace: String,
    /// The URL of the API server; empty without one.
    pub server: String,
}

impl Kubectl {
    /// Reads the context that the target selects. No cluster is contacted. Errors: there is no such context;
    /// in a pod there may be none.
    pub async fn context(&self) -> Result<KubeContext, KubectlError> {
        let output = self.output(&["config", "view", "--minify", FIELDS], b"").await?;
        let context = KubeContext::parse(&String::from_utf8_lossy(&output));
        let namespace = self.target.namespace.clone().unwrap_or(context.namespace);
        Ok(KubeContext { namespace, ..context })
    }
}

impl KubeContext {
    fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let mut line = || lines.next().unwrap_or_default().trim().to_owned();
        let (name, namespace, server) = (line(), line(), line());
        let namespace = if namespace.is_empty() { "default".to_owned() } else { namespace };
        KubeContext { name, namespace, server }
    }

    /// Returns the host of the API server, without the brackets of an IPv6 address.
    pub fn server_host(&self) -> Option<&str> {
        let (_, rest) = self.server.split_once("://")?;
        let authority = rest.split('/').next()?;
        let host = match authority.strip_prefix('[') {
            Some(literal) => literal.split(']').next()?,
            None => authority.split(':').next()?,
        };
        Some(host).filter(|host| !host.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_empty_lines() {
        for (text, name, namespace, server) in [
            ("dev\nteam\nhttps://a", "dev", "team", "https://a"),
            ("dev\n\nhttps://a\n", "dev", "default", "https://a"),
            ("\nteam\n", "", "team", ""),
            ("", "", "default", ""),
        ] {
            let found = KubeContext::parse(text);
            let found = [found.name.as_str(), &found.namespace, &found.server];
            assert_eq!(found, [name, namespace, server], "{text:?}");
        }
    }

    #[test]
    fn the_host_of_a_server_is_found() {
        for (url, expected) in [
            ("https://127.0.0.1:16443", Some("127.0.0.1")),
            ("https://api.example/k8s/c", Some("api.example")),
            ("https://[fd00::1]:6443/", Some("fd00::1")),
            ("", None),
            ("https://", None),
        ] {
            let context = KubeContext { server: url.to_owned(), ..KubeContext::default() };
            assert_eq!(context.server_host(), expected, "{url}");
        }
    }
}
