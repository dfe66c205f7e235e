// Journey 18: a person of a hosted deployment, from the sign-up to a paid run, with a mail server and the double of Stripe.
import assert from "node:assert/strict";
import { freePort, startEngine } from "./engine.mjs";
import { startModel } from "./model.mjs";
import { scripts } from "./scripts.mjs";
import { startMail, startStripe } from "./services.mjs";

const PASSWORD = "correct horse battery 7";

/** A hosted engine with everything that it needs, at its organization listener. */
async function deployment() {
  const mail = await startMail();
  const stripe = await startStripe();
  const model = await startModel(scripts);
  const org = `127.0.0.1:${await freePort()}`;
  const listen = `127.0.0.1:${await freePort()}`;
  const engine = await startEngine({
    config: model.config,
    env: {
      ...stripe.env,
      SORTIE_MODE: "hosted",
      SORTIE_LISTEN: listen,
      SORTIE_ADVERTISE_URL: `http://${listen}`,
      SORTIE_ORG_LISTEN: org,
      SORTIE_ORG_URL: `http://${org}`,
      SORTIE_SMTP_URL: mail.url,
      SORTIE_MAIL_FROM: "Sortie <sortie@example.com>",
      SORTIE_LICENSE_SIGNING_KEY: "5c".repeat(32),
    },
  });
  const origin = `http://${org}`;
  await stripe.sendEventsTo(`${origin}/v1/webhooks/stripe`);
  return {
    server: { origin },
    mail,
    close: async () => {
      await engine.close();
      for (const one of [mail, stripe, model]) one.close();
    },
  };
}

export default {
  async "18 signs up, names an organization, makes a key, buys credits, starts a run"({ open }) {
    const { server, mail, close } = await deployment();
    try {
      const { page, audit } = await open({ server, isSignedIn: false });
      await page.goto(`${server.origin}/sign-up`);
      await page.getByLabel("Name").fill("Ann");
      await page.getByLabel("Email").fill("ann@example.com");
      await page.getByLabel("Password").fill(PASSWORD);
      await audit();
      await page.getByRole("button", { name: /Sign up|Continue|Create/ }).click();
      await page.goto(await mail.link("ann@example.com"));
      await page.getByRole("button").first().click();
      await page.goto(`${server.origin}/console/`);
      await page.getByLabel("Name").fill("Example Inc.");
      await audit();
      await page.getByRole("button", { name: "Create organization" }).click();
      await page.waitForURL(/console\/o\/org_\w+\/runs/);
      const home = page.url().replace(/\/runs$/, "");
      await page.getByText("No runs yet").waitFor();
      await audit();
      await page.getByRole("link", { name: "Keys" }).click();
      await page.getByRole("button", { name: "New key" }).first().click();
      await page.getByLabel("Name").fill("first");
      await page.getByRole("button", { name: "Create" }).click();
      await page.getByRole("button", { name: "I have saved it" }).click();
      await page.getByRole("link", { name: "Credits" }).click();
      await page.getByRole("button", { name: "Buy credits" }).click();
      await page.getByText("Save the card").click();
      await page.getByRole("button", { name: "Continue to payment" }).click();
      await page.getByRole("button", { name: "Pay with the card good" }).click();
      await page.waitForURL(/billing\/paid/);
      await page.goto(`${home}/credits`);
      await page.getByText("$25").first().waitFor();
      await audit();
      await page.getByRole("button", { name: "Turn on" }).click();
      await page.getByText("Charge $50").click();
      await audit();
      await page.getByRole("dialog").getByRole("button", { name: "Turn on" }).click();
      await page.getByText("Buys $50 when less than $10 is available.").waitFor();
      await page.getByRole("button", { name: "Payments and receipts" }).click();
      await page.getByRole("dialog").getByText("$25").waitFor();
      await page.keyboard.press("Escape");
      await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Runs" }).click();
      await page.getByRole("link", { name: "New run" }).first().click();
      await page.getByLabel("Prompt", { exact: true }).fill("script:writes");
      await page.getByRole("button", { name: "Shell" }).click();
      await page.getByRole("button", { name: "Start" }).click();
      await page.locator(".answer").getByText("lazy dog").first().waitFor();

      await page.getByRole("link", { name: "Members" }).click();
      await page.getByRole("button", { name: "Invite" }).click();
      await page.getByLabel("Email address").fill("bob@example.com");
      await page.getByRole("dialog").getByRole("button", { name: "Invite" }).click();
      await page.getByText("The mail is on its way").waitFor();
      await page.getByRole("button", { name: "Done" }).click();
      await page.getByText("bob@example.com").waitFor();
      assert.match(await mail.link("bob@example.com"), /invitation/);
    } finally {
      await close();
    }
  },
};
