// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "0a84538cd883";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "7d07178f9ab85da8c81fb27113493386869a38ca989d56188ef48e777a4a2b79", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "1afe4b3cbb6b4b8be016408bdbf3a60ec51526f2f749fb5172f2634a3174d28d", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "2e26eed69c5aa6d34e8d6417094acc6155fb16d5efe7efd335eaf1d2c878a790", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "2c9a2ed8e3fa5b1630c0bb1bb48e56783272643ec6e74459ab1c7419ac438b68", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "4c5009b099ef40454775729d9645b5352ea827417ca35e39058b5a05436b7243", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "c3b7d64e3e464e01f945626fed5694d8f493fdcc86d52f2c9d435d030748fcb2", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "4d6b956c89f1c0c7a5b06613e3dadf636e1e9e1e4fe20c9fe6ab00d65a9b2fea", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "6b57c90f193fa9ecb9db7088fb74595aebdb4ec8395960ac7243b818ca4edb75", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "da5a9d0088b94b9f43ca890d9af1ddfb4f0cfe73d5d751426db3cc63b754143d", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "371f88a6bbf42e6df9b39f9fc1e4d48f09b92118e46f027731ab92680228fc71", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "29217a7121dc25e56ebeebb535059eaf98758036fe4a06ab5bd86cfbdb67a96c", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "7eb8a583e9d6b6108acd5ab45d1cb35cb3822121a792d893f05bcf6a4209fdcd", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "7cc5956cdb0c9e42d1007ba2ae4593bf533ad5c5c9048712d09aac46d9e37312", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "f8f9989b6915d4acbbc029f7f5bcf155c43429c594aa8410bf646723b8050640", include_bytes!("shared-new-run.js")),
];
