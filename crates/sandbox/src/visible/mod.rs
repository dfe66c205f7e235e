//! Paths of the host that commands may read in addition to the system folders: configuration that packages keep in `/etc`, data
//! that they generate in `/var`, and the paths that the operator adds.
//!
//! Of a package's folder only files that cannot hold a credential are shown. docs/SANDBOX.md#what-commands-see-of-etc has the
//! list with a reason for each entry.

mod extra;
mod secrets;

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Component, Path, PathBuf},
};

use crate::landlock::SYSTEM;

pub(crate) use extra::all_readable;
pub use extra::check_readable;

/// Loaders, certificates and name tables: nothing that differs between users. Shown as a whole.
const WHOLE: &[&str] = &[
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/java",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/protocols",
    "/etc/services",
];
/// Configuration and generated data of packages. A `*` matches any part of one name. In folders where operators keep credentials,
/// the harmless files are listed individually.
const PACKAGES: &[&str] = &[
    // Runtimes that do not start without it, or start without their libraries.
    "/etc/java*-openjdk",
    "/etc/java",
    "/etc/maven/m2.conf",
    "/etc/maven/logging",
    "/etc/groovy",
    "/etc/php/*/cli/conf.d",
    "/etc/php/*/mods-available",
    "/etc/php*/conf.d",
    "/etc/php.d",
    "/etc/python3*",
    "/etc/perl/Net",
    "/etc/perl/XML",
    "/var/lib/libxml-sax-perl",
    "/etc/R/Makeconf",
    "/etc/R/Renviron",
    "/etc/R/javaconf",
    "/etc/R/ldpaths",
    "/etc/R/repositories",
    "/etc/octave.conf",
    "/etc/dotnet",
    "/etc/openmpi",
    "/var/lib/ghc",
    // Fonts, documents, pictures.
    "/etc/fonts",
    "/var/cache/fontconfig",
    "/etc/texmf",
    "/var/lib/texmf",
    "/etc/papersize",
    "/etc/libreoffice",
    "/var/lib/libreoffice",
    "/etc/ImageMagick-*",
    "/etc/ghostscript",
    "/var/lib/ghostscript",
    "/etc/groff",
    "/etc/sgml",
    "/etc/xml",
    "/etc/dictionaries-common",
    "/etc/locale.alias",
    "/etc/magic",
    "/etc/magic.mime",
    "/etc/vim",
    // Browsers and what draws.
    "/etc/chromium/master_preferences",
    "/etc/chromium/initial_preferences",
    "/etc/chromium.d/default-flags",
    "/etc/chromium.d/dev-shm",
    "/etc/chromium.d/extensions",
    "/etc/gtk-*",
    "/etc/glvnd",
    "/etc/vulkan",
    "/etc/OpenCL",
    "/etc/X11/rgb.txt",
];
/// Maximum number of paths for a folder that is only partly shown: each is a separate mount.
const MOST_PARTS: usize = 200;
/// Maximum number of withheld files that are named to the operator.
const MOST_NAMED: usize = 5;

/// Paths that commands may read.
#[derive(Debug, Default)]
pub(crate) struct VisiblePaths {
    pub(crate) paths: Vec<String>,
    /// Files below the folders of packages that are not shown, each with the reason.
    pub(crate) withheld: Vec<String>,
}

impl VisiblePaths {
    /// A sentence that names the withheld files, if there are any.
    pub(crate) fn withheld_words(&self) -> Option<String> {
        let named: Vec<&str> = self
            .withheld
            .iter()
            .take(MOST_NAMED)
            .map(String::as_str)
            .collect();
        let more = match self.withheld.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!named.is_empty()).then(|| {
            format!(
                "commands do not see these files of packages: {}{more}",
                named.join(", ")
            )
        })
    }
}

