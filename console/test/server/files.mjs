// The files of dist/ with the headers of the engine.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const DIST = join(import.meta.dirname, "../../dist");
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const HEADERS = {
  "Content-Security-Policy": POLICY,
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "clipboard-write=(self)",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};
const TYPES = {
  css: "text/css",
  html: "text/html",
  js: "text/javascript",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  woff2: "font/woff2",
};
export function serveFile(path, response) {
  const asset = /^\/console\/a\/[0-9a-f]{12}\/([\w.-]+)$/.exec(path)?.[1];
  const file = join(DIST, asset ?? "index.html");
  if (!existsSync(file)) return response.writeHead(404).end();
  const type = TYPES[file.split(".").at(-1)];
  const cache = asset ? "public, max-age=31536000, immutable" : "no-store";
  response.writeHead(200, { ...HEADERS, "Content-Type": type, "Cache-Control": cache });
  response.end(readFileSync(file));
}
