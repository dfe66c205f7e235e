// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "989622d34472";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "43691bc91411b1a8e94904aad84803c97cff4729a558d914c30ac7910a0b4816", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "d69c79e393352282a9fbe269018a4f7dfaf22f798d0d0ec6ea9bdd63f349c8b4", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "2dc410785a37a3156190988ffaa8995c38efb901e8cc26a477ddd45cbb66f4df", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "0bc51f2122beaacf04956115a8e3e532249512e9fe3d1adeb6bc3b86ac3335e7", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "89448f688c422ce7634ed2aaca0591f3c487a9ffc910dd0767e07ee84b1585a6", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "bf595f6af0d312358d756bb286c8f233f97387bf18382e4ff286baebc198d840", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "264d62d2669636f7ffa1be40b502ac57f77ec0b8e7ec017f73470730dadd696c", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "ba26268c8dae17adeaff0df3de9aa5b6410df555c30b21a3559df8afad1f41d2", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "eea005a8d587f970f4a40200919dc252e298fef35cde8a403173eb950413ff4c", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "2f6a1ba0ab1346cd74d67cc5a9d45406fc33303b4f495883e3e54710947597bf", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "3833735fc675751ca393f27091da9413e4d999c8446854376bef2fcff2c121ce", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "6063658c83a63b4adcb83c0507e266213662a4eb3814e69b2350c307c500639a", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "a6727180a50b726c972be74db5e6658aae83990861cd2cd29d3681a99c9d8378", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "d85788af1c7be4acf08361a80bab9e7a483280f7fd71e712802186949d35d58c", include_bytes!("shared-new-run.js")),
];
