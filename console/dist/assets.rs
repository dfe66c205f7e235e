// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "cdc1b17db1e8";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "63c5659a06f63e5789fc1c8ac9d045b052c531f362ccaa3e494706aa9a470053", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "d63d2e20913655315ecbf0e94fa010ef3dfb575d3438fe05d512152f37a32137", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "7a8676afb67318df2fd318d5e17f8c0734857a5ecef0fbcb2e99545e54b90f56", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "d5ed521e875254917e7c3991e69cf6766b45bded52a231bd1447994748c570ca", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "63c5659a06f63e5789fc1c8ac9d045b052c531f362ccaa3e494706aa9a470053", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "b5369a841b4e63cddd71a1981a2de0360fad538a0fd88ec0d9e1d8e47c1c3a83", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "3177b6433a237db23de617bfdf1f7f898d76d5c3f66540808957aa5b804edbbf", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "25e722d07e97ab763e6faf7faf2f2164c7b189a63d4573a8467d9f1c037e909c", include_bytes!("run.js")),
    ("shared-main-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-main-markdown-new-run.js")),
    ("shared-main-new-run.js", "text/javascript; charset=utf-8", "f8ba850a913e937e672f6ba8d970640fd58687416a49546e222acbe22dc80bac", include_bytes!("shared-main-new-run.js")),
    ("shared-main-run.js", "text/javascript; charset=utf-8", "87228cfab124f0ce6ca822e300c999d38f7fc6a62825d628f01feb50b0145138", include_bytes!("shared-main-run.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "eb1fdde5ad16bd7f7eb0fad6f8173c33958fe8ea2c809dd5da1226415b45eb76", include_bytes!("shared-new-run.js")),
];
