// Checks of a page for people who cannot see it, use a keyboard, or have a small screen.
import axe from "axe-core";

const RULES = {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  preload: false,
};

const firstLine = ({ html, any, all }) => `${html.slice(0, 160)} ${[...any, ...all][0]?.message ?? ""}`;

/** Findings of axe, and of a page that is wider than the screen, as texts. Waits until the page has loaded. */
export async function audit(page) {
  await page.locator(".skeleton").first().waitFor({ state: "detached" });
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate((rules) => globalThis.axe.run(document, rules), RULES);
  const excess = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  return [
    ...(excess > 0 ? [`${excess} pixels too wide`] : []),
    ...violations.map(({ id, nodes }) => `${id}: ${nodes.map(firstLine).slice(0, 3).join("\n    ")}`),
  ];
}
