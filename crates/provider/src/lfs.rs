//! Batches of git-lfs (`spec/forges.md#files-of-git-lfs`).

use hyper::body::Bytes;
use serde_json::Value;

use crate::forge::ForgeChange;
use crate::forge_refusal::ForgeRefusal;

/// The longest batch in bytes: git-lfs asks for 100 files at once.
pub(crate) const MAX_BATCH: usize = 1 << 20;

/// A question of git-lfs where files are, or where they go.
#[derive(Debug)]
pub(crate) struct Batch {
    batch: Value,
    is_upload: bool,
}

impl Batch {
    pub(crate) fn parse(body: &[u8]) -> Result<Batch, ForgeRefusal> {
        let batch: Value = serde_json::from_slice(body).map_err(|_| ForgeRefusal::MALFORMED)?;
        let is_upload = match batch.get("operation").and_then(Value::as_str) {
            Some("download") => false,
            Some("upload") => true,
            _ => return Err(ForgeRefusal::MALFORMED),
        };
        Ok(Batch { batch, is_upload })
    }

    /// Returns the batch, written anew: a member that is there twice could be read otherwise.
    pub(crate) fn body(&self) -> Bytes {
        Bytes::from(self.batch.to_string())
    }

    /// Returns the change that it is; `None` for a download.
    pub(crate) fn change(&self) -> Option<ForgeChange> {
        if !self.is_upload {
            return None;
        }
        let objects = self.batch.get("objects").and_then(Value::as_array);
        let sizes = objects.into_iter().flatten().filter_map(|object| object.get("size")?.as_u64());
        let (files, bytes) = (objects.map_or(0, Vec::len), sizes.fold(0, u64::saturating_add));
        let content = format!("{files} with {bytes} bytes");
        Some(ForgeChange { effect: "uploads files of git-lfs".to_owned(), content, is_each: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_a_change() {
        let change = |text: &str| Batch::parse(text.as_bytes()).map(|batch| batch.change());
        let objects = r#""objects": [{"oid": "1", "size": 2}, {"oid": "2", "size": 3}]"#;
        assert_eq!(change(&format!("{{\"operation\": \"download\", {objects}}}")), Ok(None));
        let upload = change(&format!("{{\"operation\": \"upload\", {objects}}}")).unwrap();
        assert_eq!(upload.unwrap().content, "2 with 5 bytes");
        let twice = r#"{"operation": "download", "operation": "upload"}"#;
        assert!(change(twice).unwrap().is_some());
        let twice = br#"{"operation": "upload", "operation": "download"}"#;
        assert_eq!(Batch::parse(twice).unwrap().body(), r#"{"operation":"download"}"#);
        for text in ["", "[]", "{}", "{\"Operation\": \"download\"}", "{\"operation\": 1}"] {
            assert_eq!(change(text), Err(ForgeRefusal::MALFORMED), "{text}");
        }
    }
}
