// Builds the console: `node build.mjs` writes dist/, `node build.mjs --watch` keeps it up to date without the checks.
//
// Names in dist/ are stable, so that its history stays small. A build is named by the hash of its assets: the page asks for
// them below /console/a/<build>/, where they never change.
import { build, context } from "esbuild";
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { gzipSync } from "node:zlib";
import { declarations } from "./openapi.mjs";

process.chdir(import.meta.dirname);

const DOCUMENT = "../crates/server/tests/snapshots/openapi__the_document_is_the_reviewed_one.snap";
// Largest sizes after gzip, in bytes: script and style of the first page, and of everything.
const FIRST_PAGE = 45 * 1024;
const EVERYTHING = 150 * 1024;
const FONT = "inter.woff2";
const TYPES = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
  txt: "text/plain; charset=utf-8",
  woff2: "font/woff2",
};
// One entry for each area. `main` is the frame and the first page, and loads the others when they are needed.
const AREAS = {
  main: "src/main.tsx",
  run: "src/pages/run/index.tsx",
  markdown: "src/ui/markdown.tsx",
  new: "src/pages/new/index.tsx",
  compare: "src/pages/compare/index.tsx",
  manage: "src/pages/manage/index.tsx",
  console: "src/style/index.css",
};

const typeOf = (file) => TYPES[file.split(".").at(-1)];
const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

function writeTypes() {
  const snapshot = readFileSync(DOCUMENT, "utf8");
  const document = JSON.parse(snapshot.slice(snapshot.indexOf("\n---\n") + 5));
  writeFileSync("src/api/schema.d.ts", declarations(document));
}

const options = (outdir) => ({
  entryPoints: AREAS,
  outdir,
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2023",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  legalComments: "none",
  metafile: true,
  write: false,
  external: ["*.woff2"],
  logLevel: "warning",
});

/** Names every shared chunk after the areas that need it. esbuild names them by their content. */
function stableNames({ outputs }) {
  const areas = Object.entries(outputs).filter(([, output]) => output.entryPoint && output.inputs);
  const needed = (file, seen = new Set()) => {
    for (const { path, kind } of outputs[file].imports) {
      if (kind === "import-statement" && outputs[path] && !seen.has(path)) needed(path, seen.add(path));
    }
    return seen;
  };
  const users = {};
  for (const [file] of areas) for (const chunk of needed(file)) (users[chunk] ??= []).push(basename(file, ".js"));
  return Object.fromEntries(
    Object.entries(users)
      .filter(([chunk]) => !outputs[chunk].entryPoint)
      .map(([chunk, names]) => [basename(chunk), `shared-${names.sort().join("-")}.js`]),
  );
}

/** The scripts that `main` imports before it runs, itself included. */
function scriptsOf(file, read, seen = new Set([file])) {
  for (const [, name] of read(file).matchAll(/(?:from|import)"\.\/([\w-]+\.js)"/g)) {
    if (!seen.has(name)) scriptsOf(name, read, seen.add(name));
  }
  return [...seen];
}

const page = (prefix, scripts) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="Start agent runs, watch them, and see what they cost.">
<meta name="color-scheme" content="light dark">
<title>Sortie</title>
<link rel="icon" href="${prefix}icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${prefix}console.css">
<link rel="preload" href="${prefix}${FONT}" as="font" type="font/woff2" crossorigin>
${scripts.map((script) => `<link rel="modulepreload" href="${prefix}${script}">`).join("\n")}
<script type="module" src="${prefix}main.js"></script>
</head>
<body><noscript>The console needs JavaScript. The command line and the API work without it.</noscript></body>
</html>
`;

/** The licences of the font and of the packages that are part of dist/. */
function licences(inputs) {
  const packages = new Set();
  for (const input of Object.keys(inputs)) {
    const match = /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
    if (match) packages.add(match[1]);
  }
  const texts = [...packages].sort().map((name) => {
    const folder = join("node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
    return `${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
  });
  texts.push(`Inter 4.1\n\n${readFileSync("src/style/inter-licence.txt", "utf8")}`);
  return texts.join(`\n${"-".repeat(80)}\n\n`);
}

