// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub(crate) const BUILD: &str = "5d5c6bb871be";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub(crate) static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "86b3f8e1d0f3e925e027f43c9e547f1727015f053e95472e07584415263f55c6", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "199451a1cbeb32380749c1898e7e2e1ff5406837a82473bb4845288a9297e9d1", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "be1867d5a9b3008ab46c46aa53ff163e8d055335996e03beee0411d5ae85a204", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "68ef944c28c64bb6952e36b6a6646ee8c2bc943dd215029eaeedd9ee1cfdf5a3", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "bd63bd743d52d40801178187fc0eddf9aa4deb48e4938f75be1c91db160ae2e2", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "ab68ba43b82800f4add6bd0117069e575a9ad5b4b7c548866b7c4db7a94690e0", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "fd0addab19dc67bc57891992fc770aeb2ef3c396aec07a9cc042b6a25de1c5b8", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "5be65f3f5ef2846aa1a87b388afefe8a49e97fd8d258105539a5598bc7219974", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "6e7622ec34d316c8c264c85e5a536f2fa8c10713347a5e52821c63d70cc130b5", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "fa3d69d45d8d0228a5bdeb2f7421ce4a04fd5d4f506a6063e62cd3b7c093bb14", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "6a4e6e976bf2bcca92fbe55f0e7912fc514a31be606c70643c95fce880411a13", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "7eb8a583e9d6b6108acd5ab45d1cb35cb3822121a792d893f05bcf6a4209fdcd", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "11ce84c718248102b3f24d9b8a4f69bfe0be11dda4f4228e740993782b684a88", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "0304cc9be213c8ac4ccfdf8252443dfa65c6412b4b6aec007ea733f74f0b6f1f", include_bytes!("shared-new-run.js")),
];
