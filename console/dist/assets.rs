// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "3ec0f25406df";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "0de6340263d1d2608df6649d588532c06b1efd076e1fffc36420a5627190ffca", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "824351a1be48adf3253d4e2813e8f6e8a5adbc069422230093b78183e3ddc999", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "c538cb8af71f3709b779ec2daf2d88d9abe2cee10ea004401fceb92c5464c56b", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "f59a6b8fb4fb4807266c8d06acdcf68b6c83e4a2a113b8cb70e22c1b99c15192", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "ba7df191fa11736ed5426e472ab2aa81ee9fa88bd82d70cdc91bbe5e349374a3", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "87c42a53ed5a767a171298d437ccdbda20d5f2f6420627ff03847993d23c31bf", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "701ffa8980ca6cf8fef1f6cdae699886baafe6c113f9690e37807c380251a9c8", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "001f7877f5821788fed4caac4e0c415b96ac14e961ff6fa17149c635d415c033", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "9995b64b0342153bef26a957d34203eb3f6e5f10297598c1d768dd3c484809ee", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "2f6a1ba0ab1346cd74d67cc5a9d45406fc33303b4f495883e3e54710947597bf", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "b374505ed24c455b46090e7847fa093c4e1d947708555313736c73b49acc8dcd", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "6063658c83a63b4adcb83c0507e266213662a4eb3814e69b2350c307c500639a", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "02ed35a5ad0b70cdda62d4bcc6f07d1a3756bd3ca99b488a21af6c97e4e550ec", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "0218e90319c6709daf39d0c0df40a48e31b52f9d3a9db598b9de4bf7dff76487", include_bytes!("shared-new-run.js")),
];
