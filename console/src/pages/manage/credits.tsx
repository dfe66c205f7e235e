// Credits of a hosted organization: what is available, automatic purchases, and the ledger.
import { useState } from "preact/hooks";
import { call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { money } from "../../model/money.ts";
import { dateTime } from "../../model/time.ts";
import { href } from "../../router.ts";
import { features } from "../../session.ts";
import { t } from "../../text/en.ts";
import { hostedText } from "../../text/hosted.ts";
import { Button, Chip, Loaded, Meter, Time } from "../../ui/basics.tsx";
import { Bar } from "../frame.tsx";
import { AutomaticPurchase, Buy, org, Payments } from "./purchases.tsx";
import { attempt } from "./common.tsx";

const texts = hostedText.credits;

const Available = ({ billing }: { billing: Api.Billing }) => (
  <section class="card available">
    <h2 class="dim">{texts.available}</h2>
    <p class="large-figure">{money(billing.available_micros)}</p>
    <Meter
      label={texts.available}
      used={Math.max(0, billing.available_micros)}
      held={billing.reserved_micros}
      whole={billing.available_micros + billing.reserved_micros}
      isLevel
    />
    <p class="dim">
      {texts.balance(money(billing.balance_micros))}
      {billing.reserved_micros > 0 && ` · ${texts.held(money(billing.reserved_micros))}`}
    </p>
  </section>
);

const Ledger = ({ entries }: { entries: Api.LedgerEntry[] }) => (
  <table>
    <thead>
      <tr>
        <th scope="col" class="opt">
          {texts.columns.kind}
        </th>
        <th scope="col">{texts.columns.description}</th>
        <th scope="col" class="opt">
          {texts.columns.at}
        </th>
        <th scope="col" class="r">
          {texts.columns.amount}
        </th>
      </tr>
    </thead>
    <tbody>
      {entries.map(({ kind, amount_micros, description, created_at, run_id }) => (
        <tr key={created_at + description + amount_micros}>
          <td class="opt">
            <Chip>{texts.kinds[kind] ?? kind}</Chip>
          </td>
          <td>
            {run_id ? (
              <a class="as-link" href={href(`/runs/${run_id}`)}>
                {description} <span class="mono dim">…{run_id.slice(-8)}</span>
              </a>
            ) : (
              description
            )}
          </td>
          <td class="opt dim">
            <Time at={created_at}>{dateTime(created_at)}</Time>
          </td>
          <td class={`r ${amount_micros > 0 ? "good" : ""}`}>
            {amount_micros > 0 && "+"}
            {money(amount_micros)}
          </td>
        </tr>
      ))}
    </tbody>
  </table>
);

/** The newest entries come with the balance; older ones are read when they are asked for. */
function LedgerCard({ newest }: { newest: Api.LedgerEntry[] }) {
  const [older, setOlder] = useState<Api.LedgerPage>();
  const entries = older?.ledger ?? newest;
  const load = () =>
    void attempt(
      call("GET /v1/organizations/{org}/billing/ledger", {
        path: { org },
        query: { limit: 100, ...(older && { cursor: older.next_cursor }) },
      }),
      (page) => setOlder({ ...page, ledger: [...(older?.ledger ?? []), ...page.ledger] }),
    );
  const hasMore = older ? older.next_cursor !== "" : newest.length >= PAGE;
  return (
    <section class="card scroll">
      <header>
        <h2>{texts.ledger}</h2>
      </header>
      {entries.length ? <Ledger entries={entries} /> : <p class="none dim">{texts.none}</p>}
      {hasMore && (
        <div class="pager">
          <span class="gap" />
          <Button onClick={load}>{t.common.older}</Button>
        </div>
      )}
    </section>
  );
}

// Entries that come with the balance.
const PAGE = 100;

export function CreditsPage() {
  const billing = useResource("billing", (signal) =>
    call("GET /v1/organizations/{org}/billing", { path: { org }, signal }),
  );
  const [shown, setShown] = useState<"buy" | "payments">();
  const data = billing.data.value;
  const hasPayments = features()?.payments;
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        {hasPayments && (
          <>
            <Button class="wide" onClick={() => setShown("payments")}>
              {texts.payments}
            </Button>
            <Button icon="plus" kind="primary" onClick={() => setShown("buy")}>
              {texts.buy}
            </Button>
          </>
        )}
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <Loaded data={data} error={billing.error.value} reload={billing.reload}>
          {(all) => (
            <>
              <div class={hasPayments ? "g2" : "grid"}>
                <Available billing={all} />
                {hasPayments && <AutomaticPurchase billing={all} onChanged={billing.reload} />}
              </div>
              {hasPayments === false && <p class="dim">{texts.unavailable}</p>}
              <LedgerCard newest={all.ledger} />
            </>
          )}
        </Loaded>
      </div>
      {shown === "buy" && data && <Buy limits={data.purchase_limits} onClose={() => setShown(undefined)} />}
      {shown === "payments" && <Payments onClose={() => setShown(undefined)} />}
    </main>
  );
}
