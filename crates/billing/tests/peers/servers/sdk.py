"""Reads objects and webhooks with Stripe's library for Python: sdk.py URL KEY IDS WEBHOOKS

IDS is an object of JSON: identifiers by kind. WEBHOOKS is a list of `{body, header, secret}`. Prints what the library made of them.
"""

import json
import sys

import stripe

url, key, ids, webhooks = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
client = stripe.StripeClient(key, base_addresses={"api": url}, max_network_retries=0)
wrong = stripe.StripeClient("sk_test_wrong", base_addresses={"api": url}, max_network_retries=0)
v1 = client.v1


def read():
    customer = v1.customers.retrieve(ids["customer"], {"expand": ["invoice_settings.default_payment_method"]})
    session = v1.checkout.sessions.retrieve(ids["session"], {"expand": ["payment_intent.latest_charge"]})
    intent = session.payment_intent
    charge = intent.latest_charge
    refund = v1.refunds.retrieve(ids["refund"])
    dispute = v1.disputes.retrieve(ids["dispute"])
    subscription = v1.subscriptions.retrieve(ids["subscription"])
    late = v1.subscriptions.retrieve(ids["late_subscription"])
    found = [customer, session, intent, charge, refund, dispute, subscription]
    event = v1.events.list({"type": "charge.refunded", "limit": 1}).data[0]
    portal = v1.billing_portal.sessions.create({"customer": ids["customer"], "return_url": "https://a.example/"})
    return {
        "classes": [type(one).__name__ for one in found + [event, event.data.object, portal]],
        "card": customer.invoice_settings.default_payment_method.card.last4,
        "topup": intent.metadata["topup"],
        "charge": [charge.amount, charge.amount_refunded, charge.payment_method_details.card.last4],
        "moved": sum(one.amount for one in dispute.balance_transactions),
        "price": subscription["items"].data[0].price.id,
        "late": [late.status, late.cancel_at - late["items"].data[0].current_period_end],
    }


def page():
    everything = [one.id for one in v1.events.list({"limit": 2}).auto_paging_iter()]
    return [len(everything), len(set(everything))]


def failure(call):
    try:
        call()
    except stripe.StripeError as error:
        return [type(error).__name__, error.http_status, error.code]
    return None


def off_session(method, **more):
    fields = {
        "amount": 4000, "currency": "usd", "customer": ids["customer"], "payment_method": method, "off_session": True,
        "confirm": True, "metadata": {"topup": "topup_9"}, **more,
    }
    return lambda: v1.payment_intents.create(fields, {"idempotency_key": f"key-{method}"})


def verdict(webhook):
    try:
        event = stripe.Webhook.construct_event(webhook["body"], webhook["header"], webhook["secret"])
    except stripe.SignatureVerificationError:
        return None
    return event.id


failures = [
    failure(off_session(ids["declined"])),
    failure(off_session(ids["needs_authentication"])),
    failure(off_session(ids["good"])),
    failure(off_session(ids["good"], amount=4001)),
    failure(lambda: v1.charges.retrieve("ch_none")),
    failure(lambda: v1.customers.create({"nonsense": "x"})),
    failure(lambda: wrong.v1.customers.retrieve(ids["customer"])),
]
print(json.dumps({"read": read(), "page": page(), "failures": failures, "webhooks": [verdict(one) for one in webhooks]}))
