// A browser at the command of a test: each line of the input is a command, each line of the output its answer.
// node browser.mjs FOLDER-OF-PEERS OPTIONS-OF-THE-CONTEXT
import { createHmac } from "node:crypto";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [, , peers, options] = process.argv;
const { chromium } = createRequire(`${peers}/npm/`)("playwright-core");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await (await browser.newContext(JSON.parse(options))).newPage();
page.setDefaultTimeout(60_000);

// Everything that the browser complains of, but for the status of pages that were asked for.
const complaints = [];
const opened = new Set();
page.on("console", message => {
  if (["error", "warning"].includes(message.type())) {
    complaints.push({ text: message.text(), url: message.location().url });
  }
});
page.on("pageerror", error => complaints.push({ text: String(error), url: page.url() }));
page.on("requestfailed", request => complaints.push({ text: request.failure().errorText, url: request.url() }));
page.on("response", response => {
  if (response.request().isNavigationRequest()) opened.add(response.url());
});
const isStatus = ({ text, url }) => text.startsWith("Failed to load resource: the server responded") && opened.has(url);

// Does what leads to another page, and tells what that is.
async function leads(action) {
  const [response] = await Promise.all([page.waitForNavigation({ waitUntil: "load" }), action()]);
  return {
    url: page.url(),
    status: response.status(),
    heading: await page.locator("h1").innerText(),
    text: await page.locator("body").innerText(),
    fits: await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth),
  };
}

// Code of an authenticator (RFC 6238), `later` steps from now.
function code(secret, later) {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  const bits = [...secret].map(at => alphabet.indexOf(at).toString(2).padStart(5, "0")).join("");
  const key = Buffer.from(bits.match(/.{8}/g).map(byte => parseInt(byte, 2)));
  const step = Buffer.alloc(8);
  step.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + later));
  const digest = createHmac("sha1", key).update(step).digest();
  const number = digest.readUInt32BE(digest.at(-1) & 15) & 0x7fffffff;
  return String(number % 1_000_000).padStart(6, "0");
}

const commands = {
  open: ({ url }) => leads(() => page.goto(url)),
  follow: ({ link }) => leads(() => page.getByRole("link", { name: link, exact: true }).click()),
  send: ({ fields, choices, button }) =>
    leads(async () => {
      for (const [label, text] of Object.entries(fields)) await page.getByLabel(label).fill(text);
      for (const [label, option] of Object.entries(choices)) await page.getByLabel(label).selectOption({ label: option });
      await page.getByRole("button", { name: button, exact: true }).click();
    }),
  picture: ({ path }) => page.screenshot({ path, fullPage: true }),
  code: ({ secret, later }) => code(secret, later),
  complaints: () => complaints.filter(complaint => !isStatus(complaint)),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { name, ...rest } = JSON.parse(line);
  try {
    const answer = await commands[name](rest);
    console.log(JSON.stringify({ answer: name === "picture" ? null : answer }));
  } catch (error) {
    console.log(JSON.stringify({ error: `${name}: ${error}`, url: page.url() }));
  }
}
await browser.close();
