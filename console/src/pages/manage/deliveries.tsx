// Callbacks that failed or wait, over all runs.
import { call } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { age, until } from "../../model/time.ts";
import { href, query, setQuery } from "../../router.ts";
import { t } from "../../text/en.ts";
import { manageText } from "../../text/manage.ts";
import { Badge, Button, Empty, Loaded, Time } from "../../ui/basics.tsx";
import { Segments } from "../../ui/form.tsx";
import { toast } from "../../ui/toast.tsx";
import { Bar } from "../frame.tsx";
import { attempt } from "./common.tsx";

const texts = manageText.deliveries;
const LOOKS = {
  pending: ["live", undefined],
  retrying: ["warn", "clock"],
  delivered: ["ok", "check"],
  abandoned: ["bad", "cross"],
} as const;
const OPEN = "pending,retrying,abandoned";

export function DeliveriesPage() {
  const state = query.value.get("state") ?? OPEN;
  const deliveries = useResource(
    state,
    (signal) => call("GET /v1/deliveries", { query: new URLSearchParams({ limit: "100", state }), signal }),
    30_000,
  );
  const { columns } = texts;
  const again = (id: string) =>
    attempt(call("POST /v1/runs/{id}/deliveries", { path: { id } }), ({ attempt: number }) => {
      toast(texts.sent(number));
      deliveries.reload();
    });
  return (
    <main class="main-inner">
      <Bar title={texts.title} />
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <Segments
          label={texts.filter}
          value={state}
          options={[
            [OPEN, texts.open],
            ["retrying", texts.states.retrying!],
            ["abandoned", texts.states.abandoned!],
            ["delivered", texts.states.delivered!],
          ]}
          onChoose={(next) => setQuery({ state: next === OPEN ? undefined : next })}
        />
        <section class="card">
          <Loaded data={deliveries.data.value} error={deliveries.error.value} reload={deliveries.reload}>
            {({ items }) =>
              items.length === 0 ? (
                <Empty icon="send" title={texts.emptyTitle}>
                  <p class="sub">{texts.empty}</p>
                </Empty>
              ) : (
                <table>
                  <thead>
                    <tr>
                      <th scope="col">{columns.state}</th>
                      <th scope="col">{columns.run}</th>
                      <th scope="col" class="opt">
                        {columns.receiver}
                      </th>
                      <th scope="col" class="r opt">
                        {columns.attempts}
                      </th>
                      <th scope="col" class="opt">
                        {columns.last}
                      </th>
                      <th scope="col">{columns.next}</th>
                      <th scope="col">
                        <span class="vh">{texts.again}</span>
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {items.map((one) => {
                      const [look, icon] = LOOKS[one.state];
                      return (
                        <tr key={one.run_id}>
                          <td>
                            <Badge look={look} {...(icon && { icon })}>
                              {texts.states[one.state]}
                            </Badge>
                          </td>
                          <td>
                            <a class="as-link mono" href={href(`/runs/${one.run_id}?tab=deliveries`)}>
                              …{one.run_id.slice(-8)}
                            </a>
                          </td>
                          <td class="opt">{one.receiver}</td>
                          <td class="r opt">{one.attempts}</td>
                          <td class="opt sub">
                            {one.error ?? one.status}{" "}
                            {one.last_attempt_at && (
                              <span class="dim">
                                · {t.common.ago(age(Date.now() - Date.parse(one.last_attempt_at)))}
                              </span>
                            )}
                          </td>
                          <td>
                            {one.next_at ? (
                              <Time at={one.next_at}>{until(one.next_at, Date.now())}</Time>
                            ) : (
                              <span class="dim">{t.common.none}</span>
                            )}
                          </td>
                          <td class="r">
                            <Button icon="send" kind="ghost" onClick={() => void again(one.run_id)}>
                              {texts.again}
                            </Button>
                          </td>
                        </tr>
                      );
                    })}
                  </tbody>
                </table>
              )
            }
          </Loaded>
        </section>
      </div>
    </main>
  );
}
