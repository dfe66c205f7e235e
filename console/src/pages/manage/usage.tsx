// Cost, runs and tokens by day and by what caused them.
import { call, type Api } from "../../api/client.ts";
import { useResource } from "../../api/resource.ts";
import { money, plainMoney } from "../../model/money.ts";
import { count, percent } from "../../model/time.ts";
import { query, setQuery } from "../../router.ts";
import { isAdmin } from "../../session.ts";
import { manageText } from "../../text/manage.ts";
import { Button, Empty, Loaded } from "../../ui/basics.tsx";
import { Segments } from "../../ui/form.tsx";
import { StackedBars, type Series } from "../../ui/chart.tsx";
import { Bar } from "../frame.tsx";

const texts = manageText.usage;
const DAY = 86_400_000;
const SHOWN = 5;

type By = "workflow" | "model" | "key";
const FIELDS = { workflow: "workflow", model: "model", key: "key_id" } as const;

const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);
const nameOf = (row: Api.UsageRow, by: By) => row[FIELDS[by]] ?? texts.adHoc;

interface Sum {
  name: string;
  cost: number;
  runs: number;
  succeeded: number;
  input: number;
  output: number;
}

function sumsOf(rows: Api.UsageRow[], by: By): Sum[] {
  const sums = new Map<string, Sum>();
  for (const row of rows) {
    const name = nameOf(row, by);
    const sum = sums.get(name) ?? { name, cost: 0, runs: 0, succeeded: 0, input: 0, output: 0 };
    sum.cost += row.cost_micros;
    sum.runs += row.runs;
    sum.succeeded += row.succeeded;
    sum.input += row.usage.input_tokens + row.usage.cache_read_tokens + row.usage.cache_write_tokens;
    sum.output += row.usage.output_tokens;
    sums.set(name, sum);
  }
  return [...sums.values()].sort((a, b) => b.cost - a.cost);
}

function seriesOf({ rows }: Api.Usage, by: By, days: string[], names: string[]): Series[] {
  const cells = new Map(rows.map((row) => [`${row.day} ${nameOf(row, by)}`, row.cost_micros]));
  return names.map((name) => ({ name, values: days.map((day) => cells.get(`${day} ${name}`) ?? 0) }));
}

function download(rows: Api.UsageRow[], by: By) {
  const cell = (value: unknown) => `"${String(value ?? "").replaceAll('"', '""')}"`;
  const lines = rows.map((row) =>
    [
      row.day,
      nameOf(row, by),
      row.runs,
      row.succeeded,
      row.cost_micros,
      row.usage.input_tokens,
      row.usage.output_tokens,
    ]
      .map(cell)
      .join(","),
  );
  const link = document.createElement("a");
  link.href = URL.createObjectURL(
    new Blob([`day,${by},runs,succeeded,cost_micros,input_tokens,output_tokens\n${lines.join("\n")}\n`], {
      type: "text/csv",
    }),
  );
  link.download = `usage-by-${by}.csv`;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function UsagePage() {
  const period = query.value.get("days") ?? "30";
  const by = (query.value.get("by") ?? "workflow") as By;
  const to = dayOf(Date.now());
  const from = dayOf(Date.now() - (Number(period) - 1) * DAY);
  const usage = useResource(`${from} ${by} ${isAdmin()}`, (signal) =>
    call(isAdmin() ? "GET /v1/admin/usage" : "GET /v1/usage", { query: { from, to, by: `day,${by}` }, signal }),
  );
  return (
    <main class="main-inner">
      <Bar title={texts.title}>
        <Segments
          label={texts.title}
          value={period}
          options={Object.entries(texts.periods)}
          onChoose={(days) => setQuery({ days })}
        />
      </Bar>
      <div class="page">
        <h1 class="vh">{texts.title}</h1>
        <Loaded data={usage.data.value} error={usage.error.value} reload={usage.reload}>
          {(data) => {
            if (data.rows.length === 0)
              return (
                <section class="card">
                  <Empty icon="usage" title={texts.none} />
                </section>
              );
            const sums = sumsOf(data.rows, by);
            const days = Array.from({ length: Number(period) }, (_, index) => dayOf(Date.parse(from) + index * DAY));
            const { totals } = data;
            const read = totals.usage.input_tokens + totals.usage.cache_read_tokens + totals.usage.cache_write_tokens;
            return (
              <>
                <section class="card">
                  <dl class="kpis four">
                    <div class="kpi">
                      <dt>{texts.cost}</dt>
                      <dd>{money(totals.cost_micros)}</dd>
                    </div>
                    <div class="kpi">
                      <dt>{texts.runs}</dt>
                      <dd>{totals.runs.toLocaleString("en-US")}</dd>
                    </div>
                    <div class="kpi">
                      <dt>{texts.succeeded}</dt>
                      <dd>{percent(totals.succeeded, totals.runs)} %</dd>
                    </div>
                    <div class="kpi">
                      <dt>{texts.tokens}</dt>
                      <dd>
                        {count(read)} <small>{texts.input.toLowerCase()}</small> {count(totals.usage.output_tokens)}{" "}
                        <small>{texts.output.toLowerCase()}</small>
                      </dd>
                    </div>
                  </dl>
                </section>
                <section class="card">
                  <header>
                    <h2>{texts.perDay}</h2>
                    <span class="gap" />
                    <Segments
                      label={texts.by}
                      value={by}
                      options={[
                        ["workflow", texts.dimensions.workflow!],
                        ["model", texts.dimensions.model!],
                        ["key", texts.dimensions.key!],
                      ]}
                      onChoose={(next) => setQuery({ by: next })}
                    />
                  </header>
                  <StackedBars
                    label={texts.chart(money(totals.cost_micros), days.length)}
                    ticks={days}
                    series={seriesOf(
                      data,
                      by,
                      days,
                      sums.slice(0, SHOWN).map(({ name }) => name),
                    )}
                    least={10_000}
                    format={money}
                    axis={plainMoney}
                  />
                </section>
                <section class="card scroll">
                  <header>
                    <h2>{texts.dimensions[by]}</h2>
                    <span class="gap" />
                    <Button icon="download" onClick={() => download(data.rows, by)}>
                      {texts.csv}
                    </Button>
                  </header>
                  <table>
                    <thead>
                      <tr>
                        <th scope="col">{texts.dimensions[by]}</th>
                        <th scope="col" class="r">
                          {texts.cost}
                        </th>
                        <th scope="col" class="r">
                          {texts.runs}
                        </th>
                        {[texts.succeeded, texts.input, texts.output].map((name) => (
                          <th key={name} scope="col" class="r opt">
                            {name}
                          </th>
                        ))}
                      </tr>
                    </thead>
                    <tbody>
                      {sums.map((sum) => (
                        <tr key={sum.name}>
                          <td>
                            <b>{sum.name}</b>
                          </td>
                          <td class="r">{money(sum.cost)}</td>
                          <td class="r">{sum.runs.toLocaleString("en-US")}</td>
                          <td class="r opt">{percent(sum.succeeded, sum.runs)} %</td>
                          <td class="r opt">{count(sum.input)}</td>
                          <td class="r opt">{count(sum.output)}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                </section>
              </>
            );
          }}
        </Loaded>
      </div>
    </main>
  );
}
