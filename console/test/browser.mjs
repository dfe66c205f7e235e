// A browser for the tests: a page that fails the test on any violation of the content policy and any error.
import { chromium } from "playwright-core";

export const NOW = Date.UTC(2026, 10, 22, 9, 41, 58);

export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--host-resolver-rules=MAP console.test 127.0.0.1"],
  });

// A request that the engine refuses is an error on the console of the browser as well; tests look for those themselves.
const EXPECTED = /Opener-Policy header has been ignored|Failed to load resource|net::ERR_|ERR_INCOMPLETE/;

const FIXED_SESSION = () => ({ name: "sortie-dev", value: "1" });

/** `cookie` makes the session of a page that is signed in. */
export async function openPage(
  browser,
  server,
  { width = 1440, scheme = "light", isSignedIn = true, now, bypassCSP = false, cookie = FIXED_SESSION } = {},
) {
  const isPhone = width < 761;
  const context = await browser.newContext({
    viewport: { width, height: isPhone ? 844 : 900 },
    colorScheme: scheme,
    deviceScaleFactor: isPhone ? 2 : 1,
    hasTouch: isPhone,
    bypassCSP,
    permissions: ["clipboard-read", "clipboard-write"],
  });
  if (isSignedIn) await context.addCookies([{ ...(await cookie(server)), url: server.origin }]);
  const page = await context.newPage();
  const problems = [];
  const foreign = [];
  await page.exposeFunction("reportViolation", (text) => problems.push(`policy: ${text}`));
  await page.addInitScript(() =>
    addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
      globalThis.reportViolation(`${violatedDirective} ${blockedURI} ${sample}`),
    ),
  );
  page.on("pageerror", (error) => problems.push(`error: ${error.stack}`));
  page.on(
    "console",
    (message) =>
      message.type() === "error" && !EXPECTED.test(message.text()) && problems.push(`console: ${message.text()}`),
  );
  page.on("dialog", (dialog) => problems.push(`dialog: ${dialog.message()}`));
  page.on(
    "request",
    (request) =>
      !request.url().startsWith(server.origin) && !request.url().startsWith("blob:") && foreign.push(request.url()),
  );
  if (now !== undefined) await page.clock.install({ time: now });
  return {
    page,
    context,
    problems,
    foreign,
    go: (path) => page.goto(`${server.origin}/console${path.replace(/@(\w+)/g, (whole, name) => server.ids?.[name] ?? whole)}`),
  };
}
