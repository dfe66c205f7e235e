// Compares the pages with the pictures of the documentation: node test/documentation.mjs [--accept]
//
// A picture differs where more than one pixel in a thousand does. --accept writes the pictures anew.
import { mkdirSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startServer } from "./server.mjs";
import { launch, NOW, openPage } from "./browser.mjs";

const FOLDER = join(import.meta.dirname, "../../docs/pictures");
const MOST_BYTES = 200_000;
const MOST_DIFFERENT = 0.001;
// Steps of a colour, of 256, that count as equal: the pictures are compressed.
const EQUAL_STEPS = 24;

const PICTURES = [
  ["console-run", "/runs/@live?event=15", {}],
  ["console-runs", "/runs", {}],
  ["console-answer", "/runs/@done", { scheme: "dark" }],
  ["console-new", "/runs/new?workflow=invoice-triage", {}],
  ["console-compare", "/runs/compare?a=@done&b=@replay", { scheme: "dark" }],
];

const isAccepting = process.argv.includes("--accept");
mkdirSync(FOLDER, { recursive: true });
const browser = await launch();
const server = await startServer({ now: NOW, isStill: true });

/** The part of the pixels that differ between two pictures, as data addresses. */
async function difference(before, after) {
  const page = await browser.newPage();
  const part = await page.evaluate(
    async ([first, second, steps]) => {
      const pixelsOf = async (address) => {
        const picture = new Image();
        picture.src = address;
        await picture.decode();
        const canvas = new OffscreenCanvas(picture.width, picture.height);
        const context = canvas.getContext("2d");
        context.drawImage(picture, 0, 0);
        return context.getImageData(0, 0, picture.width, picture.height).data;
      };
      const [a, b] = [await pixelsOf(first), await pixelsOf(second)];
      if (a.length !== b.length) return 1;
      let count = 0;
      for (let at = 0; at < a.length; at += 4)
        if ([0, 1, 2].some((colour) => Math.abs(a[at + colour] - b[at + colour]) > steps)) count += 1;
      return count / (a.length / 4);
    },
    [before, after, EQUAL_STEPS],
  );
  await page.close();
  return part;
}

const addressOf = (base64) => `data:image/webp;base64,${base64}`;
let failures = 0;
const fail = (text) => {
  console.log(`FAILED  ${text}`);
  failures += 1;
};

for (const [name, path, { scheme = "light" }] of PICTURES) {
  const { page, context, go, problems } = await openPage(browser, server, { scheme, now: NOW - 1000 });
  await page.emulateMedia({ reducedMotion: "reduce" });
  await page.clock.pauseAt(NOW);
  await go(path);
  for (let turn = 0; turn < 4; turn += 1) {
    await page.waitForTimeout(150);
    await page.clock.runFor(100);
  }
  await page.evaluate(() => document.fonts.ready);
  await page.waitForTimeout(200);
  const session = await context.newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: 88 });
  const bytes = Buffer.from(data, "base64");
  const file = join(FOLDER, `${name}.webp`);
  for (const problem of problems) fail(`${name}: ${problem}`);
  if (bytes.length > MOST_BYTES) fail(`${name}: ${bytes.length} bytes`);
  if (isAccepting) {
    writeFileSync(file, bytes);
    console.log(`${String(bytes.length).padStart(8)}  ${name}.webp`);
  } else if (!existsSync(file)) {
    fail(`${name}: there is no picture; npm run documentation -- --accept makes it`);
  } else {
    const part = await difference(addressOf(readFileSync(file).toString("base64")), addressOf(data));
    if (part > MOST_DIFFERENT)
      fail(`${name}: ${(part * 100).toFixed(2)} % of the pixels differ; npm run documentation -- --accept takes them over`);
  }
  await context.close();
}
await browser.close();
server.close();
if (!failures) console.log("all pictures of the documentation are up to date");
process.exitCode = failures ? 1 : 0;
