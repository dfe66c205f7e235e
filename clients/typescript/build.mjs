// Compiles the package for both module systems: dist/esm and dist/cjs.
import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";

rmSync("dist", { recursive: true, force: true });
for (const [folder, type] of [
  ["esm", "module"],
  ["cjs", "commonjs"],
]) {
  mkdirSync(`dist/${folder}`, { recursive: true });
  writeFileSync(`dist/${folder}/package.json`, `${JSON.stringify({ type })}\n`);
  const options = type === "commonjs" ? ["--module", "commonjs", "--moduleResolution", "node10"] : [];
  execFileSync("node_modules/.bin/tsc", ["--outDir", `dist/${folder}`, ...options], { stdio: "inherit" });
}
