import { chromium } from "playwright-core";
import { startServer } from "./test/server.mjs";
const NOW = Date.UTC(2026, 10, 22, 9, 41, 58);
const [,, out, ...paths] = process.argv;
const server = await startServer({ now: NOW, isStill: true, isEmpty: process.env.EMPTY === "1" });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const modes = (process.env.MODES ?? "light-1440").split(",");
for (const mode of modes) {
  const [scheme, width] = mode.split("-");
  const context = await browser.newContext({ viewport: { width: Number(width), height: width === "390" ? 844 : 900 }, colorScheme: scheme, deviceScaleFactor: width === "390" ? 2 : 1, hasTouch: width === "390" });
  await context.addCookies([{ name: "sortie-dev", value: "1", url: server.origin }]);
  const page = await context.newPage();
  page.on("console", (m) => m.type() === "error" && console.log("console:", m.text().slice(0, 300)));
  page.on("pageerror", (e) => console.log("pageerror:", e.message, e.stack?.slice(0, 400)));
  await page.clock.install({ time: NOW });
  for (const entry of paths) {
    const [name, path] = entry.split("=", 1).concat(entry.slice(entry.indexOf("=") + 1));
    await page.goto(server.origin + "/console" + path.replace(/@(\w+)/g, (_, id) => server.ids[id]));
    await page.clock.runFor(400);
    await page.waitForTimeout(500);
    await page.screenshot({ path: `${out}/${name}-${mode}.png` });
  }
  await context.close();
}
await browser.close();
server.close();
