// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "dd3106a5c296";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "ad9089b2f3139dbfbf711f85f8766008b152e3adf511c40cc5c059b62d44e88e", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "a86d72eaacd66660499cc575614b3a4638da0eb58f00b454244302cd22186eae", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "70c2fbfd023d47ac308ca0510c1fcafd30a7ec86fae601beddf5084a16590330", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "32c00c6867e4f52d3dabf04ac059625b9e79716bc433b2a2121a89fcff52dd67", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "887101ee7f8f752edf2d1f31fc5bdfb7a0929a1486031d7d2bbad1f8893258f2", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "1376b1bccfb91cbee3c8eccecc0748c896d159b8b756acc88a65b39984a86433", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "778ae1e8420349d00cd94cd798ba00b4228a6362d78d0789b5f328b608e74c37", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "2856c0437fadef54a46b123a86c23c8f829c253ef9672b63a83cebff86092470", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "ff5634fd561af73176617e03b0526037613ba37dfa99df07ab6ac2b69bb2b4be", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "ab87bcaba21f9125c3a66648c6a2b07a634743f1dfcfdf984e321d02991729cf", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "9e7c82376e9d4ee9f7646e01a237c6bcc5ca134f5a3bdb2e80ea1d89df6be534", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "30585cc1c334f988de54fcfcbe43b592add3e8e3841adb7c726fae6cdba4c5f5", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "bd2045697dba1db39cd6461a54520d3404a3614d8599b4c76dac33ac4cea7a38", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "126184688e4b5f09b62c051b92b2bccefa59bdfbfa0d2f69faa617b2fa2f5220", include_bytes!("shared-new-run.js")),
];
