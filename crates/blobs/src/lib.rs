//! The content of files and artifacts: bytes addressed by their organization and their SHA-256, in a local folder or in
//! an S3-compatible store.
