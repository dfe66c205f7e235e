// Bundles the unit tests and runs them: node test/unit.mjs
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

process.chdir(`${import.meta.dirname}/..`);
const tests = readdirSync("test/unit").map((file) => `test/unit/${file}`);
const outdir = ".build/unit";
await build({
  entryPoints: tests,
  outdir,
  bundle: true,
  platform: "node",
  format: "esm",
  outExtension: { ".js": ".mjs" },
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
const files = tests.map((test) => test.replace("test/unit", outdir).replace(/\.tsx?$/, ".mjs"));
process.exitCode = spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1;
