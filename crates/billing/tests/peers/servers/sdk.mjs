// Reads objects and webhooks with Stripe's library for Node: node sdk.mjs NPM URL KEY IDS WEBHOOKS
// NPM is the folder of the installed packages. The rest is as for sdk.py; `signed` is a header that the library made.
import { createRequire } from 'node:module';

const [npm, url, key, idsText, webhooksText] = process.argv.slice(2);
const Stripe = createRequire(`${npm}/`)('stripe');
const [ids, webhooks] = [JSON.parse(idsText), JSON.parse(webhooksText)];
const { hostname, port } = new URL(url);
const of = (secret) => new Stripe(secret, { host: hostname, port, protocol: 'http', maxNetworkRetries: 0 });
const client = of(key);

const read = async () => {
  const customer = await client.customers.retrieve(ids.customer, { expand: ['invoice_settings.default_payment_method'] });
  const session = await client.checkout.sessions.retrieve(ids.session, { expand: ['payment_intent.latest_charge'] });
  const intent = session.payment_intent;
  const charge = intent.latest_charge;
  const refund = await client.refunds.retrieve(ids.refund);
  const dispute = await client.disputes.retrieve(ids.dispute);
  const subscription = await client.subscriptions.retrieve(ids.subscription);
  const late = await client.subscriptions.retrieve(ids.late_subscription);
  const event = (await client.events.list({ type: 'charge.refunded', limit: 1 })).data[0];
  const portal = await client.billingPortal.sessions.create({ customer: ids.customer, return_url: 'https://a.example/' });
  const all = [customer, session, intent, charge, refund, dispute, subscription, event, event.data.object, portal];
  return {
    classes: all.map((one) => one.object),
    card: customer.invoice_settings.default_payment_method.card.last4,
    topup: intent.metadata.topup,
    charge: [charge.amount, charge.amount_refunded, charge.payment_method_details.card.last4],
    moved: dispute.balance_transactions.reduce((sum, one) => sum + one.amount, 0),
    price: subscription.items.data[0].price.id,
    late: [late.status, late.cancel_at - late.items.data[0].current_period_end],
  };
};

const page = async () => {
  const all = [];
  for await (const event of client.events.list({ limit: 2 })) all.push(event.id);
  return [all.length, new Set(all).size];
};

const failure = async (call) => {
  try {
    await call();
  } catch (error) {
    return [error.type, error.statusCode, error.code ?? null];
  }
  return null;
};

const offSession = (method, more) => () => client.paymentIntents.create({
  amount: 4000, currency: 'usd', customer: ids.customer, payment_method: method, off_session: true, confirm: true,
  metadata: { topup: 'topup_9' }, ...more,
}, { idempotencyKey: `key-${method}` });

const verdict = ({ body, header, secret }) => {
  try {
    return client.webhooks.constructEvent(body, header, secret).id;
  } catch (error) {
    if (error.type === 'StripeSignatureVerificationError') return null;
    throw error;
  }
};

const failures = [
  await failure(offSession(ids.declined)),
  await failure(offSession(ids.needs_authentication)),
  await failure(offSession(ids.good)),
  await failure(offSession(ids.good, { amount: 4001 })),
  await failure(() => client.charges.retrieve('ch_none')),
  await failure(() => client.customers.create({ nonsense: 'x' })),
  await failure(() => of('sk_test_wrong').customers.retrieve(ids.customer)),
];
const [{ body, secret }] = webhooks;
const signed = client.webhooks.generateTestHeaderString({ payload: body, secret });
console.log(JSON.stringify({
  read: await read(), page: await page(), failures, webhooks: webhooks.map(verdict), signed,
}));
