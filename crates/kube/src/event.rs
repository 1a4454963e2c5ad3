//! Events of a session's pod.

use serde::Deserialize;

/// An event of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventObject {
    reason: String,
    message: String,
}

impl EventObject {
    /// Returns the step of the start that it reports, if it does.
    pub fn step(&self) -> Option<String> {
        let message = &self.message;
        Some(match self.reason.as_str() {
            "Pulling" => message.replacen("Pulling", "pulling", 1),
            "FailedMount" | "FailedAttachVolume" => format!("waiting for a volume: {message}"),
            "FailedCreatePodSandBox" | "NetworkNotReady" => {
                format!("waiting for the node: {message}")
            }
            "FailedToRetrieveImagePullSecret" => format!("pulling without a secret: {message}"),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_of_a_start_are_steps() {
        let event = |reason: &str, message: &str| {
            let event: EventObject =
                serde_json::from_value(json!({"reason": reason, "message": message})).unwrap();
            event.step()
        };
        assert_eq!(event("Pulling", "Pulling image \"x\"").unwrap(), "pulling image \"x\"");
        assert_eq!(event("Started", "Started container x"), None);
        assert!(event("FailedMount", "no").unwrap().contains("volume: no"));
    }
}
