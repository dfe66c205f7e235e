// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub(crate) const BUILD: &str = "ac2b7f682536";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub(crate) static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "862f2f7e6304bacd90879014972c3cd4fbdad0501aabf34792dcf84f6c04f107", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "199451a1cbeb32380749c1898e7e2e1ff5406837a82473bb4845288a9297e9d1", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "b0610f1e87b5b337bafe2b296523aa4b257fbc173c81b07759bc79bfacff877d", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "e30fa0c90b5a563cdbe8164b95ee3d45cc5d45fe06becc00c0abe9faef969f47", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "14276f25c3e52d23b049fa651147756d0f51ba1b7f95798dea7a9f6176fa2a39", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "3901feeb50d370eb5f18e7c14137b5fa51c0869609aec99e29ba0c7854f7f992", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "4720803a15e39a0cecd20538823102a5f41f916dc80248b9503b210e0a3525c7", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "74af5f9c505c247d6be9f80839f1c56ab169db063be01a226f87b5b598a89c25", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "4bb4663904f5a996d757ccb2e3bfa996cd75a880ab78813da6e3d0c4b4ea54bd", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "371f88a6bbf42e6df9b39f9fc1e4d48f09b92118e46f027731ab92680228fc71", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "06361147c9e86c5c9e7fabf5c7f6a60d37e0d0d60a94e45ac03804597b94d257", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "7eb8a583e9d6b6108acd5ab45d1cb35cb3822121a792d893f05bcf6a4209fdcd", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "20e2eec93e68ecdea923d323ed169806d92e90061b9a5370f6383e12303b165a", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "fd772bfa4d60b14047c3bdfa93b94f1a46fe990f963dcfc0822ee30df1c4ccea", include_bytes!("shared-new-run.js")),
];
