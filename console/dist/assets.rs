// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub(crate) const BUILD: &str = "09b06fc4f9c0";

/// Font of the console, which the server-rendered pages also use.
pub(crate) static FONT: &[u8] = include_bytes!("inter.woff2");

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub(crate) static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "86b3f8e1d0f3e925e027f43c9e547f1727015f053e95472e07584415263f55c6", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "855d514ccbf9e196c787c2ca0d8f7d0a80c93f458236388410197b90cbe17355", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "ea83216cf861279f0fbe8ae43678e816e204f41b7108cd9e96b66c749928d2a0", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", FONT),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "580f1260b09f043e9b473a6787f2cd84d7a8e49c72bea958966aaaf9ca4f7664", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "3315144d3a1d27043c22f49ea7c0681e16f1743c89914a95b2c95c1d52953650", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "4cf004963216581ea7908d8a15ca5c4003da80d46738720ef75e922dec57ab44", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "8f4763385efc5bf82e266f4ae762f59dcba414d5f7fa525ef204a0ce66d5cce2", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "1658f8af73d1b48c45fa1b9cefbdc5d9e34dcfafdba337f1a7ccd5138acca6e9", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "6e7622ec34d316c8c264c85e5a536f2fa8c10713347a5e52821c63d70cc130b5", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "f7af5fcec8d1b96f922dce86b993805479ed51046b9d80abc97b4809359a9fb9", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "013bb3673d24af5ab540def7ceb79ff2f007c75ae6bfde09da4c466b2c10c9fe", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "7eb8a583e9d6b6108acd5ab45d1cb35cb3822121a792d893f05bcf6a4209fdcd", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "069342a3e0cbf1a90d32c4a70d87fb50489a223254ab7537401a7282805c8bbb", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "f221eb91f509b2a478d8d5ddcde9c3bad601ce55d4daec4bb0130bdbddda9594", include_bytes!("shared-new-run.js")),
];
