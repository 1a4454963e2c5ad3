//! Batches of git-lfs (`spec/forges.md#files-of-git-lfs`).

use hyper::body::Bytes;
use serde_json::Value;

use crate::forge_refusal::ForgeRefusal;

/// The longest batch in bytes: git-lfs asks for 100 files at once.
pub(crate) const MAX_BATCH: usize = 1 << 20;

/// Returns a batch that only downloads, written anew: a member that is there twice could be read otherwise.
pub(crate) fn download(body: &[u8]) -> Result<Bytes, ForgeRefusal> {
    let batch: Value = serde_json::from_slice(body).map_err(|_| ForgeRefusal::MALFORMED)?;
    match batch.get("operation").and_then(Value::as_str) {
        Some("download") => Ok(Bytes::from(batch.to_string())),
        Some("upload") => Err(ForgeRefusal::Upload),
        _ => Err(ForgeRefusal::MALFORMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_downloads_pass() {
        let text = br#"{"operation": "download", "objects": [{"oid": "1", "size": 2}]}"#;
        let sent: Value = serde_json::from_slice(&download(text).unwrap()).unwrap();
        assert_eq!(sent, serde_json::from_slice::<Value>(text).unwrap());
        let upload = br#"{"operation": "upload", "objects": []}"#;
        assert_eq!(download(upload), Err(ForgeRefusal::Upload));
        let twice = br#"{"operation": "upload", "operation": "download"}"#;
        assert_eq!(download(twice).unwrap(), r#"{"operation":"download"}"#);
        let twice = br#"{"operation": "download", "operation": "upload"}"#;
        assert_eq!(download(twice), Err(ForgeRefusal::Upload));
        for text in ["", "[]", "{}", "{\"Operation\": \"download\"}", "{\"operation\": 1}"] {
            assert_eq!(download(text.as_bytes()), Err(ForgeRefusal::MALFORMED), "{text}");
        }
    }
}
