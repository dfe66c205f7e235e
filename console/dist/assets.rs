// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "c7c6b0b18939";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "c67e08fb5eb12a8bf2cd5f12c330178e333ffa906379aee363d68a52eddc5135", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "b55ba84aec997517891a52f3636caa7b10f03f2ee7670e88d4c376c13e530a23", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "6861ba1225c28355a6b169e0512e66c90bc310d47caf5be67203ea2892e4658d", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "1db6b0a844dc62ba6be3c196dbedd6a3583d46953ea2e878d2708b475716b1da", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "4e75323f86bf72a8f14805c5160e45aa66ee6481d393050ebdcf1a12d6ceb426", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "321a3221c1485088b769f509180acd2d061a6314b8fd482abb1c119d97cd2273", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "4cf60c2c879151262cb7903460186aced2598daf7e90426230156b5dd27cd432", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "2448ff35f0dbfad1b7eac5dc01dce27ad5a5b4e24115243dddbce3d75945d566", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "60e2b68032a42393ae90a4059f1738dc95faa7829ea4b1f7a14119b395dd7ec4", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "2f6a1ba0ab1346cd74d67cc5a9d45406fc33303b4f495883e3e54710947597bf", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "96418d119ef551694aabae632548349a88a9f83151b06d07d266507d04064f7f", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "6063658c83a63b4adcb83c0507e266213662a4eb3814e69b2350c307c500639a", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "68a59a9491a15a403052a9f3393707d4f92050080fb6c0ae144ae39d820cf97e", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "4ebcd1ffffea2877aff6cb8fceab43e7a755df4b88cc2070b53c41bb0ba44efa", include_bytes!("shared-new-run.js")),
];
