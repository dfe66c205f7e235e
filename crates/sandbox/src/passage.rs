//! Access of a run's user to its working directory, if the run sees the host's file system.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

/// Search permission for others.
const SEARCH: u32 = 0o001;

/// Lets other users traverse `root` and the folders in `above`. Their permissions to read and list are unchanged.
///
/// # Errors
/// When one of the folders cannot be changed.
pub(crate) fn open(root: &Path, above: &[PathBuf]) -> io::Result<()> {
    for folder in above.iter().map(PathBuf::as_path).chain([root]) {
        let mode = fs::metadata(folder)?.permissions().mode();
        if mode & SEARCH == 0 {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode & 0o7777 | 0o011))?;
        }
    }
    Ok(())
}

/// The first folder on the way to `root` that other users cannot traverse.
pub(crate) fn closed(root: &Path) -> Option<PathBuf> {
    let root = fs::canonicalize(root).ok()?;
    let way: Vec<_> = root.ancestors().collect();
    way.into_iter()
        .rev()
        .find(|folder| fs::metadata(folder).is_ok_and(|metadata| metadata.permissions().mode() & SEARCH == 0))
        .map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_folders_are_opened_and_only_to_pass_through() {
        let place = tempfile::tempdir().unwrap();
        let (upper, data) = (place.path().join("upper"), place.path().join("upper/data"));
        let work = data.join("work");
        fs::create_dir_all(&work).unwrap();
        let mode = |folder: &Path| fs::metadata(folder).unwrap().permissions().mode() & 0o7777;
        for folder in [place.path(), &upper, &data, &work] {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        }
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        open(&work, std::slice::from_ref(&data)).unwrap();
        assert_eq!([mode(&upper), mode(&data), mode(&work)], [0o700, 0o711, 0o711]);
        assert_eq!(closed(&work), Some(fs::canonicalize(&upper).unwrap()));
        fs::set_permissions(&upper, fs::Permissions::from_mode(0o751)).unwrap();
        assert_eq!(closed(&work), None);
    }
}
