// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "6e625200f198";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "28b1d258dfaed3f5ffd2a9a249b536483f6207c04c5aaab51afa247c5e91f551", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "9bb534ecfd010e11d85ff81ede331f623f1e3292531a35388673e328f009c56d", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "351bc66e0dbf4e8949ded3ec8b0ddbb7b9ec943e94599b6844a7888d6a4e7cfe", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "607232491dde8fae21d5f48010a56cc631676f47f9f4d8b9256f739281a4a742", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "6043796f42890ad3caf1b03bd6cd48a73bfd5bf6d55b8c7c44dcb6648cd02781", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "1376b1bccfb91cbee3c8eccecc0748c896d159b8b756acc88a65b39984a86433", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "ca70e67c27b8b1dcae9bd485f461c7b96823f66ff8dfdac514e3fee0548480d8", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "40267389ebcbdb4609a91b59ba972d1ffaafe7a6926aaa21a81354db7ccf42d3", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "ff5634fd561af73176617e03b0526037613ba37dfa99df07ab6ac2b69bb2b4be", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "ab87bcaba21f9125c3a66648c6a2b07a634743f1dfcfdf984e321d02991729cf", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "f60640708c635bddfe9a8e11a34b77d6c76a1f4d89ed464b59a0b32b80b54b0f", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "77dad96cde3c2d3ec79655ed2ea208f96faec8f1f5406ca4f0a63f9fd7186ac2", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "bd2045697dba1db39cd6461a54520d3404a3614d8599b4c76dac33ac4cea7a38", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "3bb4aa8e044086a6af1683f3332c2217d1aac23d38f799776ccabf89b7596a2c", include_bytes!("shared-new-run.js")),
];
