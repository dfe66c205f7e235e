// An engine with a scripted model and an API for its connections.
import { startEngine } from "./engine.mjs";
import { startModel } from "./model.mjs";
import { scripts } from "./scripts.mjs";
import { startApi } from "./services.mjs";

/** The cookie of a session that a key is exchanged for. */
export async function cookieOf(origin, key) {
  const response = await fetch(`${origin}/v1/console/sessions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Sortie-Console": "1", Origin: origin },
    body: JSON.stringify({ key }),
  });
  const [pair] = response.headers.getSetCookie();
  if (!pair) throw new Error(`no session: ${response.status} ${await response.text()}`);
  const [name, value] = pair.split(";", 1)[0].split("=");
  return { name, value };
}

export async function startWorld({ env } = {}) {
  const model = await startModel(scripts);
  const orders = await startApi("secret");
  const engine = await startEngine({ config: model.config, env });
  return {
    engine,
    orders,
    close: async () => {
      await engine.close();
      model.close();
      orders.close();
    },
  };
}
