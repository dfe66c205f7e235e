// Made by console/build.mjs.

/// Name of this build in the addresses of its assets, `/console/a/<build>/`.
pub const BUILD: &str = "fb1e07397aec";

/// Name, media type, SHA-256 and content of each file. `index.html` is the page.
#[rustfmt::skip]
pub static ASSETS: &[(&str, &str, &str, &[u8])] = &[
    ("compare.js", "text/javascript; charset=utf-8", "f21902dd6f9f4012b8314118fec5d2ae6181be2e17a8ff7951e639f4fc9b881b", include_bytes!("compare.js")),
    ("console.css", "text/css; charset=utf-8", "e828e9d24a432dbb6401cef3c26770111af4882052d94154028b465773f32141", include_bytes!("console.css")),
    ("icon.svg", "image/svg+xml", "c5b841bf71b18cd7040ebe175af38c8f590fe718951073c8646125ecaedbbda5", include_bytes!("icon.svg")),
    ("index.html", "text/html; charset=utf-8", "80cc75d5bf148b3ba17c264529ee80bb6394f34b8b64def8a307f1866ad3dd4a", include_bytes!("index.html")),
    ("inter.woff2", "font/woff2", "a1ac312fa5dbf971a7435e65de97de4492d2616d56d373b61ca84cd6b9d247f1", include_bytes!("inter.woff2")),
    ("licences.txt", "text/plain; charset=utf-8", "70e3650d9debda6a3bb5b554ad070d8ac6453561f6c2653f08c842b7fc726101", include_bytes!("licences.txt")),
    ("main.js", "text/javascript; charset=utf-8", "9ed0f3d142dd6e8eeb223d8ca9c18f74ffdcd96bd7eec9c1dca81cba471a657c", include_bytes!("main.js")),
    ("manage.js", "text/javascript; charset=utf-8", "e72fac042350fe35c6b00a352c300ffbdebd22b4a19610b6b209ee08727654fe", include_bytes!("manage.js")),
    ("markdown.js", "text/javascript; charset=utf-8", "26fadb9584b20616465e1a0ded54ffce30f11b75cec2d76cd33b679d9f5bb308", include_bytes!("markdown.js")),
    ("new.js", "text/javascript; charset=utf-8", "b375087a1466b6acf5a2c991f63c554cca8763dc5d98d2d8b1f60f731a51bcec", include_bytes!("new.js")),
    ("run.js", "text/javascript; charset=utf-8", "b22818af4c5904f96abdb2b9543f134bbd26a899c74459463c88edbf967f7c05", include_bytes!("run.js")),
    ("shared-compare-main-manage-markdown-new-run.js", "text/javascript; charset=utf-8", "1c9db2cb1884b396eb90ed77b8a25a4884ae27003ab375a356d51f3d9e6f67c9", include_bytes!("shared-compare-main-manage-markdown-new-run.js")),
    ("shared-compare-main-manage-new-run.js", "text/javascript; charset=utf-8", "8e916015770b0b692a1f78740429719a61d4f9c8d6fc9934632f2a6de3f8ba94", include_bytes!("shared-compare-main-manage-new-run.js")),
    ("shared-compare-new-run.js", "text/javascript; charset=utf-8", "4b29024bc045a7d838730897e58a07c3db5ab2dc8eb9de51c1ed45a8182951fe", include_bytes!("shared-compare-new-run.js")),
    ("shared-main-manage-new-run.js", "text/javascript; charset=utf-8", "2f6a1ba0ab1346cd74d67cc5a9d45406fc33303b4f495883e3e54710947597bf", include_bytes!("shared-main-manage-new-run.js")),
    ("shared-main-manage-run.js", "text/javascript; charset=utf-8", "66e7936eb8bb3d0243c3fd218b9bc271f70765a90ce47fc342a0d01672769c45", include_bytes!("shared-main-manage-run.js")),
    ("shared-manage-new-run.js", "text/javascript; charset=utf-8", "6063658c83a63b4adcb83c0507e266213662a4eb3814e69b2350c307c500639a", include_bytes!("shared-manage-new-run.js")),
    ("shared-manage-new.js", "text/javascript; charset=utf-8", "ce19fe8746ecca599c3c47ccd526aa0b289b530d4e1414d444597ee8e018455c", include_bytes!("shared-manage-new.js")),
    ("shared-new-run.js", "text/javascript; charset=utf-8", "6814a00062dc9263948738c5bb675aa2213559b67c5434505ae205193f68fe8c", include_bytes!("shared-new-run.js")),
];
