// Purchases of credits: the payment page, automatic purchases, payments and receipts.
import { useState } from "preact/hooks";
import { call, organization, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { parseMoney, plainMoney } from "../../model/money.ts";
import { dateTime } from "../../model/time.ts";
import { hostedText } from "../../text/hosted.ts";
import { Badge, Button, Loaded, Time } from "../../ui/basics.tsx";
import { ask, Dialog } from "../../ui/dialog.tsx";
import { Check, TextField } from "../../ui/form.tsx";
import { Icon } from "../../ui/icon.tsx";
import { attempt, FormDialog } from "./common.tsx";

const texts = hostedText.credits;
export const org = organization ?? "";
const MICROS_PER_CENT = 10_000;
const ofCents = (cents: number) => plainMoney(cents * MICROS_PER_CENT);

const centsOf = (text: string) => {
  const micros = parseMoney(text);
  return micros === undefined ? undefined : Math.round(micros / MICROS_PER_CENT);
};

const toProvider = ({ url }: Api.ProviderPage) => location.assign(url);

interface AmountProps {
  label: string;
  hint: string;
  name: string;
  value: string;
  messages: Map<string, string>;
  onText: (text: string) => void;
}

const Amount = ({ name, value, messages, ...rest }: AmountProps) => (
  <TextField
    error={centsOf(value) === undefined ? texts.notAmount : messages.get(name)}
    inputMode="decimal"
    value={value}
    {...rest}
  />
);

export function Buy({ limits, onClose }: { limits: Api.Billing["purchase_limits"]; onClose: () => void }) {
  const [amount, setAmount] = useState("$25");
  const [isSaved, setSaved] = useState(false);
  const cents = centsOf(amount);
  const submit = async () => {
    const body = { amount_cents: cents ?? 0, save_payment_method: isSaved };
    toProvider(await call("POST /v1/organizations/{org}/billing/checkout", { path: { org }, body }));
  };
  return (
    <FormDialog
      title={texts.buy}
      submit={texts.toCheckout}
      isReady={cents !== undefined}
      onClose={onClose}
      onSubmit={submit}
    >
      {(messages) => (
        <>
          <Amount
            label={texts.amount}
            hint={texts.amountHint(ofCents(limits.min_amount_cents), ofCents(limits.max_amount_cents))}
            name="amount_cents"
            value={amount}
            messages={messages}
            onText={setAmount}
          />
          <Check isOn={isSaved} onChange={setSaved}>
            {texts.saveCard}
          </Check>
        </>
      )}
    </FormDialog>
  );
}

/** The text to which the person agrees, as the description of the API has it. */
function consentOf({ payment_method: card }: Api.Billing, amount: number, threshold: number): string {
  const name = card ? texts.cardNow(card.brand, card.last4) : "";
  return texts.consent(ofCents(amount), name, ofCents(threshold));
}

function EditAutomatic({
  billing,
  onClose,
  onSaved,
}: {
  billing: Api.Billing;
  onClose: () => void;
  onSaved: () => void;
}) {
  const { auto_topup: saved, purchase_limits: limits } = billing;
  const [threshold, setThreshold] = useState(ofCents(saved.threshold_cents ?? 1000));
  const [amount, setAmount] = useState(ofCents(saved.amount_cents ?? 5000));
  const [isAgreed, setAgreed] = useState(false);
  const cents = { threshold: centsOf(threshold), amount: centsOf(amount) };
  const submit = async () => {
    await call("PUT /v1/organizations/{org}/billing/auto-topup", {
      path: { org },
      body: {
        enabled: true,
        threshold_cents: cents.threshold ?? 0,
        amount_cents: cents.amount ?? 0,
        consent: isAgreed,
      },
    });
    onSaved();
  };
  return (
    <FormDialog
      title={texts.automatic}
      submit={texts.switchOn}
      isReady={isAgreed && cents.threshold !== undefined && cents.amount !== undefined}
      onClose={onClose}
      onSubmit={submit}
    >
      {(messages) => (
        <>
          <div class="two">
            <Amount
              label={texts.threshold}
              hint={texts.atLeast(ofCents(limits.min_threshold_cents))}
              name="threshold_cents"
              value={threshold}
              messages={messages}
              onText={setThreshold}
            />
            <Amount
              label={texts.amount}
              hint={texts.amountHint(ofCents(limits.min_amount_cents), ofCents(limits.max_amount_cents))}
              name="amount_cents"
              value={amount}
              messages={messages}
              onText={setAmount}
            />
          </div>
          <Check isOn={isAgreed} onChange={setAgreed}>
            {consentOf(billing, cents.amount ?? 0, cents.threshold ?? 0)}
          </Check>
        </>
      )}
    </FormDialog>
  );
}

/** Whether credits are bought automatically, how much, with which card, and how the last purchase went. */
export function AutomaticPurchase({ billing, onChanged }: { billing: Api.Billing; onChanged: () => void }) {
  const [isEditing, setEditing] = useState(false);
  const { auto_topup: automatic, payment_method: card } = billing;
  const switchOff = () =>
    ask({
      title: texts.switchOffTitle,
      explain: texts.switchOffExplain,
      confirm: texts.switchOff,
      act: () =>
        attempt(
          call("PUT /v1/organizations/{org}/billing/auto-topup", { path: { org }, body: { enabled: false } }),
          onChanged,
        ),
    });
  const last = automatic.last_topup_status;
  return (
    <section class="card automatic">
      <header>
        <h2>{texts.automatic}</h2>
        <Badge look={automatic.enabled ? "ok" : "idle"} icon={automatic.enabled ? "check" : "stop"}>
          {automatic.enabled ? texts.on : texts.off}
        </Badge>
        <span class="gap" />
        {automatic.enabled && (
          <Button kind="ghost" onClick={switchOff}>
            {texts.switchOff}
          </Button>
        )}
        {automatic.payment_method_saved && (
          <Button onClick={() => setEditing(true)}>{automatic.enabled ? texts.change : texts.switchOn}</Button>
        )}
      </header>
      <p class="sub">
        {automatic.enabled && automatic.amount_cents !== null && automatic.threshold_cents !== null
          ? texts.adds(ofCents(automatic.amount_cents), ofCents(automatic.threshold_cents))
          : automatic.payment_method_saved
            ? texts.offExplain
            : texts.noCard}
      </p>
      {(last === "failed" || last === "requires_action") && <p class="bad">{texts.lastPurchase[last]}</p>}
      {card && (
        <p class="saved-card">
          <Icon name="budget" />
          <span>{texts.card(card.brand, card.last4)}</span>
          <span class="dim">{texts.cardExpires(`${String(card.exp_month).padStart(2, "0")}/${card.exp_year}`)}</span>
          <span class="gap" />
          <Button
            kind="ghost"
            icon="link"
            onClick={() =>
              void attempt(call("POST /v1/organizations/{org}/billing/portal", { path: { org } }), toProvider)
            }
          >
            {texts.manageCard}
          </Button>
        </p>
      )}
      {isEditing && <EditAutomatic billing={billing} onClose={() => setEditing(false)} onSaved={onChanged} />}
    </section>
  );
}

/** What was given back of a payment, or is disputed. */
function returnedOf({ refunded_cents, disputed_cents }: Api.Payment): string {
  return [
    refunded_cents > 0 && texts.refunded(ofCents(refunded_cents)),
    disputed_cents > 0 && texts.disputed(ofCents(disputed_cents)),
  ]
    .filter(Boolean)
    .join(", ");
}

export function Payments({ onClose }: { onClose: () => void }) {
  const payments = useResource("payments", (signal) =>
    call("GET /v1/organizations/{org}/billing/payments", { path: { org }, query: { limit: 100 }, signal }),
  );
  return (
    <Dialog title={texts.payments} onClose={onClose} class="wide-form">
      <Loaded data={payments.data.value} error={payments.error.value} reload={payments.reload}>
        {({ payments: all }) =>
          all.length === 0 ? (
            <p class="none dim">{texts.noPayments}</p>
          ) : (
            <ul class="list people">
              {all.map((payment) => (
                <li key={payment.id}>
                  <b class="num">{ofCents(payment.amount_cents)}</b>
                  <Time at={payment.created_at}>{dateTime(payment.created_at)}</Time>
                  <span class="dim t">{returnedOf(payment)}</span>
                  <Button
                    onClick={() =>
                      void attempt(
                        call("GET /v1/organizations/{org}/billing/payments/{id}/receipt", {
                          path: { org, id: payment.id },
                        }),
                        toProvider,
                      )
                    }
                  >
                    {texts.receipt}
                  </Button>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Dialog>
  );
}
