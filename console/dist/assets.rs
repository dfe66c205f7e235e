// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "7b4c2b9e2238";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "ad9089b2f3139dbfbf711f85f8766008b152e3adf511c40cc5c059b62d44e88e", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "ea762dde2f32b150990e0d6fed0ab7c86ad939346c8e48a2af211c78560ceab3", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "0761f7f90d7ae2ac611a46114c4c31076047a0b122f2ddd450290d0130ed1ec1", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "32c00c6867e4f52d3dabf04ac059625b9e79716bc433b2a2121a89fcff52dd67", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "887101ee7f8f752edf2d1f31fc5bdfb7a0929a1486031d7d2bbad1f8893258f2", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "1376b1bccfb91cbee3c8eccecc0748c896d159b8b756acc88a65b39984a86433", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "778ae1e8420349d00cd94cd798ba00b4228a6362d78d0789b5f328b608e74c37", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "ee909664d9f2daf77452fe419ecb226fc3ea372afe9e35b4fb4f2fb4375dfb90", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "ff5634fd561af73176617e03b0526037613ba37dfa99df07ab6ac2b69bb2b4be", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "ab87bcaba21f9125c3a66648c6a2b07a634743f1dfcfdf984e321d02991729cf", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "9e7c82376e9d4ee9f7646e01a237c6bcc5ca134f5a3bdb2e80ea1d89df6be534", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "77dad96cde3c2d3ec79655ed2ea208f96faec8f1f5406ca4f0a63f9fd7186ac2", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "bd2045697dba1db39cd6461a54520d3404a3614d8599b4c76dac33ac4cea7a38", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "3bb4aa8e044086a6af1683f3332c2217d1aac23d38f799776ccabf89b7596a2c", include_bytes!("shared-new-run.js")),
];
