// The organization API of a hosted deployment.
import { json } from "./answers.mjs";
import { ids } from "./ids.mjs";

export function organizations(method, path, body, data, response) {
  const [, , organization, area, id] = path.split("/");
  if (!organization) {
    if (method === "GET") return json(response, 200, data.organizations);
    data.organizations.push({ ...body, id: "org_new", role: "owner" });
    return json(response, 201, data.organizations.at(-1));
  }
  if (method === "DELETE") return json(response, 204);
  if (area === "keys" && method === "POST")
    return json(response, 201, { ...body, id, key: "sts_4f9d0c2ab7e84c6f9a1e" });
  if (area === "keys") return json(response, 200, data.keys);
  if (area === "members") return json(response, 200, data.members);
  if (area === "invitations" && method === "POST") {
    const url = "https://accounts.example.com/invitations/accept?token=sti_example";
    const invitation = { ...body, id: "inv_2", expires_at: data.invitations[0].expires_at };
    data.invitations.push(invitation);
    return json(response, 201, { ...invitation, url, email_delivery: "unavailable" });
  }
  if (area === "invitations") return json(response, 200, data.invitations);
  if (id === "payments") {
    if (path.endsWith("/receipt")) return json(response, 200, { url: "/receipt" });
    return json(response, 200, { payments: data.payments, next_cursor: "" });
  }
  if (id === "auto-topup") {
    Object.assign(data.billing.auto_topup, body);
    return json(response, 200, data.billing.auto_topup);
  }
  if (id === "ledger") return json(response, 200, { ledger: data.billing.ledger, next_cursor: "" });
  if (id === "portal") return json(response, 200, { url: "/portal" });
  if (id === "checkout") return json(response, 200, { url: "/checkout" });
  json(response, 200, data.billing);
}

export const hosted = (at) => ({
  organizations: [],
  members: [
    { id: "user_1", email: "ann@example.com", name: "Ann", role: "owner" },
    { id: "user_2", email: "bob@example.com", name: "Bob", role: "admin" },
    { id: "user_3", email: "dana@example.com", name: "", role: "member" },
  ],
  invitations: [
    { id: "inv_1", email: "eve@example.com", role: "member", created_at: at(9000), expires_at: at(-500_000) },
  ],
  billing: {
    balance_micros: 61_400_000,
    reserved_micros: 3_100_000,
    available_micros: 58_300_000,
    purchase_limits: { min_amount_cents: 500, max_amount_cents: 1_000_000, min_threshold_cents: 500 },
    auto_topup: {
      enabled: true,
      threshold_cents: 1000,
      amount_cents: 5000,
      payment_method_saved: true,
      last_topup_status: "succeeded",
    },
    payment_method: { brand: "visa", last4: "4242", exp_month: 8, exp_year: 2029, source: "checkout" },
    payment_method_sync: "synced",
    ledger: [
      { kind: "charge", amount_micros: -204_000, description: "run", created_at: at(7300), run_id: ids.done },
      { kind: "charge", amount_micros: -18_000, description: "run", created_at: at(7900), run_id: ids.failed },
      { kind: "purchase", amount_micros: 50_000_000, description: "automatic purchase", created_at: at(9000) },
      { kind: "charge", amount_micros: -871_000, description: "run", created_at: at(40_000), run_id: ids.timedOut },
      { kind: "refund", amount_micros: -5_000_000, description: "refund", created_at: at(80_000) },
      { kind: "grant", amount_micros: 5_000_000, description: "welcome credits", created_at: at(90_000) },
    ],
  },
  payments: [
    { id: "pay_1", amount_cents: 5000, refunded_cents: 0, disputed_cents: 0, refund_status: "none", created_at: at(9000) },
    {
      id: "pay_2",
      amount_cents: 2500,
      refunded_cents: 500,
      disputed_cents: 0,
      refund_status: "partial",
      created_at: at(900_000),
    },
  ],
});