/** The table of the files that the engine serves. The compiler refuses a file that is missing. */
function table(files, version) {
  const bytes = (name) => (name === FONT ? "FONT" : `include_bytes!("${name}")`);
  const rows = [...files]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, content]) => `    ("${name}", "${typeOf(name)}", "${sha256(content)}", ${bytes(name)}),`);
  return [
    "// Made by console/build.mjs.",
    "",
    "/// Name of this build in the addresses of its assets, `/console/a/<build>/`.",
    `pub(crate) const BUILD: &str = "${version}";`,
    "",
    "/// Font of the console, which the server-rendered pages also use.",
    `pub(crate) static FONT: &[u8] = include_bytes!("${FONT}");`,
    "",
    "/// Name, media type, SHA-256 and content of each file. `index.html` is the page.",
    "#[rustfmt::skip]",
    "pub(crate) static ASSETS: &[(&str, &str, &str, &[u8])] = &[",
    ...rows,
    "];",
    "",
  ].join("\n");
}

/** Writes what has changed and deletes what is left over: cargo compiles anew what includes a file with a new time. */
function writeFolder(folder, files) {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) if (!files.has(name)) rmSync(join(folder, name));
  for (const [name, content] of files) {
    const file = join(folder, name);
    if (!existsSync(file) || !readFileSync(file).equals(content)) writeFileSync(file, content);
  }
}

function write({ outputFiles, metafile }, folder) {
  const renamed = stableNames(metafile);
  const files = new Map();
  for (const { path, text } of outputFiles) {
    const content = Object.entries(renamed).reduce(
      (all, [from, to]) => all.replaceAll(`"./${from}"`, `"./${to}"`),
      text,
    );
    files.set(renamed[basename(path)] ?? basename(path), Buffer.from(content));
  }
  for (const name of [FONT, "icon.svg"]) files.set(name, readFileSync(join("src/style", name)));
  files.set("licences.txt", Buffer.from(licences(metafile.inputs)));
  const version = sha256(
    [...files]
      .map(([name, content]) => `${name} ${sha256(content)}`)
      .sort()
      .join("\n"),
  ).slice(0, 12);
  const scripts = scriptsOf("main.js", (name) => files.get(name).toString());
  files.set("index.html", Buffer.from(page(`/console/a/${version}/`, scripts)));
  files.set("assets.rs", Buffer.from(table(files, version)));
  writeFolder(folder, files);
  return scripts;
}

function checkSizes(folder, scripts) {
  const sizes = Object.fromEntries(
    readdirSync(folder)
      .filter((file) => /\.(js|css)$/.test(file))
      .map((file) => [file, gzipSync(readFileSync(join(folder, file)), { level: 9 }).length]),
  );
  const sum = (files) => files.reduce((total, file) => total + sizes[file], 0);
  const first = sum([...scripts, "console.css"]);
  const all = sum(Object.keys(sizes));
  for (const [file, size] of Object.entries(sizes)) console.log(`${String(size).padStart(8)}  ${file}`);
  console.log(
    `${String(first).padStart(8)}  first page, of ${FIRST_PAGE}\n${String(all).padStart(8)}  everything, of ${EVERYTHING}`,
  );
  if (first > FIRST_PAGE || all > EVERYTHING) throw new Error("the console is too large");
}

writeTypes();
if (process.argv.includes("--watch")) {
  const rewrite = {
    name: "write",
    setup: ({ onEnd }) => onEnd((result) => void (result.errors.length || write(result, "dist"))),
  };
  await (await context({ ...options("dist"), plugins: [rewrite] })).watch();
} else {
  const { status } = spawnSync("node_modules/.bin/tsc", ["--project", "."], { stdio: "inherit" });
  if (status !== 0) process.exit(1);
  checkSizes("dist", write(await build(options("dist")), "dist"));
}