/// Finds the paths on this host. Later additions to a folder that is shown as a whole are visible as well; packages that are
/// installed later are not.
pub(crate) fn find(extra: &[PathBuf]) -> VisiblePaths {
    let mut search = Search {
        packages: PACKAGES.iter().flat_map(|pattern| expand(pattern)).collect(),
        withheld: Vec::new(),
    };
    let mut found: Vec<PathBuf> = WHOLE
        .iter()
        .map(PathBuf::from)
        .chain(extra.iter().cloned())
        .collect();
    for path in search.packages.clone() {
        match search.extent(&path) {
            Extent::All => found.push(path),
            Extent::Parts(parts) => found.extend(parts),
        }
    }
    found.retain(|path| path.exists() && !is_below(path, SYSTEM));
    found.sort();
    // If one path is inside of another, the outer one shows both.
    found.dedup_by(|path, outer| path.starts_with(outer));
    let as_text = |path: PathBuf| path.into_os_string().into_string().ok();
    VisiblePaths {
        paths: found.into_iter().filter_map(as_text).collect(),
        withheld: search.withheld,
    }
}

/// Visible part of a path.
enum Extent {
    All,
    Parts(Vec<PathBuf>),
}

struct Search {
    packages: Vec<PathBuf>,
    withheld: Vec<String>,
}

impl Search {
    fn extent(&mut self, path: &Path) -> Extent {
        let nothing = Extent::Parts(Vec::new());
        let Ok(metadata) = fs::metadata(path) else {
            return nothing;
        };
        if !metadata.is_dir() {
            return match secrets::reason_to_withhold(path, &metadata) {
                None => Extent::All,
                Some(reason) => self.withhold(path, reason),
            };
        }
        if metadata.permissions().mode() & 0o005 != 0o005 {
            return self.withhold(path, secrets::NOT_FOR_ALL);
        }
        let Ok(entries) = fs::read_dir(path) else {
            return nothing;
        };
        let children = entries.flatten().map(|entry| {
            let child = entry.path();
            // A link is only a name. Its target is shown only if it is in the list itself.
            let extent = if child.is_symlink() {
                Extent::All
            } else {
                self.extent(&child)
            };
            (child, extent)
        });
        let children: Vec<_> = children.collect();
        if children.iter().all(|(_, extent)| matches!(extent, Extent::All)) {
            return Extent::All;
        }
        let mut parts = Vec::new();
        for (child, extent) in children {
            match extent {
                Extent::All if child.is_symlink() && !self.leads_to_visible(&child) => {}
                Extent::All => parts.push(child),
                Extent::Parts(of_child) => parts.extend(of_child),
            }
        }
        if parts.len() > MOST_PARTS {
            return self.withhold(path, "too many files lie beside one that is not shown");
        }
        Extent::Parts(parts)
    }

    fn withhold(&mut self, path: &Path, reason: &str) -> Extent {
        self.withheld.push(format!("{} ({reason})", path.display()));
        Extent::Parts(Vec::new())
    }

    /// Whether the target of a link is visible as well, so that it may be shown in place of the link.
    fn leads_to_visible(&self, link: &Path) -> bool {
        let Ok(target) = fs::canonicalize(link) else {
            return false;
        };
        let is_in_package = || self.packages.iter().any(|package| target.starts_with(package));
        let is_public = || {
            fs::metadata(&target).is_ok_and(|metadata| {
                metadata.is_file() && secrets::reason_to_withhold(&target, &metadata).is_none()
            })
        };
        is_below(&target, SYSTEM) || is_in_package() && is_public()
    }
}

fn is_below(path: &Path, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

/// The paths of this host that match a pattern.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from("/")];
    for component in Path::new(pattern).components() {
        let Component::Normal(name) = component else {
            continue;
        };
        let Some((start, end)) = name.to_str().and_then(|name| name.split_once('*')) else {
            for path in &mut paths {
                path.push(name);
            }
            continue;
        };
        paths = paths
            .iter()
            .filter_map(|path| fs::read_dir(path).ok())
            .flatten()
            .flatten()
            .filter(|entry| {
                let name = entry.file_name();
                name.to_str()
                    .and_then(|name| name.strip_prefix(start))
                    .is_some_and(|rest| rest.ends_with(end))
            })
            .map(|entry| entry.path())
            .collect();
    }
    paths
}

#[cfg(test)]
mod tests;
