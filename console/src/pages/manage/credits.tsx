// Credits of a hosted organization: balance, latest entries, and the way to the payment page.
import { useState } from "preact/hooks";
import { call, organization, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { money, parseMoney, plainMoney } from "../../model/money.ts";
import { dateTime } from "../../model/time.ts";
import { href } from "../../router.ts";
import { hostedText } from "../../text/hosted.ts";
import { Button, Loaded, Time } from "../../ui/basics.tsx";
import { TextField } from "../../ui/form.tsx";
import { Bar } from "../frame.tsx";
import { FormDialog } from "./common.tsx";

const texts = hostedText.credits;
const org = organization ?? "";
const MICROS_PER_CENT = 10_000;
const ofCents = (cents: number) => plainMoney(cents * MICROS_PER_CENT);

function Buy({ limits, onClose }: { limits: Api.Billing["purchase_limits"]; onClose: () => void }) {
  const [amount, setAmount] = useState("$25");
  const micros = parseMoney(amount);
  const submit = async () => {
    const body = { amount_cents: Math.round((micros ?? 0) / MICROS_PER_CENT) };
    const { url } = await call("POST /v1/organizations/{org}/billing/checkout", { path: { org }, body });
    location.assign(url);
  };
  return (
    <FormDialog
      title={texts.buy}
      submit={texts.toCheckout}
      isReady={micros !== undefined}
      onClose={onClose}
      onSubmit={submit}
    >
      {(messages) => (
        <TextField
          label={texts.amount}
          hint={texts.amountHint(ofCents(limits.min_amount_cents), ofCents(limits.max_amount_cents))}
          error={micros === undefined ? texts.notAmount : messages.get("amount_cents")}
          inputMode="decimal"
          value={amount}
          onText={setAmount}
        />
      )}
    </FormDialog>
  );
}

const Ledger = ({ entries }: { entries: Api.LedgerEntry[] }) => (
  <table>
    <thead>
      <tr>
        <th scope="col">{texts.columns.description}</th>
        <th scope="col" class="r">
          {texts.columns.amount}
        </th>
        <th scope="col" class="r opt">
          {texts.columns.at}
        </th>
      </tr>
    </thead>
    <tbody>
      {entries.map(({ amount_micros, description, created_at, run_id }) => (
        <tr key={created_at + description}>
          <td>
            {run_id ? (
              <a class="as-link" href={href(`/runs/${run_id}`)}>
                {description}
              </a>
            ) : (
              description
            )}
          </td>
          <td class="r">{money(amount_micros)}</td>
          <td class="r opt dim">
            <Time at={created_at}>{dateTime(created_at)}</Time>
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);

export function CreditsPage() {
  const billing = useResource("billing", (signal) =>
    call("GET /v1/organizations/{org}/billing", { path: { org }, signal }),
  );
  const [isBuying, setBuying] = useState(false);
  const data = billing.data.value;
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        {data?.stripe_configured && (
          <Button icon="plus" kind="primary" onClick={() => setBuying(true)}>
            {texts.buy}
          </Button>
        )}
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <Loaded data={data} error={billing.error.value} reload={billing.reload}>
          {({ available_micros, reserved_micros, balance_micros, ledger, stripe_configured }) => (
            <>
              <section class="card">
                <dl class="kpis three">
                  {[
                    [texts.available, available_micros] as const,
                    [texts.reserved, reserved_micros] as const,
                    [texts.balance, balance_micros] as const,
                  ].map(([name, micros]) => (
                    <div class="kpi" key={name}>
                      <dt>{name}</dt>
                      <dd>{money(micros)}</dd>
                    </div>
                  ))}
                </dl>
              </section>
              {!stripe_configured && <p class="dim">{texts.unavailable}</p>}
              <section class="card scroll">
                <header>
                  <h2>{texts.ledger}</h2>
                </header>
                {ledger.length ? <Ledger entries={ledger} /> : <p class="none dim">{texts.none}</p>}
              </section>
            </>
          )}
        </Loaded>
      </div>
      {isBuying && data && <Buy limits={data.purchase_limits} onClose={() => setBuying(false)} />}
    </main>
  );
}
